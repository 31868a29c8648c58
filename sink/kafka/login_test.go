package kafka_test

import (
	"encoding/binary"
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

// login returns a request and its answer as they go over the wire.
func login(key kmsg.Key, version int16, code int16, lifetime time.Duration) (request, answer []byte) {
	r := kmsg.SASLAuthenticateResponse{Version: version, ErrorCode: code, SASLAuthBytes: []byte("v=abc"), SessionLifetimeMillis: lifetime.Milliseconds()}
	body := r.AppendTo([]byte{0, 0, 0, 7})
	answer = append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
	request = binary.BigEndian.AppendUint16([]byte{0, 0, 0, 20}, uint16(key))
	return binary.BigEndian.AppendUint16(request, uint16(version)), answer
}

func TestALoginTellsHowLongItLasts(t *testing.T) {
	for _, c := range []struct {
		name     string
		key      kmsg.Key
		version  int16
		code     int16
		lifetime time.Duration
		want     time.Duration
	}{
		{"a minute", kmsg.SASLAuthenticate, 1, 0, time.Minute, time.Minute},
		{"for ever", kmsg.SASLAuthenticate, 1, 0, 0, 0},
		{"longer than a lifetime", kmsg.SASLAuthenticate, 1, 0, -time.Millisecond, 365 * 24 * time.Hour},
		{"a former version", kmsg.SASLAuthenticate, 0, 0, time.Minute, 0},
		{"a refusal", kmsg.SASLAuthenticate, 1, 58, time.Minute, 0},
		{"another answer", kmsg.SASLHandshake, 1, 0, time.Minute, 0},
		{"an answer behind the login", kmsg.Produce, 1, 0, time.Minute, 0},
	} {
		request, answer := login(c.key, c.version, c.code, c.lifetime)
		for split := range answer {
			if got := kafka.WatchLogin(request, answer, split); got != c.want {
				t.Fatalf("%s, in two parts at %d: %v, want %v", c.name, split, got, c.want)
			}
		}
	}
}

func FuzzALogin(f *testing.F) {
	request, answer := login(kmsg.SASLAuthenticate, 1, 0, time.Minute)
	f.Add(request, answer, 5)
	f.Fuzz(func(t *testing.T, request, answer []byte, split int) {
		if split < 0 || split > len(answer) {
			return
		}
		if got := kafka.WatchLogin(request, answer, split); got < 0 {
			t.Errorf("it lasts %v", got)
		}
	})
}

// tokens are what a file has, one after the other.
type tokens struct{ now atomic.Value }

func (k *tokens) put(token string) { k.now.Store(token) }

func (k *tokens) login() *kafka.SASL {
	return &kafka.SASL{Mechanism: kafka.OAuthBearer, Token: func() (string, error) { return k.now.Load().(string), nil }}
}
