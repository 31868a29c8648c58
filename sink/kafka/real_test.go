package kafka_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"bridge/sink"
	"bridge/sink/kafka"
	"bridge/tests/testall"
	"bridge/tests/testenv"
)

func TestCodecsAreReadBack(t *testing.T) {
	t.Parallel()
	k := testenv.Kafka(t)
	for _, c := range kafka.Compressions {
		t.Run(string(c), func(t *testing.T) {
			topic := "codec-" + string(c)
			k.CreateTopic(t, topic, 3, nil)
			s := open(t, kafka.Options{Brokers: k.Brokers(), Compression: c})
			sent := series(topic, "k", 0, 3000, 11)
			sent = append(sent, message(topic, "", 0, 0), message(topic, "big", 0, 300_000))
			publish(t, s, sent)
			records := consume(t, topic, kgo.SeedBrokers(k.Brokers()...))
			if n := compare(t, sent, records); n != 0 {
				t.Errorf("%d repeats", n)
			}
			checkRecords(t, sent, records)
		})
	}
}

// checkRecords compares headers, times and partitions; the latter with franz-go's port of Java's
// partitioner.
func checkRecords(t *testing.T, sent []sink.Message, records []*kgo.Record) {
	t.Helper()
	byID := make(map[string]*sink.Message)
	for i := range sent {
		byID[sent[i].ID] = &sent[i]
	}
	java := kgo.StickyKeyPartitioner(nil).ForTopic("any")
	for _, r := range records {
		m := byID[id(r)]
		if !r.Timestamp.Equal(m.Time) {
			t.Fatalf("record time %v, message time %v", r.Timestamp, m.Time)
		}
		if len(r.Key) > 0 && int(r.Partition) != java.Partition(&kgo.Record{Key: m.Key}, 3) {
			t.Fatalf("key %q is on partition %d", m.Key, r.Partition)
		}
		i := 0
		m.EachHeader(func(name, value string) {
			if i >= len(r.Headers) || r.Headers[i].Key != name || string(r.Headers[i].Value) != value {
				t.Fatalf("header %d of %s is not %s: %s", i, m.ID, name, value)
			}
			i++
		})
		if i != len(r.Headers) {
			t.Fatalf("%d headers, want %d", len(r.Headers), i)
		}
	}
}

func TestALargeRecordIsRejectedAndSmallerOnesAreSplit(t *testing.T) {
	t.Parallel()
	k := testenv.Kafka(t)
	limit := "20000"
	k.CreateTopic(t, "narrow", 2, map[string]*string{"max.message.bytes": &limit})
	s := open(t, kafka.Options{Brokers: k.Brokers(), Compression: kafka.LZ4})
	sent := series("narrow", "k", 0, 400, 5)
	for i := range sent {
		sent[i].Value = randomBytes(1000)
	}
	publish(t, s, sent)
	bad := message("narrow", "k+0", 400, 0)
	bad.Value = randomBytes(30_000)
	behind := message("narrow", "k+0", 401, 100)
	out, err := s.Publish(deadline(t), []sink.Message{bad, behind})
	if err != nil || out.Status[0] != sink.Rejected || out.Status[1] != sink.Pending {
		t.Fatalf("outcome %+v, %v", out, err)
	}
	if reason := out.Rejected[0].Reason; !strings.Contains(reason, "max.message.bytes") || !strings.Contains(reason, "30") {
		t.Errorf("reason: %s", reason)
	}
	publish(t, s, []sink.Message{behind})
	if n := compare(t, append(sent, behind), consume(t, "narrow", kgo.SeedBrokers(k.Brokers()...))); n != 0 {
		t.Errorf("%d repeats", n)
	}
}

func randomBytes(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rand.Uint32())
	}
	return b
}

func TestARecordWithoutAKeyIsRejectedByACompactedTopic(t *testing.T) {
	t.Parallel()
	k := testenv.Kafka(t)
	policy := "compact"
	k.CreateTopic(t, "compacted", 1, map[string]*string{"cleanup.policy": &policy})
	s := open(t, kafka.Options{Brokers: k.Brokers()})
	batch := series("compacted", "k", 0, 9, 3)
	batch[4].Key = nil
	out, err := s.Publish(deadline(t), batch)
	if err != nil || out.Acked() != 4 || len(out.Rejected) != 1 || out.Rejected[0].Index != 4 {
		t.Errorf("outcome %+v, %v", out, err)
	}
}

func TestAMissingTopicIsWaitedFor(t *testing.T) {
	t.Parallel()
	k := testenv.Kafka(t)
	s := open(t, kafka.Options{Brokers: k.Brokers()})
	sent := series("late-topic", "k", 0, 50, 5)
	done := make(chan error, 1)
	go func() {
		_, err := s.Publish(deadline(t), sent)
		done <- err
	}()
	until(t, "Ready names the topic", func() bool {
		err := s.Ready(deadline(t))
		return err != nil && strings.Contains(err.Error(), "late-topic does not exist")
	})
	k.CreateTopic(t, "late-topic", 2, nil)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	mustBeReady(t, s)
	compare(t, sent, consume(t, "late-topic", kgo.SeedBrokers(k.Brokers()...)))
}

func TestAChangedNumberOfPartitionsLosesNothing(t *testing.T) {
	t.Parallel()
	k := testenv.Kafka(t)
	k.CreateTopic(t, "changing", 2, nil)
	s := open(t, kafka.Options{Brokers: k.Brokers()})
	sent := series("changing", "first", 0, 100, 20)
	publish(t, s, sent)
	k.AddPartitions(t, "changing", 4)
	more := series("changing", "second", 0, 100, 20)
	publish(t, s, more)
	sent = append(sent, more...)
	compare(t, sent, consume(t, "changing", kgo.SeedBrokers(k.Brokers()...)))
}

func TestAKilledBrokerInMidStreamLosesNothing(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	const writers, between = 6, 20_000
	k := testenv.StartKafka(t, testenv.KafkaOptions{})
	k.CreateTopic(t, "stream", 8, nil)
	s := openQuiet(t, kafka.Options{Brokers: k.Brokers()})
	stop := make(chan struct{})
	var acked atomic.Int64
	sent := make([][]sink.Message, writers)
	var wg sync.WaitGroup
	ctx, cancel := context.WithTimeout(t.Context(), 3*timeout)
	defer cancel()
	for w := range writers {
		wg.Go(func() {
			for from := 0; ; from += 200 {
				select {
				case <-stop:
					return
				default:
				}
				batch := series("stream", fmt.Sprint("w", w), from, 200, 20)
				out, err := s.Publish(ctx, batch)
				if err != nil || !out.AllAcked() {
					t.Errorf("%d acknowledged: %v", out.Acked(), err)
					return
				}
				sent[w] = append(sent[w], batch...)
				acked.Add(200)
			}
		})
	}
	for range 3 {
		target := acked.Load() + between
		until(t, "publishing goes on", func() bool { return acked.Load() >= target })
		k.Restart(t)
	}
	target := acked.Load() + between
	until(t, "publishing goes on", func() bool { return acked.Load() >= target })
	close(stop)
	wg.Wait()
	var all []sink.Message
	for _, batch := range sent {
		all = append(all, batch...)
	}
	repeats := compare(t, all, consume(t, "stream", kgo.SeedBrokers(k.Brokers()...)))
	t.Logf("%d messages over 3 kills, %d repeats", len(all), repeats)
	mustBeReady(t, s)
}

func standsStill(t *testing.T, k *testenv.KafkaServer) {
	k.CreateTopic(t, "still", 1, nil)
	s := open(t, kafka.Options{Brokers: k.Brokers()})
	publish(t, s, series("still", "before", 0, 1, 1))
	k.Pause()
	ctx, cancel := context.WithTimeout(deadline(t), 500*time.Millisecond)
	defer cancel()
	if _, err := s.Publish(ctx, series("still", "abandoned", 0, 1, 1)); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("Publish to a broker that stands still: %v", err)
	}
	k.Resume()
	for n := range 10 {
		publish(t, s, series("still", "after", n, 1, 1))
	}
	var order []string
	for _, r := range consume(t, "still", kgo.SeedBrokers(k.Brokers()...)) {
		order = append(order, id(r))
	}
	abandoned := strings.Index(strings.Join(order, " "), "abandoned")
	after := strings.Index(strings.Join(order, " "), "after")
	if abandoned > after {
		t.Errorf("the late copy lies behind what followed it: %v", order)
	}
	t.Logf("the log holds %v", order)
}

func TestSecurity(t *testing.T) {
	t.Parallel()
	certs := testenv.NewCerts(t)
	k := testenv.StartKafka(t, testenv.KafkaOptions{SASL: true, OAuth: true, TLS: &certs})
	t.Run("logins", func(t *testing.T) { logins(t, k) })
	t.Run("tokens", func(t *testing.T) { loginsByToken(t, k) })
	t.Run("TLS", func(t *testing.T) { encrypted(t, k, certs) })
}

func logins(t *testing.T, k *testenv.KafkaServer) {
	k.CreateTopic(t, "login", 1, nil)
	for _, mechanism := range passwordMechanisms {
		t.Run(mechanism, func(t *testing.T) {
			var password atomic.Value
			password.Store("wrong-secret")
			login := &kafka.SASL{Mechanism: mechanism, Username: testenv.KafkaUser, Password: func() (string, error) {
				return password.Load().(string), nil
			}}
			var log faultLog
			s := open(t, kafka.Options{Brokers: k.SASLBrokers(), SASL: login, Fault: log.add})
			sent := series("login", mechanism, 0, 10, 2)
			done := make(chan error, 1)
			go func() {
				_, err := s.Publish(deadline(t), sent)
				done <- err
			}()
			until(t, "the login is refused", func() bool { return log.at("kafka") != nil })
			err := answered(t, s)
			if err == nil || !strings.Contains(err.Error(), "login is refused") || strings.Contains(err.Error(), "wrong-secret") {
				t.Errorf("Ready with a wrong password: %v", err)
			}
			// The password is changed in its file, say.
			password.Store(testenv.KafkaPassword)
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			mustBeReady(t, s)
		})
	}
}

func encrypted(t *testing.T, k *testenv.KafkaServer, certs testenv.Certs) {
	k.CreateTopic(t, "secure", 1, nil)
	var authority atomic.Value
	authority.Store(certs.OtherCA)
	var log faultLog
	s := open(t, kafka.Options{Brokers: k.TLSBrokers(), Fault: log.add, TLS: func() (*tls.Config, error) {
		return trust(authority.Load().(string))
	}})
	sent := series("secure", "k", 0, 10, 2)
	done := make(chan error, 1)
	go func() {
		_, err := s.Publish(deadline(t), sent)
		done <- err
	}()
	until(t, "the certificate is refused", func() bool {
		return log.at("kafka") != nil && strings.Contains(log.at("kafka").Error(), "unknown authority")
	})
	authority.Store(certs.CA)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	compare(t, sent, consume(t, "secure", kgo.SeedBrokers(k.Brokers()...)))
}

func trust(file string) (*tls.Config, error) {
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(bytes.TrimSpace(pem)) {
		return nil, errors.New("no certificate in " + file)
	}
	return &tls.Config{RootCAs: pool}, nil
}
