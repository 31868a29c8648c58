package broker

import (
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"
)

func TestExpiryOfAToken(t *testing.T) {
	claims := base64.RawURLEncoding.EncodeToString([]byte(`{"sub":"bridge","scope":"publish","exp":1800000000}`))
	for token, want := range map[string]time.Time{
		"a." + claims + ".c": time.Unix(1_800_000_000, 0),
		"opaque":             {}, "a.b": {}, "a.b.c": {}, "..": {},
	} {
		if got := expiryOf(token); !got.Equal(want) {
			t.Errorf("%q expires at %v, want %v", token, got, want)
		}
	}
}

func FuzzToken(f *testing.F) {
	f.Add("a.eyJleHAiOjF9.c")
	f.Fuzz(func(t *testing.T, token string) {
		expiryOf(token)
		if !errors.Is(refusalOf([]byte(token)), kafkago.SASLAuthenticationFailed) {
			t.Error("a refusal is none")
		}
	})
}

// TestAdviceIsForAnyLogin holds for consumers, which have logins of their own.
func TestAdviceIsForAnyLogin(t *testing.T) {
	cluster := &Cluster{}
	for code := range verdicts {
		if code == kafkago.IllegalSASLState {
			continue
		}
		if text := cluster.Explain("orders", code).Error(); strings.Contains(text, "bridge") {
			t.Errorf("%s", text)
		}
	}
	denied := (&attempts{topic: "orders"}).failed(t.Context(), 0, kafkago.TopicAuthorizationFailed)
	if !errors.Is(denied, kafkago.TopicAuthorizationFailed) || strings.Contains(denied.Error(), "bridge") {
		t.Error(denied)
	}
}
