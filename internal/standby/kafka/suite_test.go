package kafka_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"example.org/bridge/internal/standby"
	"example.org/bridge/internal/standby/kafka"
	"example.org/bridge/internal/standby/standbytest"
	sinkkafka "example.org/bridge/sink/kafka"
	"example.org/bridge/tests/must"
	"example.org/bridge/tests/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

type cuttable struct {
	*sinkkafka.Requester
	cut atomic.Bool
}

func (c *cuttable) Send(ctx context.Context, group string, req kmsg.Request) (kmsg.Response, error) {
	if c.cut.Load() {
		return nil, errors.New("cut off")
	}
	return c.Requester.Send(ctx, group, req)
}

// elector keeps its way to the brokers.
type elector struct {
	*kafka.Group
	way *cuttable
}

func newElector(t *testing.T, brokers []string, group string, timeout time.Duration) elector {
	t.Helper()
	r := must.Get(sinkkafka.NewRequester(sinkkafka.Options{Connection: sinkkafka.Connection{Brokers: brokers}}))(t)
	way := &cuttable{Requester: r}
	return elector{kafka.New(way, group, timeout), way}
}

func TestSuite(t *testing.T) {
	t.Parallel()
	runSuite(t, testenv.Kafka(t).Brokers())
}

// TestSuiteOnACluster has a coordinator that is one of three brokers.
func TestSuiteOnACluster(t *testing.T) {
	t.Parallel()
	c := must.Get(kfake.NewCluster(kfake.NumBrokers(3)))(t)
	t.Cleanup(c.Close)
	runSuite(t, c.ListenAddrs())
}

func runSuite(t *testing.T, brokers []string) {
	t.Helper()
	// A machine that is busy may hold a member up for seconds: half of it is what a member has to
	// join once more.
	const timeout = 6 * time.Second
	standbytest.Run(t, standbytest.Options{
		Timeout: timeout,
		Elector: func(t *testing.T, group string) standby.Elector { return newElector(t, brokers, group, timeout) },
		Cut:     func(e standby.Elector, cut bool) { e.(elector).way.cut.Store(cut) },
	})
}
