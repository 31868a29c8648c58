package jetstream

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"example.org/bridge/client/backoff"
	"example.org/bridge/client/bus"
	"example.org/bridge/client/jetstream/server"
	"example.org/bridge/internal/inspect"
	"example.org/bridge/internal/option"
	"example.org/bridge/internal/outage"
	"example.org/bridge/sink"
)

// call is one Publish under way on a worker or on the batcher, its publisher. The caller waits for
// it and may leave at any moment; the publisher touches the batch only under mu and only while the
// caller stays.
type call struct {
	mu sync.Mutex
	// batch is nil once the caller has left.
	batch []sink.Message
	// out is what became of it, and does not change once the caller has left. A stream may be
	// created again meanwhile: out.TPs has each making of it.
	out sink.Outcome
	// low is the first message that is not acknowledged. Messages from limit on are not sent: it is
	// the index of the first rejected one, or the length of the batch.
	low, limit int
	// open counts the messages that were sent and not answered.
	open int
	// done is closed when the publisher has ended the call.
	done  chan struct{}
	ended bool
	err   error

	// What follows belongs to the publisher.

	// next is the first message to look at for sending. Of those from unsure on, none was sent and
	// left without an answer.
	next, unsure int
	// fault names the fault that holds the call up, "" without one; until then it is not tried
	// again.
	fault string
	until time.Time
	pause backoff.Backoff
}

// end closes done. mu is held.
func (c *call) end(err error) {
	if !c.ended {
		c.ended, c.err = true, err
		close(c.done)
	}
}

func (c *call) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.end(err)
}

// leave ends the use of the batch and returns what became of it. err is why the caller does not
// wait for that.
func (c *call) leave(err error) (sink.Outcome, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.batch = nil
	if c.err != nil || c.out.AllAcked() {
		err = c.err
	}
	return c.out, err
}

func (c *call) refusals(l limits) (list []sink.Rejection) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := c.low; i < c.limit && c.batch != nil; i++ {
		if c.out.Status[i] != sink.Pending {
			continue
		}
		if why := l.refusal(&c.batch[i]); why != "" {
			list = append(list, sink.Rejection{Index: i, Reason: why})
		}
	}
	return list
}

// foreign returns the first subject of the messages that are left that none of subjects covers.
func (c *call) foreign(subjects []string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	last := ""
	for i := c.low; i < c.limit && c.batch != nil; i++ {
		if d := c.batch[i].Destination; d != last {
			if last = d; !bus.CoversAny(subjects, d) {
				return d
			}
		}
	}
	return ""
}

// reject notes that a message is refused for good, and that those behind it are not sent.
func (c *call) reject(r sink.Rejection) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.batch == nil || r.Index >= c.limit || c.out.Status[r.Index] != sink.Pending {
		return
	}
	for _, former := range c.out.Rejected {
		c.out.Status[former.Index] = sink.Pending
	}
	c.limit, c.out.Rejected, c.out.Status[r.Index] = r.Index, []sink.Rejection{r}, sink.Rejected
}

// rejectAll ends the call with rejections, and none of its messages sent.
func (c *call) rejectAll(list []sink.Rejection) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.batch != nil {
		for _, r := range list {
			c.out.Status[r.Index] = sink.Rejected
		}
		c.limit, c.out.Rejected = 0, list
	}
	c.end(nil)
}

// acked notes the acknowledgement of a message by the stream ref. first says that no attempt before
// can have stored it.
func (c *call) acked(i int, a ack, ref sink.TPRef, first bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.batch == nil || c.out.Status[i] == sink.Rejected {
		return
	}
	tp := slices.Index(c.out.TPs, ref)
	if tp < 0 {
		tp, c.out.TPs = len(c.out.TPs), append(c.out.TPs, ref)
	}
	c.out.Status[i], c.out.At[i] = sink.Acked, sink.At{Offset: a.seq, TP: int32(tp), Known: true, Duplicate: a.duplicate}
	if a.duplicate && first {
		c.out.Duplicates++
	}
	for c.low < len(c.out.Status) && c.out.Status[c.low] == sink.Acked {
		c.low++
	}
}

func (c *call) answered(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open -= n
}

// finished ends a call with nothing left to do. It reports whether the publisher is through with
// it, and whether that is with messages that are not stored.
func (c *call) finished() (through, abandoned bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open > 0 {
		return false, false
	}
	if c.batch == nil || c.low >= c.limit {
		c.end(nil)
	}
	return c.ended, c.low < c.limit
}

// message returns the subject of message i and its size with headers, "" when the caller has left.
func (c *call) message(i int) (subject string, size int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.batch == nil {
		return "", 0
	}
	return c.batch[i].Destination, wireSize(&c.batch[i])
}

// queue has the calls of a publisher in the order of their coming.
type queue struct {
	// stream is where all of them publish to.
	stream string
	faults *faults
	submit chan *call
	// calls belongs to the goroutine of the publisher.
	calls []*call
}

// publish submits a call and blocks until it has ended, or the caller or the sink has.
func (q *queue) publish(ctx, life context.Context, batch []sink.Message) (sink.Outcome, error) {
	c := &call{batch: batch, limit: len(batch), done: make(chan struct{}), out: sink.Outcome{
		Status: make([]sink.Status, len(batch)), At: make([]sink.At, len(batch)),
	}}
	select {
	case q.submit <- c:
		select {
		case <-c.done:
			return c.leave(nil)
		case <-ctx.Done():
		case <-life.Done():
		}
	case <-ctx.Done():
	case <-life.Done():
	}
	if life.Err() != nil {
		return c.leave(sink.ErrClosed)
	}
	return c.leave(context.Cause(ctx))
}

// prune lets go of the calls that are through. It reports whether the caller of one has left
// before.
func (q *queue) prune() (abandoned bool) {
	q.calls = slices.DeleteFunc(q.calls, func(c *call) bool {
		through, left := c.finished()
		if through {
			q.release(c, left)
		}
		abandoned = abandoned || through && left
		return through
	})
	return abandoned
}

// release ends the fault of c, or with abandoned forgets it, unless another call has it.
func (q *queue) release(c *call, abandoned bool) {
	if c.fault == "" {
		return
	}
	fault := c.fault
	c.fault = ""
	if !slices.ContainsFunc(q.calls, func(other *call) bool { return other.fault == fault }) {
		q.faults.gone(fault, abandoned)
	}
}

func (q *queue) progress(c *call) {
	if c.fault != "" {
		q.release(c, false)
		c.pause.Reset()
	}
}

func (q *queue) postpone(c *call, fault string, err error) {
	if fault != c.fault {
		q.release(c, false)
		c.fault = fault
	}
	c.until = time.Now().Add(c.pause.Next())
	q.faults.Fail(fault, q.stream, err)
}

// faults reports what is waited out: to the log without flooding, to readiness and to the hook.
type faults struct {
	log  *outage.Log
	hook sink.Fault
}

// Fail implements [bus.Faults]: it notes that what is tried failed once more. what tells faults of
// one TP apart.
func (f *faults) Fail(what, tp string, err error) {
	f.log.Fail(what, err)
	f.hook.Fail(what, tp, err)
}

// OK implements [bus.Faults].
func (f *faults) OK(what string) { f.log.OK(what) }

// Drop implements [bus.Faults].
func (f *faults) Drop(what string) { f.log.Forget(what) }

// gone is OK for a fault that nobody meets any more; abandoned says that it was not overcome.
func (f *faults) gone(what string, abandoned bool) {
	if abandoned {
		f.Drop(what)
		return
	}
	f.OK(what)
}

// Error codes of JetStream that end when somebody increases a limit.
const (
	codeMaxBytesMissing = 10113
	codeMaxBytesTooHigh = 10122
)

func advised(code int, err error) error {
	switch code {
	case codeStoreFailed:
		switch text := err.Error(); {
		case strings.Contains(text, "per subject"):
			return fmt.Errorf("%w: the stream refuses further messages of the subject (discard_new_per_subject): use a stream without that", err)
		case strings.Contains(text, "maximum"):
			return fmt.Errorf("%w: the stream is full and refuses what is new (discard new): increase its limits, purge it, or let it discard old", err)
		}
	case codeMaxBytesMissing, codeMaxBytesTooHigh:
		return option.Errorf("%w: set %s to a number of bytes that the account allows", err, option.NATSStreamMaxBytes)
	}
	return server.AdvisedCode(code, err)
}

// firstAtomic is the first minor version 2 of nats-server whose atomic batches can be relied on.
// Those of 2.12 to 2.14.8 may store a part (decision 21).
const firstAtomic = 15

// unfit is why a stream cannot be published to once.
type unfit struct {
	code inspect.Code
	what string
	// remedy says what to do, flags how nats stream edit does it, "" where it cannot, or where it
	// depends on the other subjects.
	remedy, flags string
}

// unfitFor returns why a stream cannot carry claims and atomic batches, nil where it can. version
// is that of the server.
func unfitFor(o *Options, c *jetstream.StreamConfig, version string) (list []unfit) {
	switch {
	case tooOld(version):
		list = append(list, oldServer(version))
	case !c.AllowAtomicPublish:
		list = append(list, unfit{inspect.NoAtomicBatches, "takes no atomic batches (allow_atomic)", "allow them", "--allow-batch"})
	}
	if !bus.CoversAny(c.Subjects, o.Claim) {
		list = append(list, unfit{inspect.StreamSubject, "does not take the claim subject " + o.Claim, "add it to the stream's subjects", ""})
	}
	if c.DiscardNewPerSubject {
		list = append(list, unfit{inspect.StreamUnusable, "refuses a second claim (discard_new_per_subject)", "use a stream without that", ""})
	}
	if c.Retention != jetstream.LimitsPolicy {
		list = append(list, unfit{inspect.StreamUnreadable,
			"removes what is consumed (retention " + strings.ToLower(c.Retention.String()) + ")", "use a stream with the retention limits", ""})
	}
	return list
}

func oldServer(version string) unfit {
	return unfit{inspect.NoAtomicBatches, "lies on nats-server " + version + ", whose atomic batches cannot be relied on",
		"update the servers to 2.15 or newer", ""}
}

// tooOld reports whether a server of this version has no atomic batches, or may store a part of
// one. A version that it cannot read is new enough: the stream tells.
func tooOld(version string) bool {
	major, rest, _ := strings.Cut(version, ".")
	minor, _, _ := strings.Cut(rest, ".")
	a, errA := strconv.Atoi(major)
	b, errB := strconv.Atoi(minor)
	return errA == nil && errB == nil && (a < 2 || a == 2 && b < firstAtomic)
}

// usable returns why a stream cannot acknowledge what is published to it, or has it where it is not
// found again.
func usable(o *Options, info *jetstream.StreamInfo) error {
	name := info.Config.Name
	switch {
	case info.Config.NoAck:
		return fmt.Errorf("the stream %s acknowledges nothing (no_ack): allow acknowledgements", name)
	case info.Config.Sealed:
		return fmt.Errorf("the stream %s is sealed", name)
	case info.Config.Mirror != nil:
		return fmt.Errorf("the stream %s is a mirror: publish to the one that it copies", name)
	case info.Config.AllowMsgCounter:
		return fmt.Errorf("the stream %s counts (allow_msg_counter), and refuses messages that are not increments", name)
	case transforms(o, info.Config.SubjectTransform):
		return fmt.Errorf("the stream %s stores messages under other subjects (subject_transform), where bridge does not find them again: use a stream without that, or let it leave alone the subjects of bridge", name)
	}
	return nil
}

// transforms reports whether a stream stores messages of bridge under other subjects.
func transforms(o *Options, t *jetstream.SubjectTransformConfig) bool {
	if t == nil || t.Source == t.Destination {
		return false
	}
	subjects := o.Published
	if o.Claim != "" {
		subjects = append(slices.Clone(subjects), o.Claim)
	}
	return t.Source == "" || len(subjects) == 0 || bus.MeetsAny(subjects, t.Source)
}
