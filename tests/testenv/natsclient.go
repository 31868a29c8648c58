package testenv

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"example.org/bridge/sink"
	"example.org/bridge/sink/sinktest"
)

// InProcessNATS starts a server of the NATS library inside the test, with file storage in a folder
// of the test, and stops it when the test ends. It needs nothing installed and takes a few
// milliseconds. It cannot be killed: use StartNATS for that.
func InProcessNATS(t testing.TB, adjust ...func(*server.Options)) *NATSServer {
	t.Helper()
	options := &server.Options{
		ServerName: "test", Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true,
		AuthTimeout: time.Minute.Seconds(),
	}
	for _, f := range adjust {
		f(options)
	}
	inner := must(server.NewServer(options))(t)
	inner.Start()
	t.Cleanup(func() {
		inner.Shutdown()
		inner.WaitForShutdown()
	})
	if !inner.ReadyForConnections(startWithin) {
		t.Fatal("the NATS server inside the test is not ready")
	}
	return &NATSServer{Version: server.VERSION, url: &url.URL{Scheme: "nats", Host: inner.Addr().String()}}
}

// Connect opens a connection of an administrator, closed when the test ends.
func (s *NATSServer) Connect(t testing.TB) *nats.Conn {
	t.Helper()
	options := append([]nats.Option{nats.MaxReconnects(-1), nats.ReconnectWait(50 * time.Millisecond), nats.Timeout(20 * time.Second)}, s.login...)
	nc := must(nats.Connect(s.url.String(), options...))(t)
	t.Cleanup(nc.Close)
	return nc
}

// As returns the server with another login for Connect.
func (s *NATSServer) As(user, password string) *NATSServer {
	other := *s
	other.login = []nats.Option{nats.UserInfo(user, password)}
	return &other
}

// JetStream is Connect with the JetStream interface.
func (s *NATSServer) JetStream(t testing.TB) jetstream.JetStream {
	t.Helper()
	return must(jetstream.New(s.Connect(t), jetstream.WithDefaultTimeout(time.Minute)))(t)
}

var natsStreams atomic.Uint64

// NewStreamName returns a name that no stream of the server has.
func NewStreamName() string {
	return fmt.Sprintf("T%d-%d", os.Getpid(), natsStreams.Add(1))
}

// CreateStream creates a stream with file storage that takes the subjects "<name>.>" unless config
// names others, and deletes it when the test ends. An empty name means a new one.
func (s *NATSServer) CreateStream(t testing.TB, config jetstream.StreamConfig) jetstream.Stream {
	t.Helper()
	if config.Name == "" {
		config.Name = NewStreamName()
	}
	if config.Subjects == nil {
		config.Subjects = []string{config.Name + ".>"}
	}
	js := s.JetStream(t)
	stream := must(CreateStream(t.Context(), js, config))(t)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		// A server that the test has stopped, or a stream that it has deleted, is gone already.
		err := js.DeleteStream(ctx, config.Name)
		if err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
			t.Logf("delete stream %s: %v", config.Name, err)
		}
	})
	return stream
}

// storeFailed is the server's error code for a stream that it could not create, for want of its
// files among other reasons.
const storeFailed = jetstream.ErrorCode(10049)

// CreateStream creates a stream, and tries again for a while when the server could not create its
// files: when an account's last stream is deleted, the server removes the folder of all streams a
// moment later, also under a stream that is being created.
func CreateStream(ctx context.Context, js jetstream.JetStream, config jetstream.StreamConfig) (stream jetstream.Stream, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	// The last try tells how it ended.
	_ = poll(ctx, func() error {
		stream, err = js.CreateStream(ctx, config)
		if refused := new(jetstream.APIError); errors.As(err, &refused) && refused.ErrorCode == storeFailed {
			return err
		}
		return nil
	})
	return stream, err
}

// Consume returns what a stream holds on a subject, all of it where that is empty, in its order, as
// nats.go reads it.
func Consume(t testing.TB, stream jetstream.Stream, subject string) (all []sinktest.Record) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	config := jetstream.OrderedConsumerConfig{}
	if subject != "" {
		config.FilterSubjects = []string{subject}
	}
	consumer, err := stream.OrderedConsumer(ctx, config)
	if err != nil {
		t.Fatal(err)
	}
	info, err := consumer.Info(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if info.NumPending == 0 {
		return nil
	}
	messages, err := consumer.Messages()
	if err != nil {
		t.Fatal(err)
	}
	defer messages.Stop()
	for uint64(len(all)) < info.NumPending {
		m, err := messages.Next(jetstream.NextContext(ctx))
		if err != nil {
			t.Fatal(err)
		}
		r := sinktest.Record{ID: m.Headers().Get(sink.HeaderID), Value: m.Data(), Headers: make(map[string]string)}
		for name, values := range m.Headers() {
			r.Headers[name] = values[0]
		}
		all = append(all, r)
	}
	return all
}
