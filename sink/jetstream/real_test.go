package jetstream_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"example.org/bridge/sink"
	"example.org/bridge/sink/jetstream"
	"example.org/bridge/sink/sinktest"
	"example.org/bridge/tests/testenv"

	natsjs "github.com/nats-io/nats.go/jetstream"
)

func TestCloseEndsAPublishThatWaitsForAServer(t *testing.T) {
	t.Parallel()
	s := open(t, jetstream.Options{Connection: at(fmt.Sprintf("nats://127.0.0.1:%d", testenv.FreePort(t)), "T")})
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

// TestRealLogin: a password is read again at each attempt, stands in the URL, or is refused without
// being shown. Other logins are those of acceptance tests.
func TestRealLogin(t *testing.T) {
	t.Parallel()
	server := testenv.StartNATS(t, testenv.NATSPassword("bridge", "hunter2"))
	password := func(tries ...string) func() (string, string, error) {
		return func() (user, pass string, err error) {
			now := tries[0]
			if tries = tries[min(1, len(tries)-1):]; now == "" {
				return "", "", errors.New("the file is not there yet")
			}
			return "bridge", now, nil
		}
	}
	stream := server.CreateStream(t, natsjs.StreamConfig{})
	name := stream.CachedInfo().Config.Name
	for i, c := range []jetstream.Connection{
		{URLs: []string{server.URL()}, Password: password("", "old", "old", "hunter2")},
		{URLs: []string{"nats://bridge:hunter2@" + server.Addr()}},
	} {
		c.Stream = name
		mustPublish(t, open(t, jetstream.Options{Connection: c}), messages(name+".a", fmt.Sprint("in-", i), 10, 10))
	}
	for _, c := range []jetstream.Connection{
		{URLs: []string{server.URL()}}, {URLs: []string{server.URL()}, Password: password("hunter3")},
		{URLs: []string{"nats://bridge:hunter3@" + server.Addr()}},
	} {
		c.Stream = name
		s := open(t, jetstream.Options{Connection: c})
		eventually(t, 10*time.Second, "Ready tells of the login", func() bool {
			err := s.Ready(t.Context())
			if err != nil && strings.Contains(err.Error(), "hunter3") {
				t.Fatalf("the error shows the secret: %v", err)
			}
			return err != nil && strings.Contains(err.Error(), "Authorization Violation")
		})
	}
}
