package kafka_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"example.org/bridge/sink"
	"example.org/bridge/sink/kafka"
	"example.org/bridge/sink/sinktest"
	"example.org/bridge/tests/must"
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
		must.Fail(t, must.Err(kafka.Open(opts)), want)
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
		err := s.Ready(sinktest.Deadline(t))
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.ContainsAny(err.Error(), "\a") ||
			strings.Contains(err.Error(), "two-secret") || strings.Contains(err.Error(), "0007") {
			t.Errorf("Ready: %q, want %q", err, c.want)
		}
	}
}

// TestLoginsWithAPassword: it is read again at each attempt. SCRAM-SHA-512 is that of acceptance
// tests.
func TestLoginsWithAPassword(t *testing.T) {
	for _, mechanism := range []string{kafka.Plain, kafka.ScramSHA256} {
		c := fake(t, kfake.EnableSASL(), kfake.Superuser(mechanism, "user", "right"), kfake.SeedTopics(1, "t"))
		var asked atomic.Int64
		password := func() (string, error) { return []string{"wrong", "right"}[min(asked.Add(1)-1, 1)], nil }
		login := &kafka.SASL{Mechanism: mechanism, Username: "user", Password: password}
		sinktest.MustPublish(t, open(t, kafka.Options{Connection: kafka.Connection{Brokers: c.ListenAddrs(), SASL: login}}), series("t", "k", 0, 10, 2))
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
	out, err := s.Publish(sinktest.Deadline(t), batch)
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
			sinktest.MustPublish(t, s, sent)
			c.Fault(kfake.Fault{Keys: produceKey, Err: test.err})
			more := series("t", "k", 20, 20, 5)
			sinktest.MustPublish(t, s, more)
			if asked.Hits() != test.producers || coordinators.Hits() != 0 {
				t.Errorf("%d producer ids, want %d; %d searches for a coordinator", asked.Hits(), test.producers, coordinators.Hits())
			}
			compare(t, append(sent, more...), consume(t, "t", c.ListenAddrs()))
		})
	}
}

// answerLogins has a cluster without logins take those of a mechanism: answer gets what a client
// sends, one step of an exchange after the other.
func answerLogins(c *kfake.Cluster, mechanism string, answer func(sent []byte, r *kmsg.SASLAuthenticateResponse)) {
	c.ControlKey(int16(kmsg.SASLHandshake), func(r kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		res := r.ResponseKind().(*kmsg.SASLHandshakeResponse)
		res.SupportedMechanisms = []string{mechanism}
		if r.(*kmsg.SASLHandshakeRequest).Mechanism != mechanism {
			res.ErrorCode = int16(kafkago.UnsupportedSASLMechanism)
		}
		return res, nil, true
	})
	c.ControlKey(int16(kmsg.SASLAuthenticate), func(r kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		res := r.ResponseKind().(*kmsg.SASLAuthenticateResponse)
		answer(r.(*kmsg.SASLAuthenticateRequest).SASLAuthBytes, res)
		return res, nil, true
	})
}

func TestATokenIsReadAtEachConnect(t *testing.T) {
	c := fake(t, kfake.SeedTopics(1, "t"))
	const lifetime = time.Hour
	var acknowledged atomic.Bool
	answerLogins(c, kafka.OAuthBearer, func(sent []byte, r *kmsg.SASLAuthenticateResponse) {
		switch string(sent) {
		case "n,,\x01auth=Bearer good\x01\x01":
			r.SessionLifetimeMillis = lifetime.Milliseconds()
		case "\x01":
			// Not every server fails here: the client has its reason.
			acknowledged.Store(true)
		default:
			r.SASLAuthBytes = []byte(`{"status":"invalid_token","scope":"publish"}`)
		}
	})
	var token atomic.Value
	var log faultLog
	token.Store("bad")
	login := &kafka.SASL{Mechanism: kafka.OAuthBearer, Token: func() (string, error) { return token.Load().(string), nil }}
	s := open(t, kafka.Options{Connection: kafka.Connection{Brokers: c.ListenAddrs(), SASL: login}, Fault: func(tp string, err error) {
		log.add(tp, err)
		token.Store("good")
	}})
	sinktest.MustPublish(t, s, series("t", "k", 0, 10, 2))
	err := log.at("kafka")
	must.Fail(t, err, "login is refused", `status "invalid_token", the token needs the scope "publish"`)
	if !acknowledged.Load() {
		t.Error("the server's reason was not acknowledged")
	}
	t.Run("and before the session ends", func(t *testing.T) {
		if in := kafka.Renewal(s); in < lifetime*3/4 || in > lifetime*4/5 {
			t.Errorf("the sink will connect again in %v", in)
		}
		before := log.count()
		token.Store("bad")
		kafka.EndSessions(s)
		sinktest.MustPublish(t, s, series("t", "k", 10, 10, 2))
		if log.count() == before {
			t.Error("the session goes on")
		}
	})
}

// loginTo returns a sink that never connects by itself, and an address that it may.
func loginTo(t *testing.T, answer func(r *kmsg.SASLAuthenticateResponse)) (*kfake.Cluster, *kafka.Sink, string) {
	c := fake(t)
	answerLogins(c, kafka.OAuthBearer, func(_ []byte, r *kmsg.SASLAuthenticateResponse) { answer(r) })
	login := &kafka.SASL{Mechanism: kafka.OAuthBearer, Token: func() (string, error) { return "good", nil }}
	return c, open(t, kafka.Options{Connection: kafka.Connection{Brokers: c.ListenAddrs(), SASL: login}}), c.ListenAddrs()[0]
}

func TestALoginTellsHowLongItLasts(t *testing.T) {
	for _, c := range []struct {
		code  int16
		ms    int64
		lasts time.Duration
	}{
		{0, 60_000, 48 * time.Second}, {0, 0, 0}, {0, -1, 0}, {0, math.MaxInt64, 292 * 24 * time.Hour},
		{int16(kafkago.SASLAuthenticationFailed), 60_000, 0},
	} {
		_, s, address := loginTo(t, func(r *kmsg.SASLAuthenticateResponse) { r.ErrorCode, r.SessionLifetimeMillis = c.code, c.ms })
		if err := kafka.Dial(sinktest.Deadline(t), s, address); (err != nil) != (c.code != 0) {
			t.Errorf("%+v: %v", c, err)
		}
		if got := kafka.Renewal(s); got > c.lasts || got < c.lasts/2 {
			t.Errorf("%+v: the sink will connect again in %v", c, got)
		}
	}
}

// TestARefusedLoginIsNotTriedAtAllBrokers of a list, one after the other.
func TestARefusedLoginIsNotTriedAtAllBrokers(t *testing.T) {
	var logins atomic.Int64
	c, s, _ := loginTo(t, func(r *kmsg.SASLAuthenticateResponse) {
		logins.Add(1)
		r.ErrorCode = int16(kafkago.SASLAuthenticationFailed)
	})
	for _, address := range c.ListenAddrs() {
		must.Fail(t, kafka.Dial(sinktest.Deadline(t), s, address), kafkago.SASLAuthenticationFailed)
	}
	if n := logins.Load(); n != 1 {
		t.Errorf("%d logins", n)
	}
	sinktest.Until(t, "it logs in again", func() bool {
		return kafka.Dial(sinktest.Deadline(t), s, c.ListenAddrs()[0]) != nil && logins.Load() > 1
	})
}

// TestALoginWithoutAnAnswer ends with its context, and at a time limit with a remedy.
func TestALoginWithoutAnAnswer(t *testing.T) {
	end, asked := make(chan struct{}), make(chan struct{}, 2)
	var c *kfake.Cluster
	c, s, _ := loginTo(t, func(*kmsg.SASLAuthenticateResponse) {
		asked <- struct{}{}
		c.SleepControl(func() { <-end })
	})
	t.Cleanup(func() { close(end) })
	ctx, cancel := context.WithCancel(sinktest.Deadline(t))
	go func() { <-asked; cancel() }()
	must.Fail(t, kafka.Dial(ctx, s, c.ListenAddrs()[0]), context.Canceled)
	ctx, cancel = context.WithTimeout(sinktest.Deadline(t), 300*time.Millisecond)
	defer cancel()
	must.Fail(t, kafka.Dial(ctx, s, c.ListenAddrs()[1]), "see its log")
}

// TestWhatIsNoWrongPassword is not taken for one: a connection that closes, a mechanism that an
// advertised broker does not have, and a broker of another version.
func TestWhatIsNoWrongPassword(t *testing.T) {
	c := fake(t, kfake.EnableSASL(), kfake.Superuser(kafka.Plain, "user", "right"))
	login := &kafka.SASL{Mechanism: kafka.Plain, Username: "user", Password: func() (string, error) { return "closes", nil }}
	s := open(t, kafka.Options{Connection: kafka.Connection{Brokers: c.ListenAddrs(), SASL: login}})
	if err := kafka.Dial(sinktest.Deadline(t), s, c.ListenAddrs()[0]); err == nil || errors.Is(err, kafkago.SASLAuthenticationFailed) || !strings.Contains(err.Error(), "during the login") {
		t.Errorf("a connection that closes: %v", err)
	}
	bearer, s, address := loginTo(t, func(r *kmsg.SASLAuthenticateResponse) {
		if r.Version != 0 {
			t.Errorf("version %d", r.Version)
		}
	})
	bearer.ControlKey(int16(kmsg.ApiVersions), func(r kmsg.Request) (kmsg.Response, error, bool) {
		res := r.ResponseKind().(*kmsg.ApiVersionsResponse)
		for _, key := range []kmsg.Key{kmsg.SASLHandshake, kmsg.SASLAuthenticate, kmsg.Metadata} {
			res.ApiKeys = append(res.ApiKeys, kmsg.ApiVersionsResponseApiKey{ApiKey: int16(key)})
		}
		return res, nil, true
	})
	must.OK(t, kafka.Dial(sinktest.Deadline(t), s, address))
	other := fake(t)
	answerLogins(other, kafka.Plain, func([]byte, *kmsg.SASLAuthenticateResponse) {})
	kafka.Advertised(s)
	if err := kafka.Dial(sinktest.Deadline(t), s, other.ListenAddrs()[0]); !errors.Is(err, kafkago.UnsupportedSASLMechanism) || strings.Contains(err.Error(), "advertise") {
		t.Errorf("another mechanism: %v", err)
	}
}
