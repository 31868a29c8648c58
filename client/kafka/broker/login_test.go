package broker

import (
	"encoding/base64"
	"errors"
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
