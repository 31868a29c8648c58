package jetstream

import (
	"sync"
	"time"

	"bridge/internal/backoff"
	"bridge/sink"
)

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
