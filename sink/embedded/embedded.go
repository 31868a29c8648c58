package embedded

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"bridge/internal/inspect"
	"bridge/internal/outage"
	"bridge/sink"
)

// Options say where the server keeps its data. Only Dir is required.
type Options struct {
	// Dir is the folder of the data. It is made when it is missing.
	Dir string
	// Listen is host:port to serve others on, without a login; port 0 is a free one. Empty: no
	// listener.
	Listen string
	// Stream is the stream that the sink publishes to, Subjects what it must take: subjects that an
	// existing one lacks are added to it. Without Stream nothing is changed.
	Stream   string
	Subjects []string
	// Logger receives what the server says. Defaults to one that discards.
	Logger *slog.Logger
}

// Conns makes connections to the server that do not leave the process.
type Conns interface{ InProcessConn() (net.Conn, error) }

// Sink publishes to the server inside the process.
type Sink struct {
	inner  sink.Sink
	server *server.Server
	gate   *gate
	lock   *lock
	dir    string
	log    *serverLog

	// end stops the watch in running.
	end     context.CancelFunc
	running sync.WaitGroup
	once    sync.Once
	err     error
}

var (
	_ sink.Sink      = (*Sink)(nil)
	_ sink.Inspector = (*Sink)(nil)
	_ sink.Reader    = (*Sink)(nil)
)

// errNoReader is returned where the sink on the server reads nothing.
var errNoReader = fmt.Errorf("%w: the sink on the server reads nothing", sink.ErrUnreadable)

// startWithin bounds the start of the server, the reading of its files included.
const startWithin = time.Minute

// maxStore bounds the files of the server: not at all.
const maxStore = 1 << 60

// maxPayload is the size of the largest message, its headers included: the most that the server
// recommends.
const maxPayload = 8 << 20

// Open takes the folder, starts the server and then open's sink on it. It returns when the server
// answers.
func Open(o Options, open func(Conns) (sink.Sink, error)) (_ *Sink, err error) {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	s := &Sink{dir: o.Dir, log: &serverLog{logger: o.Logger, fatal: make(chan string, 1)}}
	if s.lock, err = prepare(o.Dir); err != nil {
		return nil, fmt.Errorf("start the NATS server inside the process: %w", err)
	}
	ctx, end := context.WithCancel(context.Background())
	s.end = end
	if err := s.start(ctx, o); err != nil {
		return nil, errors.Join(fmt.Errorf("start the NATS server inside the process: %w", err), s.Close())
	}
	s.gate = newGate(s.server)
	if s.inner, err = open(s.gate); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.running.Go(func() { s.watch(ctx) })
	return s, nil
}

var _ Conns = (*Sink)(nil)

// InProcessConn implements Conns.
func (s *Sink) InProcessConn() (net.Conn, error) { return s.gate.InProcessConn() }

// start starts the server and waits until it answers.
func (s *Sink) start(ctx context.Context, o Options) error {
	options := &server.Options{
		ServerName: "bridge", DontListen: o.Listen == "", JetStream: true, StoreDir: o.Dir, SyncAlways: true, MaxPayload: maxPayload,
		// Room is short when the disk says so, not when a share of what was free at the start is
		// used up.
		JetStreamMaxStore: maxStore,
		// The process has its own way with signals.
		NoSigs: true,
	}
	if o.Listen != "" {
		if err := listenOn(ctx, o.Listen, options); err != nil {
			return err
		}
	}
	inner, err := server.NewServer(options)
	if err != nil {
		return err
	}
	s.server = inner
	inner.SetLoggerV2(s.log, false, false, false)
	s.running.Go(inner.Start)
	if err := s.started(o.Listen); err != nil {
		return err
	}
	return widen(ctx, inner, o)
}

// started waits until the server answers or says why it does not.
func (s *Sink) started(listen string) error {
	const look = 20 * time.Millisecond
	for begun := time.Now(); time.Since(begun) < startWithin; {
		select {
		case why := <-s.log.fatal:
			if listen != "" {
				return fmt.Errorf("in %s, listening on %s: %s", s.dir, listen, why)
			}
			return fmt.Errorf("in %s: %s", s.dir, why)
		default:
		}
		if s.server.ReadyForConnections(look) && s.server.JetStreamEnabled() {
			return nil
		}
	}
	return fmt.Errorf("in %s: it does not answer within %s", s.dir, startWithin)
}

// Addr returns the address that others reach the server on, nil without a listener.
func (s *Sink) Addr() net.Addr { return s.server.Addr() }

// Publish is that of the sink on the server.
func (s *Sink) Publish(ctx context.Context, batch []sink.Message) (sink.Outcome, error) {
	return s.inner.Publish(ctx, batch)
}

// Ready says whether the server stores messages.
func (s *Sink) Ready(ctx context.Context) error {
	err := s.inner.Ready(ctx)
	if !s.stores() && !errors.Is(err, sink.ErrClosed) {
		return errors.Join(fmt.Errorf("the NATS server inside the process stores nothing: see to room on the disk of %s", s.dir), err)
	}
	return err
}

// Outages is that of the sink on the server.
func (s *Sink) Outages() []outage.Outage {
	if inner, ok := s.inner.(interface{ Outages() []outage.Outage }); ok {
		return inner.Outages()
	}
	return nil
}

// TPs is that of the sink on the server.
func (s *Sink) TPs(ctx context.Context, destinations []string) ([]sink.TP, error) {
	if reader, ok := s.inner.(sink.Reader); ok {
		return reader.TPs(ctx, destinations)
	}
	return nil, errNoReader
}

// Read is that of the sink on the server.
func (s *Sink) Read(ctx context.Context, span sink.Span, each func(*sink.Stored) error) (next uint64, err error) {
	if reader, ok := s.inner.(sink.Reader); ok {
		return reader.Read(ctx, span, each)
	}
	return span.From, errNoReader
}

// Inspect is that of the sink on the server.
func (s *Sink) Inspect(ctx context.Context) inspect.Report {
	if inspector, ok := s.inner.(sink.Inspector); ok {
		return inspector.Inspect(ctx)
	}
	return inspect.Report{Summary: "NATS inside the process, data in " + s.dir}
}

// Close closes the sink, ends the server and lets the folder go. It may be called again.
func (s *Sink) Close() error {
	s.once.Do(func() {
		s.end()
		if s.inner != nil {
			s.err = s.inner.Close()
		}
		if s.server != nil {
			s.server.Shutdown()
			s.server.WaitForShutdown()
		}
		s.running.Wait()
		s.err = errors.Join(s.err, s.lock.release())
	})
	return s.err
}
