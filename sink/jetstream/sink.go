package jetstream

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"example.org/bridge/client/bus"
	"example.org/bridge/client/jetstream/server"
	"example.org/bridge/internal/outage"
	"example.org/bridge/sink"
	"github.com/nats-io/nats.go/jetstream"
)

var _ sink.Transactional = (*Sink)(nil)

var errMoved = errors.New("the subject belongs to another stream")

// Sink publishes to the streams of one NATS system over one connection.
type Sink struct {
	*server.Reader

	options Options
	conns   *server.Connector
	faults  *faults
	// batcher publishes where Options.Claim is set, else workers do.
	batcher *batcher
	// seen says that the streams that messages are for were there.
	seen atomic.Bool

	// life ends with Close; it is the context of the goroutines in running, which outlive the call
	// that starts them.
	life    context.Context
	end     context.CancelFunc
	running sync.WaitGroup

	mu      sync.Mutex
	workers map[string]*worker
	// routes tell which of the subjects of the streams that were found covers one. Streams never
	// share a subject.
	routes map[string]func(subject string) string
	// looked are the streams that TPs has returned.
	looked map[string]bool
}

// Open starts a sink and returns at once, whether or not a server can be reached. Its errors are
// about options.
func Open(options Options) (*Sink, error) {
	options, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Sink{options: options, workers: make(map[string]*worker), routes: make(map[string]func(string) string), looked: make(map[string]bool)}
	s.life, s.end = context.WithCancel(context.Background())
	s.faults = &faults{log: outage.New(options.Logger), hook: options.Fault}
	s.conns = server.NewConnector(&s.options.Connection, s.faults, s.reconnected)
	s.Reader = s.conns.NewReader(s.life, s.found)
	s.running.Go(func() { s.conns.Run(s.life) })
	if options.Claim != "" {
		s.batcher = newBatcher(&s.options, s.conns, s.faults)
		s.running.Go(func() { s.batcher.serve(s.life) })
	}
	return s, nil
}

// Publish sends batch as [sink.Sink] says, with Options.Claim as [sink.Transactional] says. The
// messages of a batch that go to one stream are stored in their order, and a rejected one holds
// back all that follow it to that stream. Of a batch of more than 1,000 messages or
// 8 MiB a part may be stored: that is an unknown outcome.
func (s *Sink) Publish(ctx context.Context, batch []sink.Message) (sink.Outcome, error) {
	none := sink.Outcome{Status: make([]sink.Status, len(batch))}
	if s.life.Err() != nil {
		return none, sink.ErrClosed
	}
	if len(batch) == 0 {
		return none, nil
	}
	sink.NoteFirst(batch)
	switch {
	case s.batcher != nil:
		out, err := s.batcher.publish(ctx, s.life, batch)
		if err != nil {
			return none, err
		}
		return out, nil
	case s.options.Stream != "":
		return s.publish(ctx, s.options.Stream, batch)
	}
	ctx, cancel := bus.Within(ctx, s.life)
	defer cancel()
	return s.publishRouted(ctx, batch)
}

// Fence implements [sink.Transactional]: it claims the stream where Options.Claim is set, and does
// nothing otherwise.
func (s *Sink) Fence(ctx context.Context) error {
	if s.batcher == nil {
		return nil
	}
	return s.batcher.fence(ctx, s.life)
}

func (s *Sink) publish(ctx context.Context, stream string, batch []sink.Message) (sink.Outcome, error) {
	s.mu.Lock()
	w := s.workers[stream]
	if w == nil && s.life.Err() == nil {
		w = &worker{
			queue: queue{stream: stream, faults: s.faults, submit: make(chan *call)}, options: &s.options, conns: s.conns,
			ring: make([]inFlight, windowMessages), env: newEnvelope(),
		}
		if s.options.Bucket != "" && s.options.JetStreamDomain != "" {
			// Buckets of another domain are reached by its API alone.
			w.env.prefix = s.options.API("")
		}
		s.workers[stream] = w
		s.running.Go(func() { w.serve(s.life) })
	}
	s.mu.Unlock()
	if w == nil {
		return sink.Outcome{Status: make([]sink.Status, len(batch))}, sink.ErrClosed
	}
	return w.publish(ctx, s.life, batch)
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

// errOldLeader says that a server that was the leader does not know of our claim.
var errOldLeader = errors.New("the stream ends before our claim, for the server that answers")

func (s *Sink) found(info *jetstream.StreamInfo) error {
	if s.batcher != nil && info.State.LastSeq < s.batcher.claimed.Load() {
		// What lies before the claim is to be read back.
		return errOldLeader
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.looked[info.Config.Name] = true
	return nil
}

// Ready returns nil when there is a connection and no message is being held up. It waits up to 2 s
// for the first connection.
func (s *Sink) Ready(ctx context.Context) error {
	if s.life.Err() != nil {
		return sink.ErrClosed
	}
	err := s.conns.State(ctx)
	connected := err == nil
	if connected {
		err = s.missing(ctx)
	} else {
		err = fmt.Errorf("no connection to NATS: %w", err)
	}
	// Who asks knows of err; the others learn it from the log.
	const asked = server.Everywhere + outage.Probed
	switch {
	case s.life.Err() != nil:
		return sink.ErrClosed
	case err == nil:
		s.faults.OK(asked)
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
	ctx, cancel := bus.Within(ctx, s.life)
	defer cancel()
	if name := s.options.Stream; name != "" {
		session, err := s.conns.Get(ctx)
		if err != nil {
			return err
		}
		if _, err := lookup(ctx, session.JS, &s.options, name); err != nil {
			return session.Explained(err, "STREAM.INFO."+name, "STREAM.CREATE."+name)
		}
	} else {
		for _, subject := range s.options.Published {
			if s.route(subject) != "" {
				continue
			}
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
	s.end()
	s.mu.Unlock()
	s.running.Wait()
	s.faults.log.Close()
	return nil
}
