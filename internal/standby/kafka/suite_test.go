package kafka_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/segmentio/kafka-go/protocol"

	"bridge/internal/standby"
	"bridge/internal/standby/kafka"
	"bridge/internal/standby/standbytest"
	"bridge/internal/testenv"
	sinkkafka "bridge/sink/kafka"
)

// timeout is long enough for a busy machine.
const timeout = 4 * time.Second

// cuttable is a Requester that can be cut off.
type cuttable struct {
	*sinkkafka.Requester
	cut atomic.Bool
}

func (c *cuttable) RoundTrip(ctx context.Context, req protocol.Message) (protocol.Message, error) {
	if c.cut.Load() {
		return nil, errors.New("cut off")
	}
	return c.Requester.RoundTrip(ctx, req)
}

// elector keeps its way to the brokers.
type elector struct {
	*kafka.Group
	way *cuttable
}

func newElector(t *testing.T, s *testenv.KafkaServer, group string) elector {
	t.Helper()
	r, err := sinkkafka.NewRequester(sinkkafka.Options{Brokers: s.Brokers()})
	if err != nil {
		t.Fatal(err)
	}
	way := &cuttable{Requester: r}
	return elector{kafka.New(way, group, timeout), way}
}

func TestSuite(t *testing.T) {
	t.Parallel()
	s := testenv.Kafka(t)
	standbytest.Run(t, standbytest.Options{
		Timeout: timeout,
		Elector: func(t *testing.T, group string) standby.Elector { return newElector(t, s, group) },
		Cut:     func(e standby.Elector, cut bool) { e.(elector).way.cut.Store(cut) },
	})
}
