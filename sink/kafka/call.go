package kafka

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"bridge/sink"
)

// call is one Publish. Its messages belong to the caller again once it has left.
type call struct {
	batch  []sink.Message
	status []sink.Status
	runs   []*run

	open atomic.Int64
	// settled is closed when no run is open any more.
	settled chan struct{}
	// failed ends with the cause that a partition has lost records.
	failed context.Context
	fail   context.CancelCauseFunc

	// mu is held for reading while a lane reads the batch or writes a result, and for writing to leave.
	mu   sync.RWMutex
	left bool
}

// run is the part of a call that goes to one lane. Its fields are the lane's while it is open.
type run struct {
	call *call
	lane *lane
	// index are places in the batch, ascending; those before next are settled.
	index []int
	next  int
	// last is the offset of the last acknowledged record, -1 before that.
	last int64
	// rejection ends the run early.
	rejection *sink.Rejection
	// moved ends the run early because the lane leads nowhere any more.
	moved bool
}

func newCall(batch []sink.Message) *call {
	c := &call{batch: batch, status: make([]sink.Status, len(batch))}
	c.failed, c.fail = context.WithCancelCause(context.Background())
	return c
}

// enter hands the runs to their lanes.
func (c *call) enter(runs []*run) {
	c.runs = append(c.runs, runs...)
	c.settled = make(chan struct{})
	c.open.Store(int64(len(runs)))
	for _, r := range runs {
		r.lane.enqueue(r)
	}
}

// finish closes a run.
func (c *call) finish() {
	if c.open.Add(-1) == 0 {
		close(c.settled)
	}
}

// leave ends the use of the batch by the lanes. It blocks while one of them encodes.
func (c *call) leave() {
	c.mu.Lock()
	c.left = true
	c.mu.Unlock()
	for _, r := range c.runs {
		r.lane.forget(c)
	}
}

// present runs do unless the caller has left, and reports whether it did.
func (c *call) present(do func()) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if !c.left {
		do()
	}
	return !c.left
}

// moved returns what has to find another lane, in the order of the batch.
func (c *call) moved() []int {
	var index []int
	for _, r := range c.runs {
		if r.moved {
			index = append(index, r.index[r.next:]...)
			r.moved = false
		}
	}
	slices.Sort(index)
	return index
}

// outcome sums up the runs. The lanes are done with the call.
func (c *call) outcome(rejected []sink.Rejection) sink.Outcome {
	last := make(map[string]int64)
	for _, r := range c.runs {
		if r.rejection != nil {
			rejected = append(rejected, *r.rejection)
		}
		if r.last >= 0 {
			last[r.lane.place] = max(r.last, last[r.lane.place])
		}
	}
	slices.SortFunc(rejected, func(a, b sink.Rejection) int { return cmp.Compare(a.Index, b.Index) })
	out := sink.Outcome{Status: c.status, Rejected: rejected}
	for place, offset := range last {
		out.Marks = append(out.Marks, sink.Mark{Place: place, Last: uint64(offset)})
	}
	slices.SortFunc(out.Marks, func(a, b sink.Mark) int { return cmp.Compare(a.Place, b.Place) })
	return out
}
