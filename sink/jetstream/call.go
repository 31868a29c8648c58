package jetstream

import (
	"slices"
	"sync"
	"time"

	"example.org/bridge/internal/backoff"
	"example.org/bridge/sink"
)

// call is one Publish under way on one worker. The caller waits for it and may leave at any moment;
// the worker touches the batch only under mu and only while the caller stays.
type call struct {
	mu     sync.Mutex
	batch  []sink.Message
	status []sink.Status
	// at is where the acknowledged messages lie, on the stream of the worker, which may be created
	// again in between: tps has each making of it. Neither changes once the caller has left.
	at  []sink.At
	tps []sink.TPRef
	// limit is the index of the rejected message, else len(status). Messages from it on are not
	// sent.
	limit    int
	rejected *sink.Rejection
	// dups counts the messages that the stream had before they were sent.
	dups int
	// open counts the messages that were sent and not answered.
	open int
	// stopped: nothing more is to be sent.
	stopped bool
	// done is closed when the call is stopped and every message sent was answered, or the worker
	// has finished it.
	done   chan struct{}
	isDone bool
	err    error

	// What follows belongs to the worker alone.

	// next is the first message to look at for sending. Of those from unsure on, none was sent and
	// left without an answer.
	next, unsure int
	// low is the first message that is not acknowledged.
	low int
	// fault names the fault that holds the call up, "" without one; until then it is not tried
	// again.
	fault string
	until time.Time
	pause backoff.Backoff
}

func newCall(batch []sink.Message) *call {
	return &call{
		batch: batch, status: make([]sink.Status, len(batch)), at: make([]sink.At, len(batch)), limit: len(batch), done: make(chan struct{}),
	}
}

// finish closes done. mu is held.
func (c *call) finish(err error) {
	if !c.isDone {
		c.isDone, c.err = true, err
		close(c.done)
	}
}

// stop ends sending.
func (c *call) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = true
	if c.open == 0 {
		c.finish(nil)
	}
}

// leave ends the use of the batch and returns what became of it.
func (c *call) leave() (out sink.Outcome, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped, c.batch = true, nil
	out = sink.Outcome{Status: append([]sink.Status(nil), c.status...), At: c.at, TPs: c.tps, Duplicates: c.dups}
	if c.rejected != nil {
		out.Rejected = []sink.Rejection{*c.rejected}
	}
	return out, c.err
}

// tooLarge reports whether one of the messages is refused by limits alone.
func (c *call) tooLarge(l limits) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := c.low; i < c.limit && !c.stopped; i++ {
		if c.status[i] == sink.Pending && l.refusal(&c.batch[i]) != "" && (limits{}).refusal(&c.batch[i]) == "" {
			return true
		}
	}
	return false
}

// longest returns the length of the longest line of the messages that are left.
func (c *call) longest() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := c.low; i < c.limit && !c.stopped; i++ {
		n = max(n, lineOf(&c.batch[i]))
	}
	return n
}

// examine looks for the first message that will never be taken.
func (c *call) examine(l limits) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return
	}
	for i := c.low; i < c.limit; i++ {
		if c.status[i] != sink.Pending {
			continue
		}
		if why := l.refusal(&c.batch[i]); why != "" {
			c.reject(i, why)
			return
		}
	}
}

// reject notes that a message is refused for good. mu is held.
func (c *call) reject(i int, why string) {
	if i >= c.limit || c.status[i] != sink.Pending {
		return
	}
	if c.rejected != nil {
		c.status[c.rejected.Index] = sink.Pending
	}
	c.limit, c.rejected = i, &sink.Rejection{Index: i, Reason: why}
	c.status[i] = sink.Rejected
}

// acked notes the acknowledgement of a message by the stream ref. first says that no attempt before
// can have stored it.
func (c *call) acked(i int, a ack, ref sink.TPRef, first bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.batch == nil {
		return
	}
	if c.rejected != nil && c.rejected.Index == i {
		return
	}
	tp := slices.Index(c.tps, ref)
	if tp < 0 {
		tp, c.tps = len(c.tps), append(c.tps, ref)
	}
	c.status[i], c.at[i] = sink.Acked, sink.At{Offset: a.seq, TP: int32(tp), Known: true, Duplicate: a.duplicate}
	if a.duplicate && first {
		c.dups++
	}
	for c.low < len(c.status) && c.status[c.low] == sink.Acked {
		c.low++
	}
}

// pendingBehind reports whether a message after i is to be sent. mu is held.
func (c *call) pendingBehind(i int) bool {
	return !c.stopped && slices.Contains(c.status[min(i+1, c.limit):c.limit], sink.Pending)
}

// answered notes that a message that was sent is not on the way any more.
func (c *call) answered() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open--
	if c.stopped && c.open == 0 {
		c.finish(nil)
	}
}

// finished ends a call with nothing left to do and reports whether the worker is through with
// it.
func (c *call) finished() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open > 0 {
		return false
	}
	if c.stopped || c.low >= c.limit {
		c.finish(nil)
	}
	return c.isDone
}

// abandoned reports whether the caller has left a call of which something was not stored.
func (c *call) abandoned() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.low < c.limit
}

// fail ends the call with an error.
func (c *call) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.finish(err)
}

// refuse ends the call at a message that the server will never take.
func (c *call) refuse(i int, why string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reject(i, why)
}

// rewind has sending begin again at message i, if it is past it. unsure says that i may have been
// stored.
func (c *call) rewind(i int, unsure bool) {
	c.next = min(c.next, i)
	if unsure {
		c.unsure = max(c.unsure, i+1)
	}
}

// destination returns where message i goes, "" when the caller has left.
func (c *call) destination(i int) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.batch == nil {
		return ""
	}
	return c.batch[i].Destination
}

// size returns the size of message i with its headers, 0 when the caller has left.
func (c *call) size(i int) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.batch == nil {
		return 0
	}
	return wireSize(&c.batch[i])
}

// job is one Publish under way on a batcher. Its caller may leave at any moment: the batcher reads
// the messages only under mu, and only while the caller stays.
type job struct {
	mu sync.Mutex
	// messages is nil once the caller has left.
	messages []sink.Message
	// out is what became of them. It changes no more once done is closed.
	out sink.Outcome
	err error
	// sent: messages are on the way.
	sent bool
	// done is closed when the outcome is known.
	done chan struct{}

	// What follows belongs to the batcher.

	// n is the number of messages; those before next are stored.
	n, next int
	// checked is when the limits were read that the messages were compared with.
	checked time.Time
	// fault names what the job waits for, "" for nothing; until then it is not tried again.
	fault string
	until time.Time
	pause backoff.Backoff
}

func newJob(batch []sink.Message) *job {
	return &job{messages: batch, n: len(batch), done: make(chan struct{}), out: sink.Outcome{
		Status: make([]sink.Status, len(batch)), At: make([]sink.At, len(batch)),
	}}
}

// leave ends the use of the messages and returns the outcome: none of them is acknowledged where
// there is an error. err is why the caller does not wait for the outcome, nil where it has.
func (j *job) leave(err error) (sink.Outcome, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.messages = nil
	select {
	case <-j.done:
		err = j.err
	default:
	}
	if err != nil {
		return sink.Outcome{Status: make([]sink.Status, j.n)}, err
	}
	return j.out, nil
}

// left reports whether the caller has left, or the outcome is known.
func (j *job) left() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.over()
}

// over is left under mu.
func (j *job) over() bool {
	select {
	case <-j.done:
		return true
	default:
		return j.messages == nil
	}
}

// abandoned reports whether the caller has left a job of which something was not stored.
func (j *job) abandoned() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.messages == nil && j.next < j.n
}

// onTheWay reports whether messages are on the way.
func (j *job) onTheWay() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.sent
}

// finish ends the job.
func (j *job) finish(err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.end(err)
}

// end is finish under mu.
func (j *job) end(err error) {
	select {
	case <-j.done:
	default:
		j.err = err
		close(j.done)
	}
}

// stored notes that count more messages are stored, the first one at a sequence of ref.
func (j *job) stored(count int, first uint64, ref sink.TPRef) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.sent = false
	for i := range count {
		j.out.Status[j.next+i] = sink.Acked
		j.out.At[j.next+i] = sink.At{Offset: first + uint64(i), Known: true}
	}
	j.out.TPs = []sink.TPRef{ref}
	if j.next += count; j.next == j.n {
		j.end(nil)
	}
}

// unsent notes that nothing of what was sent is stored.
func (j *job) unsent() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.sent = false
}

// longest returns the length of the longest line of the messages that are left.
func (j *job) longest() (n int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for i := j.next; i < len(j.messages); i++ {
		n = max(n, lineOf(&j.messages[i]))
	}
	return n
}

// screen compares the messages that are left with limits and subjects. It returns the rejections,
// and the first subject that the stream does not take.
func (j *job) screen(l limits, subjects []string) (rejected []sink.Rejection, foreign string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	last := ""
	for i := j.next; i < len(j.messages); i++ {
		m := &j.messages[i]
		if why := l.refusal(m); why != "" {
			rejected = append(rejected, sink.Rejection{Index: i, Reason: why})
			continue
		}
		if m.Destination != last && foreign == "" {
			if last = m.Destination; !covered(subjects, last) {
				foreign = last
			}
		}
	}
	return rejected, foreign
}

// reject ends the job with rejections.
func (j *job) reject(rejected []sink.Rejection) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, r := range rejected {
		j.out.Status[r.Index] = sink.Rejected
	}
	j.out.Rejected = rejected
	j.end(nil)
}
