package kafka

import (
	"cmp"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"example.org/bridge/sink"
)

// errAbandoned is the cause of an attempt that nobody waits for any more.
var errAbandoned = errors.New("nobody waits for the batch")

// call is one Publish. Its messages belong to the caller again once it has left.
type call struct {
	batch    []sink.Message
	status   []sink.Status
	at       []sink.At
	portions []*portion
	// tps are those of the portions, each once. Entries of at index them.
	tps []sink.TPRef

	open atomic.Int64
	// done is closed when no portion is open any more, and of a transaction when that has ended
	// for the call, with err.
	done chan struct{}
	err  error
	// bytes is about how much the call takes on the wire, of a transaction.
	bytes int

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
	// tp is an index into call.tps, incarnation the id of the topic.
	tp          int32
	incarnation string
	// index are indices of the batch, ascending; those before next are done.
	index []int
	next  int
	// cut says that index lacks what nobody waited for any more.
	cut bool
	// rejection ends the portion early.
	rejection *sink.Rejection
	// moved ends the portion early because the worker leads nowhere any more.
	moved bool
}

func newCall(batch []sink.Message) *call {
	return &call{batch: batch, status: make([]sink.Status, len(batch)), at: make([]sink.At, len(batch))}
}

func (c *call) enter(portions []*portion) {
	c.portions = append(c.portions, portions...)
	c.done = make(chan struct{})
	c.open.Store(int64(len(portions)))
	for _, r := range portions {
		r.worker.enqueue(r)
	}
}

// tp returns the index of a TP in tps. Only messages that moved may meet one again.
func (c *call) tp(ref sink.TPRef) int32 {
	if len(c.portions) > 0 {
		if i := slices.Index(c.tps, ref); i >= 0 {
			return int32(i)
		}
	}
	c.tps = append(c.tps, ref)
	return int32(len(c.tps) - 1)
}

// acknowledge notes that the next n messages of a portion are stored from offset base on; -1: the
// broker does not tell. marker: a marker of ours lies before them.
func (r *portion) acknowledge(n int, base int64, marker bool) {
	for _, i := range r.index[r.next : r.next+n] {
		r.call.status[i] = sink.Acked
		if base >= 0 {
			r.call.at[i] = sink.At{Offset: uint64(base), TP: r.tp, Known: true, Marker: marker}
			base++
		}
		marker = false
	}
	r.next += n
}

// reject notes that the next message of a portion is refused, which ends the portion.
func (r *portion) reject(reason string) {
	i := r.index[r.next]
	r.call.status[i] = sink.Rejected
	r.rejection = &sink.Rejection{Index: i, Reason: reason}
}

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

// gone reports whether the caller has left.
func (c *call) gone() bool { return !c.present(func() {}) }

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
	for _, r := range c.portions {
		if r.rejection != nil {
			rejected = append(rejected, *r.rejection)
		}
	}
	slices.SortFunc(rejected, func(a, b sink.Rejection) int { return cmp.Compare(a.Index, b.Index) })
	return sink.Outcome{Status: c.status, Rejected: rejected, At: c.at, TPs: c.tps}
}

func (c *call) end(err error) {
	c.err = err
	close(c.done)
}

// partlySent reports whether some of the call was not sent, because its caller has left.
func (c *call) partlySent() bool { return c.any(func(r *portion) bool { return r.cut }) }

// any reports whether a portion of the call has a property.
func (c *call) any(has func(*portion) bool) bool { return slices.ContainsFunc(c.portions, has) }

// reset forgets what was stored of a call in a transaction that was aborted.
func (c *call) reset() {
	c.present(func() {
		for i, status := range c.status {
			if status == sink.Acked {
				c.status[i] = sink.Pending
			}
		}
		clear(c.at)
	})
	for _, r := range c.portions {
		r.next = 0
	}
}
