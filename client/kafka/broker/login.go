package broker

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/segmentio/kafka-go/sasl/scram"
)

// SASL mechanisms.
const (
	Plain       = "PLAIN"
	ScramSHA256 = "SCRAM-SHA-256"
	ScramSHA512 = "SCRAM-SHA-512"
	OAuthBearer = "OAUTHBEARER"
)

// Mechanisms lists the SASL mechanisms.
var Mechanisms = []string{Plain, ScramSHA256, ScramSHA512, OAuthBearer}

// SASL is a login.
type SASL struct {
	// Mechanism is one of Mechanisms.
	Mechanism string
	// Username may be empty only if the broker takes that. OAuthBearer has none.
	Username string
	// Password is asked at every connect, so that it can change while the program runs.
	Password func() (string, error)
	// Token returns the access token of OAuthBearer, a JWT or an opaque one. It is asked at every
	// connect.
	Token func() (string, error)
	// Custom is a mechanism that is implemented elsewhere, in place of all others. Optional.
	Custom sasl.Mechanism
}

func (s *SASL) Check() error {
	switch {
	case s.Custom != nil:
		return nil
	case !slices.Contains(Mechanisms, s.Mechanism):
		return fmt.Errorf("kafka: unknown SASL mechanism %q: use one of %q", s.Mechanism, Mechanisms)
	case s.Mechanism == OAuthBearer && s.Token == nil:
		return errors.New("kafka: OAUTHBEARER needs a token")
	case s.Mechanism != OAuthBearer && s.Password == nil:
		return errors.New("kafka: SASL needs a password")
	}
	return nil
}

// start begins the login of a connection, and returns what to send first.
func (s *SASL) start(ctx context.Context) (sasl.StateMachine, []byte, error) {
	switch {
	case s.Custom != nil:
		return s.Custom.Start(ctx)
	case s.Mechanism == OAuthBearer:
		token, err := s.Token()
		if err != nil {
			return nil, nil, fmt.Errorf("read the SASL token: %w", err)
		}
		if !IsToken(token) {
			return nil, nil, errors.New("the SASL token holds white space or a character that no token has: write the token alone")
		}
		return &bearerLogin{}, []byte("n,,\x01auth=Bearer " + token + "\x01\x01"), nil
	}
	password, err := s.Password()
	if err != nil {
		return nil, nil, fmt.Errorf("read the SASL password: %w", err)
	}
	if s.Mechanism == Plain {
		return plain.Mechanism{Username: s.Username, Password: password}.Start(ctx)
	}
	algorithm := scram.SHA256
	if s.Mechanism == ScramSHA512 {
		algorithm = scram.SHA512
	}
	login, err := scram.Mechanism(algorithm, s.Username, password)
	if err != nil {
		// The library's error quotes a character of the password.
		return nil, nil, errors.New("the SASL user name or password holds a character that SCRAM does not allow")
	}
	return login.Start(ctx)
}

// IsToken reports whether text has the form of a bearer token (RFC 6750, b64token).
func IsToken(text string) bool {
	const allowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~+/="
	return text != "" && !strings.ContainsFunc(text, func(r rune) bool { return !strings.ContainsRune(allowed, r) })
}

// bearerLogin is one exchange of OAUTHBEARER (RFC 7628), as Kafka has it (KIP-255).
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
