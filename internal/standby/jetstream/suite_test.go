package jetstream_test

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"bridge/internal/standby"
	"bridge/internal/standby/jetstream"
	"bridge/internal/standby/standbytest"
	"bridge/internal/testenv"
	sinkjetstream "bridge/sink/jetstream"
)

// timeout is long enough for a busy machine.
const timeout = 4 * time.Second

// elector keeps its way to the server.
type elector struct {
	*standby.Lease
	way *testenv.Proxy
}

func newElector(t *testing.T, s *testenv.NATSServer, group string) elector {
	t.Helper()
	way := testenv.StartProxy(t, s.Addr())
	return elector{standby.NewLease(jetstream.New(jetstream.Options{
		Connect: func(ctx context.Context, more ...nats.Option) (*nats.Conn, error) {
			return sinkjetstream.Connect(ctx, sinkjetstream.Options{URLs: []string{"nats://" + way.Addr()}}, more...)
		},
		Key: group, Timeout: timeout / 4,
	}), timeout), way}
}

func TestSuite(t *testing.T) {
	t.Parallel()
	s := testenv.NATS(t)
	standbytest.Run(t, standbytest.Options{
		Timeout: timeout,
		Elector: func(t *testing.T, group string) standby.Elector { return newElector(t, s, group) },
		Cut: func(e standby.Elector, cut bool) {
			if way := e.(elector).way; cut {
				way.HalfOpen()
			} else {
				way.Heal()
			}
		},
	})
}
