package jetstream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"example.org/bridge/internal/backoff"
	"example.org/bridge/internal/natskv"
	"example.org/bridge/internal/option"
	"example.org/bridge/sink"
)

// fly sends and takes answers until the series is over and everything under way is answered, or the
// connection goes, or no answer comes any more.
func (r *series) fly(ctx context.Context) {
	timer := time.NewTimer(ackWait)
	defer timer.Stop()
	for {
		now := time.Now()
		r.absorb(now)
		r.worker.prune()
		if r.over && r.waiting == 0 {
			r.inquire(ctx)
			return
		}
		more, wake := false, time.Time{}
		if !r.over {
			if more, wake = r.send(now); more || r.over && r.waiting == 0 {
				continue
			}
		}
		switch {
		case r.waiting == 0 && r.silent > 0:
			// The call whose message would ask for an answer was cancelled.
			r.over = true
			continue
		case r.waiting > 0:
			if now.Sub(r.heard) >= ackWait {
				r.giveUp()
				return
			}
			wake = earlier(wake, r.heard.Add(ackWait))
		}
		if !r.wait(ctx, timer, wake) {
			return
		}
	}
}

// inquire asks the stream what became of the messages after the last answer, none of which will be
// answered. What it does not tell the next series finds out.
func (r *series) inquire(ctx context.Context) {
	if r.silent == 0 || r.at(r.tail-1).state != waiting {
		return
	}
	ctx, cancel := context.WithTimeoutCause(ctx, requestTimeout, errNoReply)
	defer cancel()
	// The server answers requests beside what it still has to store.
	for until := time.Now().Add(unreadFor); ; {
		there, gone, err := holds(ctx, r.stream, r.at(r.tail-1))
		if err == nil && there {
			r.storedBefore(r.tail)
			r.advance()
		}
		if there || !gone || r.shut || time.Now().After(until) || backoff.Pause(ctx, unreadFor/50) != nil {
			return
		}
	}
}

// unreadFor is how long what was sent may take until the stream has it.
const unreadFor = 250 * time.Millisecond

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

// absorb takes what is there without waiting.
func (r *series) absorb(now time.Time) {
	for {
		select {
		case m := <-r.wire.acks:
			if token, ok := r.wire.token(m.Subject); ok {
				r.receive(token, parseAck(m, r.worker.name), now)
			}
		case c := <-r.worker.submit:
			r.admit(c)
		case err := <-r.wire.denied:
			r.deny(err, now)
		default:
			return
		}
	}
}

// limitsAge is how old limits may be by which a message is refused.
const limitsAge = 100 * time.Millisecond

// seriesFor is how long a series may last: a stream that is given replicas must not be sent fences
// for long, and one that was created again is to be noticed.
const seriesFor = 30 * time.Second

// admit takes a call. Where old limits refuse a message of it the series ends, and the next one
// asks for them: they may be higher now.
func (r *series) admit(c *call) {
	r.worker.calls = append(r.worker.calls, c)
	age := time.Since(r.asked)
	if (age > limitsAge || r.limits.guess) && c.tooLarge(r.limits) || age > seriesFor {
		r.over = true
		return
	}
	c.examine(r.limits)
}

// wait waits for something to happen, until wake when that is set. It returns false when the
// series is to end.
func (r *series) wait(ctx context.Context, timer *time.Timer, wake time.Time) bool {
	var alarm <-chan time.Time
	if !wake.IsZero() {
		timer.Reset(max(0, time.Until(wake)))
		alarm = timer.C
	}
	select {
	case m := <-r.wire.acks:
		if token, ok := r.wire.token(m.Subject); ok {
			r.receive(token, parseAck(m, r.worker.name), time.Now())
		}
	case c := <-r.worker.submit:
		r.admit(c)
	case err := <-r.wire.denied:
		r.deny(err, time.Now())
	case <-alarm:
	case <-r.wire.gone:
		return false
	case <-ctx.Done():
		return false
	}
	return true
}

// giveUp ends the wait for answers. A connection that does not answer to a ping either is given up
// with them.
func (r *series) giveUp() {
	r.err = errNoAnswer
	if err := r.wire.nc.FlushTimeout(2 * time.Second); err != nil {
		r.wire.drop(fmt.Errorf("the server answers neither to messages nor to a ping: %w", err))
	}
}

// end ends the series: what was not stored is left for the next one, and the cause decides what
// happens until then.
func (r *series) end() {
	w := r.worker
	w.token = r.tail
	var cause *inFlight
	certain := true
	for token := r.head; token < r.tail; token++ {
		f := r.at(token)
		if f.state == stored {
			continue
		}
		if f.state == waiting && r.fenced && certain {
			// After a refused message no fence can have opened.
			w.suspects = append(w.suspects, *f)
		}
		if f.state == refused {
			certain = false
		}
		if cause == nil {
			cause = f
		}
		// What asked for no answer was on the stream before a shut fence told, or is not.
		told := f.silent && r.shut && r.err == nil && r.wire.alive()
		f.call.rewind(f.index, f.state == waiting && !told || f.answer.unsure)
		f.call.answered()
	}
	r.blame(cause)
	w.doubt = r.shut && !r.sawDup && cause != nil && cause.state == waiting
	clear(r.flights)
	w.prune()
}

// blame draws the conclusions from the first message that was not stored.
func (r *series) blame(cause *inFlight) {
	w := r.worker
	foreign := cause != nil && cause.state == refused && cause.answer.fenceBroken() && !r.sawDup
	w.pace.ended(r, foreign, time.Now())
	switch {
	case cause == nil, foreign:
	case cause.state == waiting:
		if r.err != nil && r.wire.alive() {
			w.postpone(cause.call, cause.index, r.err)
		}
	case cause.answer.tooLarge():
		cause.call.refuse(cause.index, fmt.Sprintf("%d bytes with its headers are more than the stream %s takes (max_msg_size %d when last read): %v",
			cause.call.size(cause.index), w.name, r.limits.message, cause.answer.err))
	case cause.answer.fenceBroken():
	case !r.wire.alive():
	case w.options.Stream == "" && (cause.answer.code == codeStreamMismatch || errors.Is(cause.answer.err, errNoStream)):
		cause.call.fail(errMoved)
	default:
		w.postpone(cause.call, cause.index, cause.answer.err)
	}
}

// requestTimeout bounds a request. A leader that steps down may take one with it: it is asked again
// rather than waited for.
const requestTimeout = 3 * time.Second

// errNoReply ends a request to JetStream.
var errNoReply = fmt.Errorf("JetStream does not answer within %s", requestTimeout)

// begin looks at the stream and starts a series where it ends.
func (w *worker) begin(ctx context.Context, wire *wire) (*series, error) {
	stream, err := lookup(ctx, wire.js, w.options, w.name)
	if err != nil {
		return nil, wire.explained(err)
	}
	info := stream.CachedInfo()
	if err := usable(w.options, info); err != nil {
		return nil, err
	}
	w.ref, w.base = sink.TPRef{Name: w.name, Incarnation: createdAt(info)}, info.State.LastSeq
	w.warn(info)
	ours, err := w.resolve(ctx, stream, info.State.LastSeq)
	if err != nil {
		return nil, err
	}
	if w.doubt && info.State.LastSeq > ours {
		w.pace.broken(w, wire.since, time.Now())
	}
	w.doubt = false
	w.replicated = info.Config.Replicas > 1
	r := &series{
		worker: w, wire: wire, stream: stream, fenced: !w.pace.unfenced && !w.replicated, flights: w.ring, head: w.token, tail: w.token, window: 1,
		busy: make(map[string]struct{}), last: info.State.LastSeq,
		limits: limits{payload: wire.nc.MaxPayload(), message: int64(info.Config.MaxMsgSize)}, asked: time.Now(),
	}
	longest := 0
	for _, c := range w.calls {
		longest = max(longest, c.longest())
	}
	if err := r.limits.measure(ctx, wire.session, longest); err != nil {
		return nil, err
	}
	for _, c := range w.calls {
		c.examine(r.limits)
	}
	return r, nil
}

// lookup asks for a stream and creates it when it is missing and that is wanted.
func lookup(ctx context.Context, js jetstream.JetStream, o *Options, name string) (jetstream.Stream, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, requestTimeout, errNoReply)
	defer cancel()
	stream, err := js.Stream(ctx, name)
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	switch {
	case err == nil:
		return stream, nil
	case !errors.Is(err, jetstream.ErrStreamNotFound):
		return nil, fmt.Errorf("ask for the stream %s: %w", name, err)
	case !o.CreateStream || name != o.Stream:
		return nil, option.Errorf("the stream %s does not exist: create it, or set %s=true", name, option.NATSCreateStream)
	}
	if o.Bucket != "" {
		stream, err = natskv.Create(ctx, js, natskv.Bucket{Name: o.Bucket, Replicas: o.Keeps.Replicas})
	} else {
		stream, err = js.CreateStream(ctx, o.Keeps.config(o))
	}
	switch {
	case natskv.FewerServers(err):
		return nil, option.Errorf("create the stream %s: there are fewer servers than the replicas of %s: %w", name, option.NATSStreamReplicas, err)
	case natskv.NoPeers(err):
		return nil, option.Errorf("create the stream %s: too few servers are there for the replicas of %s, or too few have the storage for %s: %w",
			name, option.NATSStreamReplicas, option.NATSStreamMaxBytes, err)
	case err != nil:
		return nil, fmt.Errorf("create the stream %s: %w", name, advisedAPI(err))
	}
	o.Logger.Info("created the stream", "stream", name, "subjects", o.Subjects)
	return stream, nil
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
	return t.Source == "" || len(subjects) == 0 || slices.ContainsFunc(subjects, func(s string) bool { return meets(t.Source, s) })
}

// warn tells once of a stream that forgets message ids sooner than a lost acknowledgement is
// noticed.
func (w *worker) warn(info *jetstream.StreamInfo) {
	if window := info.Config.Duplicates; window < 2*ackWait && !w.warned {
		w.warned = true
		w.options.Logger.Warn("the stream's duplicate window is short: a message that is sent again may be stored twice",
			"stream", w.name, "duplicate_window", window, "at_least", 2*ackWait)
	}
}

func createdAt(info *jetstream.StreamInfo) string { return info.Created.UTC().Format(time.RFC3339Nano) }

// resolve finds out which of the messages without an answer have been stored. The fence gives each
// of them one sequence at which it can be, and has one stored only if all before it are: so the
// last that is found proves those before it. ours is the sequence with which the stream ends, for
// all that is known, unless somebody else has written to it.
func (w *worker) resolve(ctx context.Context, stream jetstream.Stream, last uint64) (ours uint64, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, requestTimeout, errNoReply)
	defer cancel()
	n := sort.Search(len(w.suspects), func(i int) bool { return w.suspects[i].predicted > last })
	// Most often the stream ends with one of ours.
	low, high, probe := 0, n, n-1
	removed := false
	for low < high {
		stored, gone, err := holds(ctx, stream, &w.suspects[probe])
		if err != nil {
			return 0, err
		}
		removed = removed || gone
		if stored {
			low = probe + 1
		} else {
			high = probe
		}
		probe = (low + high) / 2
	}
	ours = last
	if len(w.suspects) > 0 {
		ours = w.suspects[0].predicted - 1
	}
	for _, f := range w.suspects[:low] {
		ours = f.predicted
		f.call.acked(f.index, ack{seq: f.predicted}, w.ref, f.first)
		w.progress(f.call)
	}
	if removed {
		// What came between them and the end nobody can tell.
		ours = last
		for _, f := range w.suspects[low:n] {
			f.call.rewind(f.index, true)
		}
	}
	w.suspects = nil
	return ours, nil
}

// holds reports whether the stream has the message at its sequence, and whether nothing is there.
// One that has been removed since counts as not stored: it is sent again, and dropped by its id.
func holds(ctx context.Context, stream jetstream.Stream, f *inFlight) (stored, gone bool, err error) {
	m, err := stream.GetMsg(ctx, f.predicted)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return false, true, nil
	}
	if err != nil {
		return false, false, fmt.Errorf("read message %d of the stream: %w", f.predicted, err)
	}
	return m.Header.Get(headerMsgID) == f.id, false, nil
}
