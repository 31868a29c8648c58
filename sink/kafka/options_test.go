package kafka_test

import (
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"example.org/bridge/sink"
	"example.org/bridge/sink/kafka"
)

func TestOpenRefusesWhatCannotWork(t *testing.T) {
	login := func(login *kafka.SASL) kafka.Connection {
		return kafka.Connection{Brokers: []string{"127.0.0.1:1"}, SASL: login}
	}
	password := func() (string, error) { return "", nil }
	for want, opts := range map[string]kafka.Options{
		"no broker":           {},
		"unknown compression": {Connection: login(nil), Compression: "lzma"},
		"unknown SASL":        {Connection: login(&kafka.SASL{Mechanism: "GSSAPI", Password: password})},
		"needs a password":    {Connection: login(&kafka.SASL{Mechanism: kafka.Plain})},
		"needs a token":       {Connection: login(&kafka.SASL{Mechanism: kafka.OAuthBearer, Password: password})},
		"the Kafka topic":     {Connection: login(nil), Topics: []string{"no/topic"}},
	} {
		if _, err := kafka.Open(opts); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
}

// passwordMechanisms are those with a user and a password.
var passwordMechanisms = []string{kafka.Plain, kafka.ScramSHA256, kafka.ScramSHA512}

func TestLoginsInProcess(t *testing.T) {
	for _, mechanism := range passwordMechanisms {
		t.Run(mechanism, func(t *testing.T) {
			c := fake(t, kfake.EnableSASL(), kfake.Superuser(mechanism, "user", "right"), kfake.SeedTopics(1, "t"))
			var asked atomic.Int64
			var log faultLog
			s := open(t, kafka.Options{Connection: kafka.Connection{Brokers: c.ListenAddrs(), SASL: &kafka.SASL{
				Mechanism: mechanism, Username: "user", Password: func() (string, error) {
					switch {
					case asked.Add(1) == 1:
						return "", errors.New("no such file")
					case log.count() < 2:
						return "wrong-secret", nil
					}
					return "right", nil
				},
			}}, Fault: log.add})
			publish(t, s, series("t", "k", 0, 10, 2))
			if log.count() == 0 || strings.Contains(log.at("kafka").Error(), "wrong-secret") {
				t.Errorf("faults %v", log.faults)
			}
		})
	}
}

// TestSecretsThatCannotBeSentAreNotQuoted by the error that says what is wrong with them.
func TestSecretsThatCannotBeSentAreNotQuoted(t *testing.T) {
	scram, bearer := fake(t, kfake.EnableSASL(), kfake.Superuser(kafka.ScramSHA256, "user", "right")), fake(t)
	answerLogins(bearer, kafka.OAuthBearer, func([]byte, *kmsg.SASLAuthenticateResponse) { t.Error("it is sent") })
	secret := func(text string) func() (string, error) { return func() (string, error) { return text, nil } }
	for _, c := range []struct {
		cluster *kfake.Cluster
		login   kafka.SASL
		want    string
	}{
		{scram, kafka.SASL{Mechanism: kafka.ScramSHA256, Username: "user", Password: secret("two-secret\a")}, "character that SCRAM does not allow"},
		{bearer, kafka.SASL{Mechanism: kafka.OAuthBearer, Token: secret("one\ntwo-secret")}, "the token alone"},
	} {
		s := open(t, kafka.Options{Connection: kafka.Connection{Brokers: c.cluster.ListenAddrs(), SASL: &c.login}})
		err := s.Ready(deadline(t))
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.ContainsAny(err.Error(), "\a") ||
			strings.Contains(err.Error(), "two-secret") || strings.Contains(err.Error(), "0007") {
			t.Errorf("Ready: %q, want %q", err, c.want)
		}
	}
}

// TestWhatCannotBeStoredIsRejectedUnsent: a record that no request takes, and topics that cannot
// exist.
func TestWhatCannotBeStoredIsRejectedUnsent(t *testing.T) {
	c := fake(t, kfake.SeedTopics(1, "t"))
	requests := c.Fault(kfake.Fault{Keys: produceKey, Observe: true, Count: -1})
	s := open(t, kafka.Options{Connection: at(c.ListenAddrs()), Compression: kafka.None, MaxRequestBytes: 64 << 10})
	batch := []sink.Message{
		message("t", "k", 0, 100), message("a b", "k", 1, 0), message("t", "k", 2, 70_000), message("t", "k", 3, 100), message("", "k", 4, 0),
		message("..", "k", 5, 0),
	}
	out, err := s.Publish(deadline(t), batch)
	want := []sink.Status{sink.Acked, sink.Rejected, sink.Rejected, sink.Pending, sink.Rejected, sink.Rejected}
	if err != nil || !slices.Equal(out.Status, want) || requests.Hits() != 1 {
		t.Fatalf("outcome %+v in %d requests, %v", out, requests.Hits(), err)
	}
	if !strings.Contains(out.Rejected[1].Reason, "socket.request.max.bytes") {
		t.Errorf("reason: %s", out.Rejected[1].Reason)
	}
}

func TestALostSequenceTakesTheNextEpoch(t *testing.T) {
	for _, test := range []struct {
		err       *kerr.Error
		producers int
	}{
		{kerr.OutOfOrderSequenceNumber, 1}, {kerr.UnknownProducerID, 1}, {kerr.InvalidProducerEpoch, 2}, {kerr.ProducerFenced, 2},
	} {
		t.Run(test.err.Message, func(t *testing.T) {
			c := fake(t, kfake.SeedTopics(2, "t"))
			asked := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.InitProducerID}, TopLevel: true, Observe: true, Count: -1})
			coordinators := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.FindCoordinator}, Observe: true, Count: -1})
			s := open(t, kafka.Options{Connection: at(c.ListenAddrs())})
			sent := series("t", "k", 0, 20, 5)
			publish(t, s, sent)
			c.Fault(kfake.Fault{Keys: produceKey, Err: test.err})
			more := series("t", "k", 20, 20, 5)
			publish(t, s, more)
			if asked.Hits() != test.producers || coordinators.Hits() != 0 {
				t.Errorf("%d producer ids, want %d; %d searches for a coordinator", asked.Hits(), test.producers, coordinators.Hits())
			}
			compare(t, append(sent, more...), consume(t, "t", c.ListenAddrs()))
		})
	}
}
