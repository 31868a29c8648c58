package kafka

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/sasl"
)

// bearer is the mechanism OAUTHBEARER of RFC 7628, as Kafka has it (KIP-255).
type bearer struct{ token func() (string, error) }

var _ sasl.Mechanism = bearer{}

func (bearer) Name() string { return OAuthBearer }

func (b bearer) Start(context.Context) (sasl.StateMachine, []byte, error) {
	token, err := b.token()
	if err != nil {
		return nil, nil, fmt.Errorf("read the SASL token: %w", err)
	}
	if !IsToken(token) {
		return nil, nil, errors.New("the SASL token holds white space or a character that no token has: write the token alone")
	}
	return &bearerLogin{}, []byte("n,,\x01auth=Bearer " + token + "\x01\x01"), nil
}

// IsToken reports whether text has the form of a bearer token (RFC 6750, b64token).
func IsToken(text string) bool {
	const allowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~+/="
	return text != "" && !strings.ContainsFunc(text, func(r rune) bool { return !strings.ContainsRune(allowed, r) })
}

// bearerLogin is one exchange.
type bearerLogin struct{ refusal error }

// Next implements sasl.StateMachine. A refusal comes as a message of the server, which goes on with
// its error when that is acknowledged.
func (l *bearerLogin) Next(_ context.Context, challenge []byte) (bool, []byte, error) {
	if l.refusal != nil {
		return false, nil, l.refusal
	}
	if len(challenge) == 0 {
		return true, nil, nil
	}
	l.refusal = refusalOf(challenge)
	return false, []byte{1}, nil
}

// refusalOf returns the error of RFC 7628, section 3.2.2.
func refusalOf(message []byte) error {
	var answer struct{ Status, Scope string }
	if json.Unmarshal(message, &answer) != nil || answer.Status == "" {
		return kafkago.SASLAuthenticationFailed
	}
	if answer.Scope != "" {
		return fmt.Errorf("%w: status %q, the token needs the scope %q", kafkago.SASLAuthenticationFailed, answer.Status, answer.Scope)
	}
	return fmt.Errorf("%w: status %q", kafkago.SASLAuthenticationFailed, answer.Status)
}

// expiryOf returns when a JWT expires by its own account, zero where it does not tell.
func expiryOf(token string) time.Time {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return time.Time{}
	}
	text, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(parts[1], "="))
	var claims struct {
		Exp float64 `json:"exp"`
	}
	if err != nil || json.Unmarshal(text, &claims) != nil || claims.Exp <= 0 || claims.Exp > 1<<40 {
		return time.Time{}
	}
	return time.Unix(int64(claims.Exp), 0)
}
