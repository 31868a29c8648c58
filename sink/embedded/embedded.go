package embedded

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"example.org/bridge/client/bus"
	"example.org/bridge/internal/inspect"
	"example.org/bridge/internal/option"
	"example.org/bridge/internal/outage"
	"example.org/bridge/sink"
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
	// Keep sets how an existing stream keeps messages, and returns what of that cannot be changed.
	// Optional.
	Keep func(*jetstream.StreamConfig) (differs string)
	// Logger receives what the server says. Defaults to one that discards.
	Logger *slog.Logger
}

func (o *Options) keep(c *jetstream.StreamConfig) (differs string) {
	if o.Keep == nil {
		return ""
	}
	return o.Keep(c)
}

// Bus is the sink on the server.
type Bus interface {
	sink.Sink
	sink.Reader
	sink.Inspector
	Outages() []outage.Outage
}

// Sink publishes to the server inside the process.
type Sink struct {
	Bus
	server *server.Server
	gate   *gate
	lock   *os.File
	dir    string
	log    *serverLog

	// end stops the watch in watching.
	end               context.CancelFunc
	running, watching sync.WaitGroup
	once              sync.Once
	err               error
}

// startWithin bounds the start of the server, the reading of its files included.
const startWithin = time.Minute

// maxStore bounds the files of the server: not at all.
const maxStore = 1 << 60

// maxPayload is the size of the largest message, its headers included: the most that the server
// recommends.
const maxPayload = 8 << 20

// Open takes the folder, starts the server and then open's sink on it. With nil there is the server
// alone. It returns when the server answers.
func Open(o Options, open func(nats.InProcessConnProvider) (Bus, error)) (_ *Sink, err error) {
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
	s.gate = &gate{server: s.server, conns: make(map[*gatedConn]struct{})}
	if open != nil {
		bus, err := open(s.gate)
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
		s.Bus = bus
	}
	s.watching.Go(func() { s.watch(ctx) })
	return s, nil
}

var _ nats.InProcessConnProvider = (*Sink)(nil)

// InProcessConn implements [nats.InProcessConnProvider].
func (s *Sink) InProcessConn() (net.Conn, error) { return s.gate.InProcessConn() }

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
		// The server would report a taken port to its log alone.
		if err := tryAddress(ctx, o.Listen); err != nil {
			return fmt.Errorf("listen on %s: %w; or choose another one: port 0 is a free one", o.Listen, err)
		}
		host, port, err := net.SplitHostPort(o.Listen)
		if err == nil {
			options.Host = host
			options.Port, err = strconv.Atoi(port)
		}
		if err != nil {
			return err
		}
		options.Port = cmp.Or(options.Port, server.RANDOM_PORT)
	}
	inner, err := server.NewServer(options)
	if err != nil {
		return err
	}
	s.server = inner
	inner.SetLoggerV2(s.log, false, false, false)
	s.running.Go(inner.Start)
	const look = 20 * time.Millisecond
	for begun := time.Now(); !inner.ReadyForConnections(look) || !inner.JetStreamEnabled(); {
		select {
		case why := <-s.log.fatal:
			if o.Listen != "" {
				return fmt.Errorf("in %s, listening on %s: %s", s.dir, o.Listen, why)
			}
			return fmt.Errorf("in %s: %s", s.dir, why)
		default:
		}
		if time.Since(begun) > startWithin {
			return fmt.Errorf("in %s: it does not answer within %s", s.dir, startWithin)
		}
	}
	return widen(ctx, inner, o)
}

// Addr returns the address that others reach the server on, nil without a listener.
func (s *Sink) Addr() net.Addr { return s.server.Addr() }

// Ready says whether the server stores messages.
func (s *Sink) Ready(ctx context.Context) error {
	err := s.Bus.Ready(ctx)
	if !s.stores() && !errors.Is(err, sink.ErrClosed) {
		return errors.Join(fmt.Errorf("the NATS server inside the process stores nothing: see to room on the disk of %s", s.dir), err)
	}
	return err
}

// Close closes the sink, ends the server and lets the folder go. It may be called again.
func (s *Sink) Close() error {
	s.once.Do(func() {
		s.end()
		// It switches JetStream on, which has to be off behind the end of the server.
		s.watching.Wait()
		if s.Bus != nil {
			s.err = s.Bus.Close()
		}
		if s.server != nil {
			s.server.Shutdown()
			s.server.WaitForShutdown()
		}
		s.running.Wait()
		s.err = errors.Join(s.err, s.lock.Close())
	})
	return s.err
}

// Inspect looks at what Open would use, as an Inspector of package sink says, without starting a
// server and without making anything.
func Inspect(ctx context.Context, o Options) inspect.Report {
	r := inspect.Report{Summary: fmt.Sprintf("NATS inside the process, stream %s, data in %s", o.Stream, o.Dir)}
	running := inspectFolder(&r, o.Dir)
	inspectStreams(&r, o)
	if o.Listen == "" || running {
		return r
	}
	if err := tryAddress(ctx, o.Listen); err != nil {
		r.Add(inspect.Unsafe, inspect.SinkUnreachable, "address "+o.Listen, "cannot be listened on: "+err.Error()).
			Says("choose another one after listen= in %s; port 0 is a free one", option.SinkURL)
	}
	return r
}

func inspectFolder(r *inspect.Report, dir string) (running bool) {
	subject := "folder " + dir
	file, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if info, err := os.Stat(dir); err == nil && !info.IsDir() {
			r.Add(inspect.Unsafe, inspect.SinkUnreachable, subject, "is a file").Says("name a folder, as in %s=embedded:///var/lib/bridge/nats",
				option.SinkURL)
		}
		r.Summary += ", not started yet"
		return false
	case err != nil:
		r.Add(inspect.Unsafe, inspect.SinkUnreachable, subject, "cannot be used: "+err.Error()).
			Says("let the user that runs bridge write to it, or name another folder, as in %s=embedded:///var/lib/bridge/nats", option.SinkURL)
		return false
	}
	// It was opened for its lock alone.
	defer func() { _ = file.Close() }()
	if errors.Is(flock(file), errInUse) {
		r.Summary += ", in use by a bridge that runs"
		return true
	}
	return false
}

func inspectStreams(r *inspect.Report, o Options) {
	files, _ := filepath.Glob(filepath.Join(o.Dir, "jetstream", "$G", "streams", "*", "meta.inf"))
	for _, file := range files {
		var c jetstream.StreamConfig
		text, err := os.ReadFile(file)
		if err != nil || json.Unmarshal(text, &c) != nil {
			// It is being written, or is of a server that says it otherwise.
			continue
		}
		if c.Name == o.Stream {
			if differs := o.keep(&c); differs != "" {
				r.Add(inspect.Warning, inspect.StreamDiffers, "stream "+c.Name, "has "+differs+": it cannot be changed").
					Says("correct %s, or name another folder in %s", option.NATSStreamStorage, option.SinkURL)
			}
		} else if slices.ContainsFunc(o.Subjects, func(s string) bool { return bus.MeetsAny(c.Subjects, s) }) {
			r.Add(inspect.Unsafe, inspect.StreamCreation, "stream "+o.Stream, "cannot be created: "+taken(o, c.Name)).
				Says("set %s=%s, or name another folder in %s", option.NATSStream, c.Name, option.SinkURL)
		}
	}
}

func taken(o Options, by string) string {
	return fmt.Sprintf("the stream %s in %s takes its subjects", by, o.Dir)
}

// widen adds the subjects that an existing stream lacks, and has it keep messages as is given:
// nobody else looks after the streams of this server.
func widen(ctx context.Context, s *server.Server, o Options) (err error) {
	if o.Stream == "" {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, startWithin, errors.New("the server does not answer"))
	defer cancel()
	nc, err := nats.Connect("", nats.InProcessServer(s), nats.Name("bridge"))
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	stream, err := js.Stream(ctx, o.Stream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		for _, subject := range o.Subjects {
			if other, err := js.StreamNameBySubject(ctx, subject); err == nil {
				return option.Errorf("%s: set %s=%s, or name another folder in %s", taken(o, other), option.NATSStream, other, option.SinkURL)
			}
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("look at the stream %s: %w", o.Stream, err)
	}
	config := stream.CachedInfo().Config
	was := config
	lacks, all := bus.Widen(config.Subjects, o.Subjects)
	if o.keep(&config); len(lacks) == 0 && config.MaxAge == was.MaxAge && config.MaxBytes == was.MaxBytes && config.Duplicates == was.Duplicates {
		return nil
	}
	config.Subjects = all
	if _, err := js.UpdateStream(ctx, config); err != nil {
		return fmt.Errorf("change the stream %s with the subjects %q: %w", o.Stream, all, err)
	}
	if len(lacks) > 0 {
		o.Logger.Info("added subjects to the stream", "stream", o.Stream, "subjects", lacks)
	}
	return nil
}

// tryEvery is the pause between two attempts to switch JetStream on again.
const tryEvery = 2 * time.Second

// stores reports whether JetStream is on and has written all that it wanted to.
func (s *Sink) stores() bool { return s.server.JetStreamEnabled() && !s.log.broken.Load() }

// watch restarts JetStream whenever the server has switched it off or has given up a stream, as
// it does when the disk is full.
func (s *Sink) watch(ctx context.Context) {
	tick := time.NewTicker(tryEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if s.stores() {
			continue
		}
		err := probe(s.lock)
		if err == nil && s.server.JetStreamEnabled() {
			err = s.server.ShutdownJetStream()
		}
		if err == nil {
			s.log.broken.Store(false)
			err = s.gate.quiet(ctx, func() error {
				return s.server.EnableJetStream(&server.JetStreamConfig{StoreDir: s.dir, MaxStore: maxStore, SyncAlways: true})
			})
		}
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			s.log.logger.Warn("the NATS server inside the process cannot store messages, publishing waits", "error", err)
			continue
		}
		s.log.logger.Info("the NATS server inside the process stores messages again")
	}
}
