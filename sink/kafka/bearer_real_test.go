package kafka_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"bridge/internal/inspect"
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

// loginsByToken runs against a broker that ends sessions after a while.
func loginsByToken(t *testing.T, k *testenv.KafkaServer) {
	t.Run("are refused for a reason", func(t *testing.T) { refusedTokens(t, k) })
	for name, id := range map[string]string{"at-least-once": "", "exactly-once": "bridge.tokens"} {
		t.Run("go on with the next token "+name, func(t *testing.T) {
			t.Parallel()
			nextTokens(t, k, name, id)
		})
	}
}

func refusedTokens(t *testing.T, k *testenv.KafkaServer) {
	k.CreateTopic(t, "refused", 1, nil)
	later := time.Now().Add(time.Hour)
	for name, c := range map[string]struct {
		token string
		want  []string
	}{
		"expired":     {testenv.KafkaToken("bridge", testenv.KafkaScope, time.Now().Add(-time.Minute)), []string{"invalid_token", "the token expired at"}},
		"of no scope": {testenv.KafkaToken("bridge", "read", later), []string{"insufficient_scope", testenv.KafkaScope}},
		"of no use":   {"no.real.token", []string{"Authentication Failed"}},
	} {
		t.Run(name, func(t *testing.T) {
			var held tokens
			held.put(c.token)
			s := open(t, kafka.Options{Brokers: k.OAuthBrokers(), SASL: held.login(), Topics: []string{"refused"}})
			err := answered(t, s)
			if err == nil {
				t.Fatal("it is taken")
			}
			report := s.Inspect(deadline(t))
			found := fmt.Sprint(report.Findings)
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) || !strings.Contains(found, want) {
					t.Errorf("%q is not in %v, and in %v", want, err, found)
				}
			}
			if strings.Contains(err.Error(), c.token) || strings.Contains(found, c.token) {
				t.Errorf("the token is shown: %v, %v", err, found)
			}
			if len(report.Findings) != 1 || report.Findings[0].Code != inspect.SinkLogin {
				t.Errorf("found %v", report.Findings)
			}
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
