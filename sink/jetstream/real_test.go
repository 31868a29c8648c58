package jetstream_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bridge/sink"
	"bridge/sink/jetstream"
	"bridge/sink/sinktest"
	"bridge/tests/testenv"

	natsjs "github.com/nats-io/nats.go/jetstream"
)

func TestCloseEndsAPublishThatWaitsForAServer(t *testing.T) {
	t.Parallel()
	s := open(t, jetstream.Options{URLs: []string{fmt.Sprintf("nats://127.0.0.1:%d", testenv.FreePort(t))}, Stream: "T"})
	done := sinktest.Publishing(t.Context(), s, messages("T.a", "never", 10, 1))
	eventually(t, 10*time.Second, "Ready tells of the absent server", func() bool {
		err := s.Ready(t.Context())
		return err != nil && strings.Contains(err.Error(), "connection refused")
	})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; !errors.Is(err, sink.ErrClosed) {
		t.Errorf("Publish returns %v, want ErrClosed", err)
	}
}

// works publishes to a new stream of server.
func works(t *testing.T, server *testenv.NATSServer, o jetstream.Options) {
	t.Helper()
	stream := server.CreateStream(t, natsjs.StreamConfig{})
	o.URLs, o.Stream = append(o.URLs, server.URL()), stream.CachedInfo().Config.Name
	batch := messages(o.Stream+".a", "in", 100, 10)
	mustPublish(t, open(t, o), batch)
	wantWhole(t, read(t, stream, ""), batch)
}

// fails wants Ready to tell of a connection that is refused, with some words and without others.
func fails(t *testing.T, server *testenv.NATSServer, o jetstream.Options, want string, secrets ...string) {
	t.Helper()
	if o.URLs == nil {
		o.URLs = []string{server.URL()}
	}
	o.Stream = "T"
	s := open(t, o)
	ctx, cancel := context.WithCancel(t.Context())
	done := sinktest.Publishing(ctx, s, messages("T.a", "out", 10, 1))
	var err error
	eventually(t, 10*time.Second, "Ready tells of "+want, func() bool {
		err = s.Ready(ctx)
		return err != nil && strings.Contains(err.Error(), want)
	})
	for _, secret := range secrets {
		if strings.Contains(err.Error(), secret) {
			t.Errorf("the error %q shows the secret %q", err, secret)
		}
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("Publish returns %v, want context.Canceled", err)
	}
}

func password(user, pass string) func() (string, string, error) {
	return func() (string, string, error) { return user, pass, nil }
}

func TestRealLogin(t *testing.T) {
	t.Parallel()
	t.Run("user and password", func(t *testing.T) {
		server := testenv.StartNATS(t, testenv.NATSPassword("bridge", "hunter2"))
		works(t, server, jetstream.Options{Password: password("bridge", "hunter2")})
		works(t, server, jetstream.Options{URLs: []string{"nats://bridge:hunter2@" + server.Addr()}})
		fails(t, server, jetstream.Options{Password: password("bridge", "hunter3")}, "Authorization Violation", "hunter3")
		fails(t, server, jetstream.Options{URLs: []string{"nats://bridge:hunter3@" + server.Addr()}}, "Authorization Violation", "hunter3")
		fails(t, server, jetstream.Options{}, "Authorization Violation")
	})

	t.Run("a password is read again at each attempt", func(t *testing.T) {
		server := testenv.StartNATS(t, testenv.NATSPassword("bridge", "hunter2"))
		tries := 0
		works(t, server, jetstream.Options{Password: func() (string, string, error) {
			if tries++; tries == 1 {
				return "", "", errors.New("the file is not there yet")
			}
			if tries < 4 {
				return "bridge", "old", nil
			}
			return "bridge", "hunter2", nil
		}})
	})

	t.Run("nkey", func(t *testing.T) {
		seed := filepath.Join(t.TempDir(), "seed")
		server := testenv.StartNATS(t, testenv.NATSNkey(t, seed))
		works(t, server, jetstream.Options{NkeySeed: file(seed)})
		other := filepath.Join(t.TempDir(), "seed")
		testenv.NATSNkey(t, other)
		fails(t, server, jetstream.Options{NkeySeed: file(other)}, "Authorization Violation")
		fails(t, server, jetstream.Options{NkeySeed: file(filepath.Join(t.TempDir(), "none"))}, "no such file")
	})

	t.Run("credentials of an operator's account", func(t *testing.T) {
		option, creds := testenv.NATSOperator(t)
		server := testenv.StartNATS(t, option)
		works(t, server, jetstream.Options{Creds: file(creds)})
		_, foreign := testenv.NATSOperator(t)
		fails(t, server, jetstream.Options{Creds: file(foreign)}, "Authorization Violation")
		fails(t, server, jetstream.Options{Creds: file(filepath.Join(t.TempDir(), "none"))}, "no such file")
	})
}

// file returns a function that reads a secret from path.
func file(path string) func() (string, error) {
	return func() (string, error) {
		text, err := os.ReadFile(path)
		return string(text), err
	}
}
