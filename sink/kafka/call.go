package kafka

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"bridge/sink"
)

// call is one Publish. Its messages belong to the caller again once it has left.
type call struct {
	batch    []sink.Message
	status   []sink.Status
	portions []*portion

	open atomic.Int64
	// done is closed when no portion is open any more.
	done chan struct{}
	// failed ends with the cause that a partition has lost records.
	failed context.Context
	fail   context.CancelCauseFunc

	// mu is held for reading while a worker reads the batch or writes a result, and for writing to
	// leave.
	mu   sync.RWMutex
	left bool
}

// portion is the part of a call that goes to one worker. Its fields are the worker's while it is
// open.
type portion struct {
	call   *call
	worker *worker
	// index are indices of the batch, ascending; those before next are done.
	index []int
	next  int
	// last is the offset of the last acknowledged record, -1 before that; lastID is its message's
	// id.
	last   int64
	lastID string
	// rejection ends the portion early.
	rejection *sink.Rejection
	// moved ends the portion early because the worker leads nowhere any more.
	moved bool
}

func newCall(batch []sink.Message) *call {
	c := &call{batch: batch, status: make([]sink.Status, len(batch))}
	c.failed, c.fail = context.WithCancelCause(context.Background())
	return c
}

// enter hands the portions to their workers.
func (c *call) enter(runs []*portion) {
	c.portions = append(c.portions, runs...)
	c.done = make(chan struct{})
	c.open.Store(int64(len(runs)))
	for _, r := range runs {
		r.worker.enqueue(r)
	}
}

// finish closes a portion.
func (c *call) finish() {
	if c.open.Add(-1) == 0 {
		close(c.done)
	}
}

// leave ends the use of the batch by the workers. It blocks while one of them encodes.
func (c *call) leave() {
	c.mu.Lock()
	c.left = true
	c.mu.Unlock()
	for _, r := range c.portions {
		r.worker.forget(c)
	}
}

// present calls do unless the caller has left, and reports whether it did.
func (c *call) present(do func()) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if !c.left {
		do()
	}
	return !c.left
}

// moved returns what has to find another worker, in the order of the batch.
func (c *call) moved() []int {
	var index []int
	for _, r := range c.portions {
		if r.moved {
			index = append(index, r.index[r.next:]...)
			r.moved = false
		}
	}
	slices.Sort(index)
	return index
}

// outcome sums up the portions. The workers are done with the call.
func (c *call) outcome(rejected []sink.Rejection) sink.Outcome {
	last := make(map[string]sink.Offset)
	for _, r := range c.portions {
		if r.rejection != nil {
			rejected = append(rejected, *r.rejection)
		}
		if m, known := last[r.worker.tp]; r.last >= 0 && (!known || uint64(r.last) > m.Last) {
			last[r.worker.tp] = sink.Offset{TP: r.worker.tp, Incarnation: r.worker.incarnation(), Last: uint64(r.last), ID: r.lastID}
		}
	}
	slices.SortFunc(rejected, func(a, b sink.Rejection) int { return cmp.Compare(a.Index, b.Index) })
	out := sink.Outcome{Status: c.status, Rejected: rejected}
	out.Offsets = slices.AppendSeq(out.Offsets, maps.Values(last))
	slices.SortFunc(out.Offsets, func(a, b sink.Offset) int { return cmp.Compare(a.TP, b.TP) })
	return out
}
