package jetstream

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"example.org/bridge/internal/backoff"
	"example.org/bridge/internal/inspect"
	"example.org/bridge/internal/option"
	"example.org/bridge/internal/outage"
	"example.org/bridge/sink"
)

var _ sink.Transactional = (*Sink)(nil)

// grace is how long a cancelled Publish waits for the answers to what it has sent.
const grace = 500 * time.Millisecond

// errMoved ends a call whose messages belong to another stream by now.
var errMoved = errors.New("the subject belongs to another stream")

// Sink publishes to the streams of one NATS system over one connection.
type Sink struct {
	options Options
	conns   *connector
	faults  *faults
	routes  routes
	// batcher publishes where Options.Claim is set, else workers do.
	batcher *batcher
	// seen says that the streams that messages are for were there.
	seen atomic.Bool
	// connected says that a reader has found a connection.
	connected atomic.Bool

	// life ends with Close; it is the context of the goroutines in running, which outlive the call
	// that starts them.
	life    context.Context
	end     context.CancelFunc
	running sync.WaitGroup

	mu      sync.Mutex
	workers map[string]*worker
	// looked are the streams that TPs has returned.
	looked map[string]bool
	closed bool
}

// Open starts a sink and returns at once, whether or not a server can be reached. Its errors are
// about options.
func Open(options Options) (*Sink, error) {
	options, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Sink{options: options, workers: make(map[string]*worker), looked: make(map[string]bool)}
	s.life, s.end = context.WithCancel(context.Background())
	s.faults = &faults{log: outage.New(options.Logger), hook: options.Fault}
	s.conns = newConnector(&s.options, s.faults)
	s.conns.connected = s.reconnected
	s.running.Go(func() { s.conns.run(s.life) })
	if options.Claim != "" {
		s.batcher = newBatcher(s)
		s.running.Go(func() { s.batcher.serve(s.life) })
	}
	return s, nil
}

// Publish sends batch as [sink.Sink] says, with Options.Claim as [sink.Transactional] says. The
// messages of a batch that go to one stream are stored in their order, and a rejected one holds
// back all that follow it to that stream. Of a batch of more than 1,000 messages or
// Options.WindowBytes a part may be stored: that is an unknown outcome.
func (s *Sink) Publish(ctx context.Context, batch []sink.Message) (sink.Outcome, error) {
	if s.life.Err() != nil {
		return sink.Outcome{Status: make([]sink.Status, len(batch))}, sink.ErrClosed
	}
	if len(batch) == 0 {
		return sink.Outcome{}, nil
	}
	sink.NoteFirst(batch)
	if s.batcher != nil {
		return s.batcher.publish(ctx, batch)
	}
	if s.options.Stream != "" {
		w, err := s.worker(s.options.Stream)
		if err != nil {
			return sink.Outcome{Status: make([]sink.Status, len(batch))}, err
		}
		return s.publish(ctx, w, batch)
	}
	return s.publishRouted(ctx, batch)
}

// Fence implements [sink.Transactional]: it claims the stream where Options.Claim is set, and does
// nothing otherwise.
func (s *Sink) Fence(ctx context.Context) error {
	if s.batcher == nil {
		return nil
	}
	return s.batcher.fence(ctx)
}

// publish sends batch through one worker.
func (s *Sink) publish(ctx context.Context, w *worker, batch []sink.Message) (sink.Outcome, error) {
	c := newCall(batch)
	err := s.wait(ctx, w, c)
	out, failed := c.leave()
	if failed != nil {
		return out, failed
	}
	if err != nil && out.AllAcked() {
		return out, nil
	}
	return out, err
}

// wait hands c to w and blocks until it is through or the caller has to leave.
func (s *Sink) wait(ctx context.Context, w *worker, c *call) error {
	select {
	case w.submit <- c:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-s.life.Done():
		return sink.ErrClosed
	}
	select {
	case <-c.done:
		return nil
	case <-s.life.Done():
		return sink.ErrClosed
	case <-ctx.Done():
	}
	// What is under way is most likely stored: to know it spares repeats.
	c.stop()
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-c.done:
	case <-timer.C:
	case <-s.life.Done():
		return sink.ErrClosed
	}
	return context.Cause(ctx)
}

// worker returns the worker of a stream and starts it when it is new.
func (s *Sink) worker(stream string) (*worker, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, sink.ErrClosed
	}
	w := s.workers[stream]
	if w == nil {
		w = newWorker(stream, &s.options, s.conns, s.faults)
		s.workers[stream] = w
		s.running.Go(func() { w.serve(s.life) })
	}
	return w, nil
}

// reconnected tells of a new connection that all streams which were looked at may have other
// messages than before, also where nothing is sent to them.
func (s *Sink) reconnected() {
	s.mu.Lock()
	names := slices.Collect(maps.Keys(s.looked))
	s.mu.Unlock()
	for _, name := range names {
		s.options.Session(name)
	}
}

// session returns the connection, or waits for one until ctx or the sink ends.
func (s *Sink) session(ctx context.Context) (*session, error) {
	ctx, cancel := s.within(ctx)
	defer cancel()
	return s.conns.get(ctx)
}

// pause waits until ctx or the sink ends.
func (s *Sink) pause(ctx context.Context, d time.Duration) error {
	ctx, cancel := s.within(ctx)
	defer cancel()
	return backoff.Pause(ctx, d)
}

// within returns a context that ends with ctx and, with the cause sink.ErrClosed, with the sink.
func (s *Sink) within(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(s.life, func() { cancel(sink.ErrClosed) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// over returns why nothing more is to be tried, nil when it is.
func (s *Sink) over(ctx context.Context) error {
	if s.life.Err() != nil {
		return sink.ErrClosed
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// Ready returns nil when there is a connection and no message is being held up. It waits up to 2 s
// for the first connection.
func (s *Sink) Ready(ctx context.Context) error {
	if s.life.Err() != nil {
		return sink.ErrClosed
	}
	err := s.conns.state(ctx)
	connected := err == nil
	if connected {
		err = s.missing(ctx)
	} else {
		err = fmt.Errorf("no connection to NATS: %w", err)
	}
	// Who asks knows of err; the others learn it from the log.
	const asked = natsTP + outage.Probed
	switch {
	case s.life.Err() != nil:
		return sink.ErrClosed
	case err == nil:
		s.faults.end(asked)
	case !errors.Is(ctx.Err(), context.Canceled):
		s.faults.log.Fail(asked, err)
	}
	if !connected {
		return err
	}
	var errs []error
	for _, fault := range s.Outages() {
		if fault.Dependency != asked {
			errs = append(errs, fault)
		}
	}
	return errors.Join(append(errs, err)...)
}

// Outages returns what is waited out at this moment, also by Read.
func (s *Sink) Outages() []outage.Outage { return s.faults.log.Outages() }

// missing returns an error when a stream that messages are for is not there. It asks for each once
// until it was there.
func (s *Sink) missing(ctx context.Context) error {
	if s.options.CreateStream || s.seen.Load() {
		return nil
	}
	if name := s.options.Stream; name != "" {
		session, err := s.session(ctx)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeoutCause(ctx, requestTimeout, errNoReply)
		defer cancel()
		if _, err := session.js.Stream(ctx, name); errors.Is(err, jetstream.ErrStreamNotFound) {
			return option.Errorf("stream %s: %w: create it, or set %s=true", name, err, option.NATSCreateStream)
		} else if err != nil {
			if ctx.Err() != nil {
				err = session.explained(context.Cause(ctx))
			}
			return fmt.Errorf("ask for the stream %s: %w", name, err)
		}
	} else {
		for _, subject := range s.options.Published {
			if _, err := s.request(ctx, subject); err != nil {
				return err
			}
		}
	}
	s.seen.Store(true)
	return nil
}

// Close ends the calls under way, closes the connection and waits for every goroutine. It may be
// called again.
func (s *Sink) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.end()
	s.running.Wait()
	s.faults.log.Close()
	return nil
}

// othersWithin is how many of the last messages of a stream are looked at for those of others.
const othersWithin = 1000

// checkOthers finds events of other domains whose streams are named as ours: where their tables
// have the same rows, the events have the same ids.
func (i *inspection) checkOthers(ctx context.Context, stream jetstream.Stream) {
	state := stream.CachedInfo().State
	if i.options.Origin.Domain == "" || state.Msgs == 0 {
		return
	}
	// alone are the domains on subjects of their own, mixed those on subjects of ours.
	alone, mixed := make(map[string]bool), make(map[string]bool)
	_, err := request(ctx, i, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, lastMessages(ctx, stream, state, func(m jetstream.Msg) {
			domain, name := m.Headers().Get(sink.HeaderDomain), m.Headers().Get(sink.HeaderStream)
			switch {
			case domain == "" || domain == i.options.Origin.Domain || !slices.Contains(i.options.Origin.Streams, name):
			case covered(i.options.Published, m.Subject()):
				mixed[domain] = true
			default:
				alone[domain] = true
			}
		})
	})
	if err != nil {
		// Who may not read gets a finding about that.
		return
	}
	subject := "stream " + stream.CachedInfo().Config.Name
	const why = ", of a bridge stream of the same name: two events of different domains may have one id, and only domain and id together are unique"
	if len(mixed) > 0 {
		i.Add(inspect.Warning, inspect.StreamDomains, subject, "has events of the domain "+names(mixed)+" on subjects of this bridge"+why).
			Says("tell them apart by the header %s, or put {domain} into DESTINATION", sink.HeaderDomain)
	} else if len(alone) > 0 {
		i.Add(inspect.Note, inspect.StreamDomains, subject, "has events of the domain "+names(alone)+why).
			Says("let consumers of several domains remember %s and %s together", sink.HeaderDomain, sink.HeaderID)
	}
}

func names(set map[string]bool) string { return strings.Join(slices.Sorted(maps.Keys(set)), ", ") }

// lastMessages calls each with the headers of the last messages of a stream.
func lastMessages(ctx context.Context, stream jetstream.Stream, state jetstream.StreamState, each func(jetstream.Msg)) error {
	first := state.FirstSeq
	if state.LastSeq-first >= othersWithin {
		first = state.LastSeq - othersWithin + 1
	}
	consumer, err := stream.CreateConsumer(ctx, jetstream.ConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: first, AckPolicy: jetstream.AckNonePolicy,
		HeadersOnly: true, InactiveThreshold: requestTimeout, MemoryStorage: true, Replicas: 1,
	})
	if err != nil {
		return fmt.Errorf("make a consumer: %w", err)
	}
	messages, err := consumer.FetchNoWait(othersWithin)
	if err != nil {
		return err
	}
	for m := range messages.Messages() {
		each(m)
	}
	return messages.Error()
}
