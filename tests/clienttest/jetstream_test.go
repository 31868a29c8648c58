package clienttest_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"strings"
	"sync"
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

// line is a connection that can be closed, or lose what says that an event is being handled.
type line struct {
	net.Conn
	addr  string
	loses bool
}

func (l *line) InProcessConn() (net.Conn, error) {
	var err error
	l.Conn, err = net.Dial("tcp", l.addr)
	return l, err
}

func (l *line) Write(b []byte) (int, error) {
	if l.loses && bytes.Contains(b, []byte("+WPI")) {
		return len(b), nil
	}
	return l.Conn.Write(b)
}

// TestAHandlerThatIsCutOff has its context ended before another process is given the event.
func TestAHandlerThatIsCutOff(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	for name, cut := range map[string]func(*line){
		"the connection is closed":      func(l *line) { _ = l.Close() },
		"nothing arrives at the server": func(l *line) { l.loses = true },
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
			begun := make(chan struct{})
			var cutting sync.Once
			handle := func(ctx context.Context, e client.Event) error {
				cutting.Do(func() {
					cut(l)
					close(begun)
					<-ctx.Done()
					given <- "the context has ended"
				})
				if ctx.Err() == nil {
					given <- e.ID
				}
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

// TestAGroupThatMayNotAskForItsConsumer is joined as one that may.
func TestAGroupThatMayNotAskForItsConsumer(t *testing.T) {
	t.Parallel()
	nats := testenv.InProcessNATS(t, func(o *server.Options) {
		deny := &server.Permissions{Publish: &server.SubjectPermission{Deny: []string{"$JS.API.CONSUMER.INFO.>"}}}
		o.Users = []*server.User{{Username: "all", Password: "secret"}, {Username: "few", Password: "secret", Permissions: deny}}
	})
	nats.As("all", "secret").CreateStream(t, natsjs.StreamConfig{Name: "EVENTS", Subjects: []string{"in.>"}})
	bus := must.Get(jetstream.New(jetstream.Options{URLs: []string{strings.Replace(nats.URL(), "//", "//few:secret@", 1)}}))(t)
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

type joined struct {
	client.Bus
	end func()
}

func (j joined) Consume(ctx context.Context, s client.Subscription, each func(context.Context, string, *sink.Stored) error) error {
	s.Joined = j.end
	return j.Bus.Consume(ctx, s, each)
}
