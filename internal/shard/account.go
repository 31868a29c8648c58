package shard

import (
	"sync/atomic"

	"golang.org/x/sync/semaphore"
)

// account is what one shard has reserved at the moment. It serves all goroutines of the shard.
type account struct {
	own, common atomic.Int64
	// big says that the shard has the one batch that is larger than a share.
	big atomic.Bool
}

// shard returns the limits l for one shard of the stream, with an account of its own.
func (l *StreamLimits) shard() *StreamLimits {
	return &StreamLimits{Limits: l.Limits, own: l.own, account: new(account)}
}

// add notes that n bytes of a semaphore were reserved, or given back where n is negative.
func (l *StreamLimits) add(of *semaphore.Weighted, n int64) {
	if of == l.own {
		l.account.own.Add(n)
	} else {
		l.account.common.Add(n)
	}
	l.used.Add(n)
}

// reclaim gives back all that the shard has reserved. Call it only when no goroutine of the shard
// runs; no hold of it may be used again.
func (l *StreamLimits) reclaim() {
	for _, one := range []struct {
		of    *semaphore.Weighted
		bytes int64
	}{{l.own, l.account.own.Load()}, {l.common, l.account.common.Load()}} {
		held := hold{from: one.of, bytes: one.bytes}
		l.release(&held)
	}
	if l.account.big.Load() {
		l.releaseBig()
	}
}

// tookBig notes that the shard has the batch that is larger than a share; releaseBig gives it back.
func (l *StreamLimits) tookBig() { l.account.big.Store(true) }

func (l *StreamLimits) releaseBig() {
	l.account.big.Store(false)
	l.big.Release(1)
}
