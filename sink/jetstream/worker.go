package jetstream

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"example.org/bridge/client/backoff"
	"example.org/bridge/client/jetstream/server"
	"example.org/bridge/internal/natskv"
	"example.org/bridge/internal/option"
	"example.org/bridge/sink"
)

// When a worker takes up fences again: after so many acknowledgements in a row without a repeat or
// a message of somebody else, and so long after a shut fence or such a message.
const (
	cleanAcks = 256
	quietTime = 5 * time.Second
)

// worker is the one way of this process to one stream: every batch for the stream goes through it.
// Its goroutine alone sends.
type worker struct {
	queue
	options *Options
	conns   *server.Connector

	// What follows belongs to the goroutine of serve.

	// suspects are the messages without an answer of the last fenced series, in their order.
	suspects []inFlight
	// replicated: the stream has several replicas, and takes no fences.
	replicated bool
	// unfenced: fences do not work at the moment. clean counts acknowledgements since, following is
	// the sequence of the next one if nobody else writes, 0 when unknown, and foreign is when a
	// fence was shut or somebody else's message noticed. shared: the log says so.
	unfenced  bool
	clean     int
	following uint64
	foreign   time.Time
	shared    bool
	// token is the next one; tokens are never used twice.
	token uint64
	// ring and env are memory for the series.
	ring []inFlight
	env  *envelope
	// session is the connection that was used last, nil after a fault.
	session *server.Session
	// ref names the stream as it was when the series began, base is its last sequence then.
	ref  sink.TPRef
	base uint64
}

// serve publishes what is submitted until ctx ends. Calls under way are then simply left; their
// callers see ctx end, too.
func (w *worker) serve(ctx context.Context) {
	for {
		if len(w.calls) == 0 {
			select {
			case c := <-w.submit:
				w.calls = append(w.calls, c)
			case <-ctx.Done():
				return
			}
		}
		s, err := w.conns.Get(ctx)
		if err != nil {
			return
		}
		// Only a connection that has just gone refuses a subscription.
		if wire, err := openWire(s, windowMessages); err == nil {
			w.attend(ctx, wire)
			wire.close()
		}
	}
}

// attend publishes over one wire until the connection goes or ctx ends.
func (w *worker) attend(ctx context.Context, wire *wire) {
	var pause backoff.Backoff
	for ctx.Err() == nil && wire.Alive() {
		if abandoned := w.prune(); len(w.calls) == 0 {
			w.faults.gone(w.stream, abandoned)
			return
		}
		former := w.ref
		r, err := w.begin(ctx, wire)
		if errors.Is(err, errMoved) {
			for _, c := range w.calls {
				c.fail(err)
			}
			continue
		}
		if err != nil {
			if ctx.Err() == nil && wire.Alive() {
				w.session = nil
				w.faults.Fail(w.stream, w.stream, err)
				select {
				case <-time.After(pause.Next()):
				case <-wire.Gone:
				case <-ctx.Done():
				}
			}
			continue
		}
		w.faults.OK(w.stream)
		if w.session != wire.Session || w.ref != former {
			w.session = wire.Session
			w.options.Session(w.stream)
		}
		pause.Reset()
		r.run(ctx)
		r.end()
	}
}

// begin looks at the stream and starts a series where it ends.
func (w *worker) begin(ctx context.Context, wire *wire) (*series, error) {
	stream, err := lookup(ctx, wire.JS, w.options, w.stream)
	if err != nil {
		return nil, wire.Explained(err, "STREAM.INFO."+w.stream, "STREAM.CREATE."+w.stream)
	}
	info := stream.CachedInfo()
	if err := usable(w.options, info); err != nil {
		return nil, err
	}
	window := info.Config.Duplicates
	if before, _ := w.options.Windows.Swap(w.stream, window); before != window && window < 2*ackWait {
		w.options.Logger.Warn("the stream's duplicate window is short: a message that is sent again may be stored twice",
			"stream", w.stream, "duplicate_window", window, "at_least", 2*ackWait)
	}
	w.ref, w.base, w.replicated = refOf(info), info.State.LastSeq, info.Config.Replicas > 1
	if err := w.resolve(ctx, wire); err != nil {
		return nil, err
	}
	r := &series{
		worker: w, wire: wire, fenced: !w.unfenced && !w.replicated, flights: w.ring, head: w.token, tail: w.token, window: 1, busy: make(map[string]struct{}),
		last: w.base, limits: limits{payload: wire.NC.MaxPayload(), message: int64(info.Config.MaxMsgSize), tooLong: wire.TooLong}, begun: time.Now(),
	}
	w.following = 0
	for _, c := range w.calls {
		if refused := c.refusals(r.limits); len(refused) > 0 {
			c.reject(refused[0])
		}
	}
	return r, nil
}

// resolve finds out which of the messages without an answer have been stored. The fence gives each
// of them one sequence at which it can be, and has one stored only if all before it are. One that
// has been removed since counts as not stored: it is sent again, and dropped by its id. So does one
// that the login may not read.
func (w *worker) resolve(ctx context.Context, wire *wire) error {
	began := time.Now()
	var failed error
	n := sort.Search(len(w.suspects), func(i int) bool {
		f := &w.suspects[i]
		if failed != nil || f.predicted > w.base {
			return true
		}
		var m *server.Message
		m, failed = server.GetMessage(ctx, wire.Session, w.stream, server.Query{Seq: f.predicted})
		return m == nil || m.Headers.Get(headerMsgID) != f.id
	})
	if failed != nil && wire.Denied(began, "STREAM.MSG.GET."+w.stream+`"`) == nil {
		return failed
	}
	for _, f := range w.suspects[:n] {
		f.call.acked(f.index, ack{seq: f.predicted}, w.ref, f.first)
		w.progress(f.call)
	}
	w.suspects = nil
	return nil
}

// ended notes that fences were of no use in a series, or that they are again.
func (w *worker) ended(r *series) {
	switch {
	case r.moved:
		w.unfenced, w.shared = false, false
		w.options.Logger.Debug("publishing with fences again", "stream", w.stream)
	case r.fenced && r.broken:
		// Without fences each message says for itself why it is refused. Repeats seldom come alone,
		// and each of them would end a fenced series.
		w.unfenced, w.clean = true, 0
		if r.rejected {
			w.foreign = r.heard
		}
	}
}

// cleared takes an acknowledgement of an unfenced series and reports whether fences are worth a try
// again.
func (w *worker) cleared(a ack, now time.Time) bool {
	if a.duplicate {
		w.clean = 0
		return false
	}
	if w.following != 0 && a.seq != w.following {
		if w.clean, w.foreign = 0, now; !w.shared && !w.replicated {
			w.shared = true
			w.options.Logger.Info("others publish to the stream as well: one message per key at a time until they pause", "stream", w.stream)
		}
	}
	w.following = a.seq + 1
	w.clean++
	return w.clean >= cleanAcks && now.Sub(w.foreign) >= quietTime && !w.replicated
}

// lookup asks for a stream and creates it when it is missing and that is wanted.
func lookup(ctx context.Context, js jetstream.JetStream, o *Options, name string) (jetstream.Stream, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, server.RequestTimeout, server.ErrNoReply)
	defer cancel()
	stream, err := js.Stream(ctx, name)
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	switch {
	case err == nil:
		return stream, server.OfLeader(stream.CachedInfo())
	case !errors.Is(err, jetstream.ErrStreamNotFound):
		return nil, fmt.Errorf("ask for the stream %s: %w", name, err)
	case o.Stream == "":
		// Its subjects may be another's by now.
		return nil, errMoved
	case !o.CreateStream:
		return nil, option.Errorf("the stream %s does not exist: create it, or set %s=true", name, option.NATSCreateStream)
	}
	if o.Bucket != "" {
		stream, err = natskv.Create(ctx, js, natskv.Bucket{Name: o.Bucket, Replicas: o.Keeps.Replicas})
	} else {
		stream, err = js.CreateStream(ctx, o.Keeps.config(o))
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	switch {
	case natskv.FewerServers(err):
		return nil, option.Errorf("create the stream %s: there are fewer servers than the replicas of %s: %w", name,
			option.NATSStreamReplicas, err)
	case natskv.NoPeers(err):
		return nil, option.Errorf("create the stream %s: too few servers are there for the replicas of %s, or too few have the storage for %s: %w",
			name, option.NATSStreamReplicas, option.NATSStreamMaxBytes, err)
	case err != nil:
		if refused, ok := errors.AsType[*jetstream.APIError](err); ok {
			err = advised(int(refused.ErrorCode), err)
		}
		return nil, fmt.Errorf("create the stream %s: %w", name, err)
	}
	o.Logger.Info("created the stream", "stream", name, "subjects", o.Subjects)
	return stream, nil
}
