package clienttest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"example.org/bridge/client"
	"example.org/bridge/client/backoff"
	"example.org/bridge/client/jetstream"
	"example.org/bridge/sink"
	sinkjetstream "example.org/bridge/sink/jetstream"
	"example.org/bridge/tests/clienttest"
	"example.org/bridge/tests/must"
	"example.org/bridge/tests/testall"
	"example.org/bridge/tests/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func onStream(t testing.TB, server *testenv.NATSServer, name ...string) clienttest.Fixture {
	stream := server.CreateStream(t, natsjs.StreamConfig{Name: strings.Join(name, "")})
	config := stream.CachedInfo().Config
	publisher := func(t testing.TB) sink.Sink {
		s, err := sinkjetstream.Open(sinkjetstream.Options{
			Connection: sinkjetstream.Connection{URLs: []string{server.URL()}, Stream: config.Name},
			Published:  []string{config.Name + ".a"},
		})
		must.OK(t, err)
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	bus := must.Get(jetstream.New(jetstream.Options{URLs: []string{server.URL()}}))(t)
	return clienttest.Fixture{
		Bus: bus, Sink: publisher(t), Destination: config.Name + ".a", Reads: config.Name + ".*",
		Purge: func(t testing.TB) {
			must.OK(t, stream.Purge(t.Context()))
		},
		Remake: func(t testing.TB) sink.Sink {
			js := server.JetStream(t)
			must.OK(t, js.DeleteStream(t.Context(), config.Name))
			must.Get(testenv.CreateStream(t.Context(), js, config))(t)
			return publisher(t)
		},
	}
}

func TestOnAServer(t *testing.T) {
	t.Parallel()
	server := testenv.OwnNATS(t)
	clienttest.Run(t, func(t *testing.T) clienttest.Fixture {
		f := onStream(t, server)
		if server.Process != nil {
			f.Restart = server.Restart
		}
		return f
	})
}

// TestAHandlerThatTakesLong has a handler go on for longer than the server waits for an
// acknowledgement. No other process is given the event meanwhile.
func TestAHandlerThatTakesLong(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	f := onStream(t, testenv.AnyNATS(t))
	w := clienttest.NewWriter(t, f.Sink, f.Destination, 1)
	w.Write(2, 2)
	given := make(chan string, 10)
	for range 2 {
		clienttest.Handle(t, f.Bus, "slow", options(f.Reads), func(ctx context.Context, e client.Event) error {
			given <- e.ID
			if e.ID == w.IDs[0] {
				return backoff.Pause(ctx, 25*time.Second)
			}
			return nil
		})
	}
	for i, want := range w.IDs {
		if got := <-given; got != want {
			t.Errorf("event %d handed out is %s, want %s", i+1, got, want)
		}
	}
}

// line makes connections to a server. The present one can be closed, and they can lose what says
// that an event is being handled and what asks for more.
type line struct {
	addr  string
	loses atomic.Bool
	conn  atomic.Pointer[conn]
}

type conn struct {
	net.Conn
	of *line
}

func (l *line) InProcessConn() (net.Conn, error) {
	dialed, err := net.Dial("tcp", l.addr)
	c := &conn{dialed, l}
	l.conn.Store(c)
	return c, err
}

func (l *line) cut() { _ = l.conn.Load().Close() }

func (c *conn) Write(b []byte) (int, error) {
	if c.of.loses.Load() && (bytes.Contains(b, []byte("+WPI")) || bytes.Contains(b, []byte(".MSG.NEXT."))) {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

// TestAHandlerThatIsCutOff has its context ended before another process is given the event. Where
// it goes on all the same, nothing is handed out beside that process.
func TestAHandlerThatIsCutOff(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	for name, c := range map[string]struct {
		cut    func(*line)
		goesOn bool
	}{
		"the connection is closed":                    {cut: (*line).cut},
		"nothing arrives at the server":               {cut: func(l *line) { l.loses.Store(true) }},
		"nothing arrives, and it succeeds in the end": {func(l *line) { l.loses.Store(true) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := testenv.AnyNATS(t)
			f := onStream(t, server)
			w := clienttest.NewWriter(t, f.Sink, f.Destination, 1)
			w.Write(2, 1)
			l := &line{addr: strings.TrimPrefix(server.URL(), "nats://")}
			bus := must.Get(jetstream.New(jetstream.Options{InProcess: l}))(t)
			given := make(chan string, 10)
			begun, other := make(chan struct{}), make(chan struct{})
			var cutting, taking sync.Once
			var handling atomic.Int32
			handle := func(ctx context.Context, e client.Event) error {
				first := false
				cutting.Do(func() {
					first = true
					c.cut(l)
					close(begun)
					<-ctx.Done()
					given <- "the context has ended"
				})
				switch {
				case first && c.goesOn:
					<-other
					return nil
				case first:
					return ctx.Err()
				}
				if handling.Add(1) > 1 {
					t.Errorf("%s is handed out beside another event", e.ID)
				}
				defer handling.Add(-1)
				taking.Do(func() {
					close(other)
					// What the first one says in the end arrives meanwhile.
					_ = backoff.Pause(ctx, 3*time.Second)
				})
				given <- e.ID
				return ctx.Err()
			}
			for _, bus := range []client.Bus{bus, f.Bus} {
				clienttest.Handle(t, bus, "g", options(f.Reads), handle)
				<-begun
			}
			for _, want := range []string{"the context has ended", w.IDs[0], w.IDs[1]} {
				if got := <-given; got != want {
					t.Errorf("%s, want %s", got, want)
				}
			}
		})
	}
}

// TestAHandlerThatGoesOn has its event given to nobody else, although its process is to stop.
func TestAHandlerThatGoesOn(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	f := onStream(t, testenv.AnyNATS(t))
	w := clienttest.NewWriter(t, f.Sink, f.Destination, 1)
	w.Write(2, 1)
	begun, given := make(chan struct{}), make(chan string, 10)
	_, stop := clienttest.Handle(t, f.Bus, "g", options(f.Reads), func(ctx context.Context, e client.Event) error {
		close(begun)
		<-ctx.Done()
		_ = backoff.Pause(t.Context(), 45*time.Second)
		given <- "the first one of " + e.ID
		return nil
	})
	<-begun
	go stop()
	clienttest.Handle(t, f.Bus, "g", options(f.Reads), func(_ context.Context, e client.Event) error {
		given <- e.ID
		return nil
	})
	for _, want := range []string{"the first one of " + w.IDs[0], w.IDs[1]} {
		if got := <-given; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// TestAStreamThatIsMadeLater is consumed over the connection that there is.
func TestAStreamThatIsMadeLater(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	server := testenv.AnyNATS(t)
	f, later := onStream(t, server), testenv.NewStreamName()
	given := make(chan string, 10)
	events, _ := clienttest.Handle(t, f.Bus, "g", options(f.Reads, later+".*"), func(_ context.Context, e client.Event) error {
		given <- e.ID
		return nil
	})
	for n := range 2 {
		if n == 1 {
			f = onStream(t, server, later)
		}
		w := clienttest.NewWriter(t, f.Sink, f.Destination, 1)
		w.Write(1, 1)
		select {
		case <-given:
		case <-time.After(clienttest.Within):
			t.Fatalf("no event of %s is handed out: %v", f.Destination, events.Err())
		}
	}
}

// TestSubjectsThatNoStreamTakes are waited for, with a fault that names them.
func TestSubjectsThatNoStreamTakes(t *testing.T) {
	t.Parallel()
	bus := must.Get(jetstream.New(jetstream.Options{URLs: []string{testenv.AnyNATS(t).URL()}}))(t)
	ctx, cancel := context.WithTimeout(t.Context(), clienttest.Within)
	defer cancel()
	opening := client.Opening{Destinations: []string{"nobody.takes.this"}, Fault: func(_ string, err error) {
		if strings.Contains(err.Error(), `no stream takes the subjects ["nobody.takes.this"]`) {
			cancel()
		}
	}}
	if err := bus.Consume(ctx, client.Subscription{Opening: opening, Group: "g"}, nil); err != nil || context.Cause(ctx) != context.Canceled {
		t.Errorf("Consume ends with %v, %v", err, context.Cause(ctx))
	}
}

// TestAGroupOfTwoStreams is refused: each would be given events of both. So is what makes no name.
func TestAGroupOfTwoStreams(t *testing.T) {
	t.Parallel()
	f := onStream(t, testenv.AnyNATS(t))
	for _, c := range []struct{ stream, group, want string }{
		{"orders", "g", ""}, {"stock", "g", "the group g consumes stream orders of bridge already: give stream stock of bridge a group of its own"},
		{"orders", "g", ""}, {"stock", "h", ""}, {"orders", "mail.er", `the group "mail.er" makes no name`},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		o := client.Options{Stream: c.stream, Destinations: []string{f.Reads}}
		events := must.Get(client.NewEvents(joined{f.Bus, cancel}, c.group, o, func(context.Context, client.Event) error { return nil }))(t)
		if err := events.Run(ctx); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) || errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
			t.Errorf("%s of %s: %v, want %q", c.group, c.stream, err, c.want)
		}
		cancel()
	}
}

// denying returns a bus whose user may not publish to a subject, and a sink that may.
func denying(t *testing.T, subject string) (*jetstream.Bus, sink.Sink) {
	nats := testenv.InProcessNATS(t, func(o *server.Options) {
		deny := &server.Permissions{Publish: &server.SubjectPermission{Deny: []string{subject}}}
		o.Users = []*server.User{{Username: "all", Password: "secret"}, {Username: "few", Password: "secret", Permissions: deny}}
	})
	nats.As("all", "secret").CreateStream(t, natsjs.StreamConfig{Name: "EVENTS", Subjects: []string{"in.>"}})
	url := func(user string) []string {
		return []string{strings.Replace(nats.URL(), "//", "//"+user+":secret@", 1)}
	}
	s := must.Get(sinkjetstream.Open(sinkjetstream.Options{
		Connection: sinkjetstream.Connection{URLs: url("all"), Stream: "EVENTS"}, Published: []string{"in.a"},
	}))(t)
	t.Cleanup(func() { _ = s.Close() })
	return must.Get(jetstream.New(jetstream.Options{URLs: url("few")}))(t), s
}

// TestAGroupThatMayNotAskForItsConsumer is joined as one that may.
func TestAGroupThatMayNotAskForItsConsumer(t *testing.T) {
	t.Parallel()
	bus, _ := denying(t, "$JS.API.CONSUMER.INFO.>")
	for range 2 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		o := client.Options{Stream: "orders", Destinations: []string{"in.a"}}
		events := must.Get(client.NewEvents(joined{bus, cancel}, "g", o, func(context.Context, client.Event) error { return nil }))(t)
		must.OK(t, events.Run(ctx))
		if errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
			t.Error("the group is not joined within a minute")
		}
	}
}

// TestAGroupThatMayNotAcknowledge is given the same event again and again, and says why.
func TestAGroupThatMayNotAcknowledge(t *testing.T) {
	t.Parallel()
	bus, s := denying(t, "$JS.ACK.>")
	clienttest.NewWriter(t, s, "in.a", 1).Write(1, 1)
	events, _ := clienttest.Handle(t, bus, "g", options("in.a"), func(context.Context, client.Event) error { return nil })
	must.Until(t, clienttest.Within, "a fault names what it may not", func() any {
		if err := events.Err(); err == nil || !strings.Contains(strings.ToLower(err.Error()), "$js.ack") {
			return fmt.Sprint("the fault is ", err)
		}
		return ""
	})
}

type joined struct {
	client.Bus
	end func()
}

func (j joined) Consume(ctx context.Context, s client.Subscription, each func(context.Context, string, *sink.Stored) error) error {
	s.Joined = j.end
	return j.Bus.Consume(ctx, s, each)
}
