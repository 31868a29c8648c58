package shard

import (
	"bytes"
	"context"
	"fmt"

	"bridge/checkpoint/store"
	"bridge/internal/failpoint"
	"bridge/sink"
)

// ledgerOff reports whether gaps are left alone, as by a tail without a ledger.
func ledgerOff() bool { return failpoint.Mutant(failpoint.NoLedger) }

// mutantSaveFirst commits b before it sends it.
func (p *publisher) mutantSaveFirst(ctx context.Context, b *batch, first uint64) error {
	messages := b.messages
	p.opts.Committer.Unknown(first)
	nowhere := &sent{locations: make([]location, len(messages))}
	if err := p.recorder.record(ctx, b, 0, nowhere); err != nil {
		return err
	}
	_, err := p.sender.sendAll(ctx, b)
	return err
}

// mutantPostpone leaves out the last message of b. late sends the one of the batch before.
func (s *sender) mutantPostpone(b *batch, indices []int) (kept []int, late func(context.Context)) {
	before, ok := failpoint.Kept.LoadAndDelete(s)
	if n := len(indices) - 1; n > 0 {
		last := b.messages[indices[n]]
		last.Key, last.Value = bytes.Clone(last.Key), bytes.Clone(last.Value)
		if last.Bare != nil {
			bare := *last.Bare
			last.Bare = &bare
		}
		failpoint.Kept.Store(s, last)
		indices = indices[:n]
	}
	return indices, func(ctx context.Context) {
		if ok {
			_, _ = s.send(ctx, []sink.Message{before.(sink.Message)})
		}
	}
}

// mutantRestore gives rows the values that the scan of reconcile saw.
func mutantRestore(key store.Key, page *page) {
	for i := range page.Rows {
		r := &page.Rows[i]
		if kept, ok := failpoint.Kept.LoadAndDelete(fmt.Sprint(key, r.ID)); ok && len(kept.([][]byte)) == len(r.Values) {
			r.Values = kept.([][]byte)
		}
	}
}

// mutantAlter changes the first value of data in an event.
func mutantAlter(body []byte) {
	data := bytes.Index(body, []byte(`"data":{`))
	if data < 0 {
		return
	}
	from := data + len(`"data":{`)
	colon := bytes.Index(body[from:], []byte(`":`))
	if colon < 0 {
		return
	}
	value := bytes.TrimPrefix(body[from+colon+2:], []byte(`"`))
	if c := value[0]; c >= '1' && c < '9' || c >= 'a' && c < 'z' || c >= 'A' && c < 'Z' {
		value[0]++
	}
}
