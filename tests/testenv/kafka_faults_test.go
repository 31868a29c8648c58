package testenv_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"bridge/tests/testall"
	"bridge/tests/testenv"
)

// producer is a client that logs in with a password, or without one when it is empty.
func producer(t *testing.T, broker, password string) *kgo.Client {
	t.Helper()
	options := []kgo.Opt{kgo.SeedBrokers(broker), kgo.DefaultProduceTopic("t"), kgo.ProducerBatchCompression(kgo.NoCompression())}
	if password != "" {
		login := scram.Auth{User: testenv.KafkaUser, Pass: password}
		options = append(options, kgo.SASL(login.AsSha512Mechanism()))
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// produce publishes a value of so many bytes and returns its offset.
func produce(t *testing.T, client *kgo.Client, size int) (int64, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	record, err := client.ProduceSync(ctx, &kgo.Record{Value: make([]byte, size)}).First()
	if err != nil {
		return 0, err
	}
	return record.Offset, nil
}

func produced(t *testing.T, client *kgo.Client) int64 {
	t.Helper()
	offset, err := produce(t, client, 1)
	if err != nil {
		t.Fatal(err)
	}
	return offset
}

// reaches says whether the client gets an answer within limit.
func reaches(t *testing.T, client *kgo.Client, limit time.Duration) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	return client.Ping(ctx) == nil
}

func TestKafkaFaults(t *testing.T) {
	testall.Long(t)
	s := testenv.StartKafka(t, testenv.KafkaOptions{SASL: true, Proxied: true})
	s.CreateTopic(t, "t", 1, nil)

	t.Run("a client behind the proxy stays behind it", func(t *testing.T) {
		client := producer(t, s.ProxiedBrokers()[0], testenv.KafkaPassword)
		produced(t, client)
		s.Proxy().Cut()
		if reaches(t, client, time.Second) {
			t.Error("the client knows a way around the proxy")
		}
		s.Proxy().Heal()
		produced(t, client)
	})
	t.Run("another password stops those whose connections are dropped", func(t *testing.T) {
		client := producer(t, s.ProxiedBrokers()[0], testenv.KafkaPassword)
		produced(t, client)
		s.SetPassword(t, "second")
		produced(t, client)
		s.Proxy().Drop()
		if reaches(t, client, 2*time.Second) {
			t.Error("the former password still works")
		}
		produced(t, producer(t, s.ProxiedBrokers()[0], "second"))
	})
	t.Run("a topic is configured, deleted and created again", func(t *testing.T) {
		limit := "2000"
		s.ConfigureTopic(t, "t", map[string]*string{"max.message.bytes": &limit})
		client := producer(t, s.Brokers()[0], "")
		if _, err := produce(t, client, 5000); !errors.Is(err, kerr.MessageTooLarge) {
			t.Errorf("5,000 bytes where 2,000 fit: %v", err)
		}
		s.ConfigureTopic(t, "t", map[string]*string{"max.message.bytes": nil})
		if _, err := produce(t, client, 5000); err != nil {
			t.Errorf("5,000 bytes at the broker's default: %v", err)
		}
		s.DeleteTopic(t, "t")
		s.CreateTopic(t, "t", 1, nil)
		if offset := produced(t, producer(t, s.Brokers()[0], "")); offset != 0 {
			t.Errorf("the first record has the offset %d", offset)
		}
	})
	t.Run("faults heal", func(t *testing.T) { heals(t, s) })
	t.Run("data goes back to a snapshot", func(t *testing.T) {
		was := produced(t, producer(t, s.Brokers()[0], ""))
		before := s.Snapshot(t)
		if now := produced(t, producer(t, s.Brokers()[0], "")); now != was+1 {
			t.Fatalf("offset %d after %d", now, was)
		}
		s.Restore(t, before)
		if now := produced(t, producer(t, s.Brokers()[0], "")); now != was+1 {
			t.Errorf("offset %d, want %d as after the snapshot", now, was+1)
		}
	})
}
