package kafka_test

import (
	"sync/atomic"
	"testing"
	"time"

	"bridge/sink"
	"bridge/sink/kafka"
	"bridge/sink/sinktest"
	"bridge/tests/testenv"
)

// tokens are what a file has, one after the other.
type tokens struct{ now atomic.Value }

func (k *tokens) put(token string) { k.now.Store(token) }

func (k *tokens) login() *kafka.SASL {
	return &kafka.SASL{Mechanism: kafka.OAuthBearer, Token: func() (string, error) { return k.now.Load().(string), nil }}
}

// tokensInTime are those of a file that is renewed in time: each lasts as long as a session.
func tokensInTime() *kafka.SASL {
	return &kafka.SASL{Mechanism: kafka.OAuthBearer, Token: func() (string, error) {
		return testenv.KafkaToken("bridge", testenv.KafkaScope, time.Now().Add(testenv.KafkaSession)), nil
	}}
}

// TestTokensOfARealBroker goes on with the next token at a broker that ends sessions after a while.
func TestTokensOfARealBroker(t *testing.T) {
	t.Parallel()
	k := testenv.StartKafka(t, testenv.KafkaOptions{OAuth: true})
	for name, id := range map[string]string{"at-least-once": "", "exactly-once": "bridge.tokens"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nextTokens(t, k, name, id)
		})
	}
}

// nextTokens publishes over the ends of sessions and tokens.
func nextTokens(t *testing.T, k *testenv.KafkaServer, topic, transactionalID string) {
	k.CreateTopic(t, topic, 2, nil)
	var log faultLog
	s := open(t, kafka.Options{Brokers: k.OAuthBrokers(), SASL: tokensInTime(), Fault: log.add, TransactionalID: transactionalID})
	if transactionalID != "" {
		mustFence(t, s)
	}
	var sent []sink.Message
	for begin, n := time.Now(), 0; time.Since(begin) < 2*testenv.KafkaSession; n++ {
		batch := series(topic, "k", 10*n, 10, 2)
		left := batch
		for len(left) > 0 {
			out, err := s.Publish(deadline(t), left)
			if err == nil && out.AllAcked() {
				break
			}
			if transactionalID == "" || err == nil {
				t.Fatalf("%d acknowledged: %v", out.Acked(), err)
			}
			// The outcome is not known: so it is with each lost connection.
			mustFence(t, s)
			left = sinktest.Without(batch, readBack(t, s, topic))
		}
		sent = append(sent, batch...)
	}
	if in := kafka.Renewal(s); in == 0 || in > testenv.KafkaSession {
		t.Errorf("the sink will connect again in %v", in)
	}
	if repeats := compare(t, sent, committed(t, topic, k.Brokers())); repeats > 0 {
		t.Errorf("%d messages are there twice", repeats)
	}
	t.Logf("%d batches, %d faults: %v", len(sent)/10, log.count(), log.faults)
}
