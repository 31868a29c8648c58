package catchup

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// ErrSuperseded is returned when a message of a higher epoch was found: another process publishes
// the same streams (rule 8).
var ErrSuperseded = errors.New("another bridge publishes these streams")

// Epoch is the run of a process, and counts the messages that the process sends: epoch and seq are
// the stamp of a message (rule 1). A process has one, so stamps of all shards compare. It is safe
// for concurrent use.
type Epoch struct {
	number uint64
	seq    atomic.Uint64
	losses atomic.Uint64
}

// NewEpoch returns an epoch above a given one, that is the highest in the store and on the bus. It
// is at least the Unix time in ms, so processes with copies of one store do not meet in an epoch.
func NewEpoch(above uint64, now time.Time) *Epoch {
	return &Epoch{number: max(above+1, uint64(max(now.UnixMilli(), 0)))}
}

// Number returns the number of the epoch, which is above 0.
func (e *Epoch) Number() uint64 { return e.number }

// Next reserves n seqs and returns the first, which is 1 at the first call. No seq is handed out
// twice.
func (e *Epoch) Next(n int) (first uint64) { return e.seq.Add(uint64(n)) - uint64(n) + 1 }

// Lost notes that the bus has lost messages, Losses returns how often: each begins terms of the
// shards, so that their messages tell that it was noticed.
func (e *Epoch) Lost()          { e.losses.Add(1) }
func (e *Epoch) Losses() uint64 { return e.losses.Load() }

// Met returns an error that wraps ErrSuperseded for a higher epoch than this one.
func (e *Epoch) Met(epoch uint64) error {
	if epoch <= e.number {
		return nil
	}
	return fmt.Errorf("%w: a message of epoch %d was found, this process has epoch %d", ErrSuperseded, epoch, e.number)
}
