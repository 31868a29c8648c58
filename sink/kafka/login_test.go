package kafka_test

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"example.org/bridge/sink/kafka"
	"example.org/bridge/tests/testenv"
)

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
	var held tokens
	var log faultLog
	held.put("bad")
	s := open(t, kafka.Options{Brokers: c.ListenAddrs(), SASL: held.login(), Fault: func(tp string, err error) {
		log.add(tp, err)
		held.put("good")
	}})
	publish(t, s, series("t", "k", 0, 10, 2))
	err := log.at("kafka")
	if err == nil || !strings.Contains(err.Error(), "login is refused") || !strings.Contains(err.Error(), `status "invalid_token", the token needs the scope "publish"`) {
		t.Errorf("the fault is %v", err)
	}
	if !acknowledged.Load() {
		t.Error("the server's reason was not acknowledged")
	}
	t.Run("and before the session ends", func(t *testing.T) {
		if in := kafka.Renewal(s); in < lifetime*3/4 || in > lifetime*4/5 {
			t.Errorf("the sink will connect again in %v", in)
		}
		before := log.count()
		held.put("bad")
		kafka.EndSessions(s)
		publish(t, s, series("t", "k", 10, 10, 2))
		if log.count() == before {
			t.Error("the session goes on")
		}
	})
}

func TestExpiryOfAToken(t *testing.T) {
	at := time.Unix(1_800_000_000, 0)
	for token, want := range map[string]time.Time{
		testenv.KafkaToken("bridge", "publish", at): at,
		"opaque": {}, "a.b": {}, "a.b.c": {}, "..": {},
	} {
		if got := kafka.ExpiryOf(token); !got.Equal(want) {
			t.Errorf("%q expires at %v, want %v", token, got, want)
		}
	}
}

func FuzzToken(f *testing.F) {
	f.Add("a.eyJleHAiOjF9.c")
	f.Fuzz(func(t *testing.T, token string) {
		kafka.ExpiryOf(token)
		if !errors.Is(kafka.RefusalOf([]byte(token)), kafkago.SASLAuthenticationFailed) {
			t.Error("a refusal is none")
		}
	})
}

// tokens are what a file has, one after the other.
type tokens struct{ now atomic.Value }

func (k *tokens) put(token string) { k.now.Store(token) }

func (k *tokens) login() *kafka.SASL {
	return &kafka.SASL{Mechanism: kafka.OAuthBearer, Token: func() (string, error) { return k.now.Load().(string), nil }}
}
