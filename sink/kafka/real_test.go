package kafka_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"bridge/sink"
	"bridge/sink/kafka"
	"bridge/tests/testenv"
)

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
