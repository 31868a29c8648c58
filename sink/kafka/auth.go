package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/segmentio/kafka-go/sasl/scram"
)

// SASL mechanisms.
const (
	Plain       = "PLAIN"
	ScramSHA256 = "SCRAM-SHA-256"
	ScramSHA512 = "SCRAM-SHA-512"
)

// Mechanisms lists the SASL mechanisms.
var Mechanisms = []string{Plain, ScramSHA256, ScramSHA512}

// SASL is a login.
type SASL struct {
	// Mechanism is one of Mechanisms.
	Mechanism string
	// Username may be empty only if the broker takes that.
	Username string
	// Password is asked at every connect, so that it can change while the program runs.
	Password func() (string, error)
}

func (s *SASL) check() error {
	if !slices.Contains(Mechanisms, s.Mechanism) {
		return fmt.Errorf("kafka: unknown SASL mechanism %q: use one of %q", s.Mechanism, Mechanisms)
	}
	if s.Password == nil {
		return errors.New("kafka: SASL needs a password")
	}
	return nil
}

// mechanism is a sasl.Mechanism that asks for the password at the start of every login.
type mechanism struct{ SASL }

var _ sasl.Mechanism = mechanism{}

func (m mechanism) Name() string { return m.Mechanism }

func (m mechanism) Start(ctx context.Context) (sasl.StateMachine, []byte, error) {
	password, err := m.Password()
	if err != nil {
		return nil, nil, fmt.Errorf("read the SASL password: %w", err)
	}
	if m.Mechanism == Plain {
		return plain.Mechanism{Username: m.Username, Password: password}.Start(ctx)
	}
	algorithm := scram.SHA256
	if m.Mechanism == ScramSHA512 {
		algorithm = scram.SHA512
	}
	login, err := scram.Mechanism(algorithm, m.Username, password)
	if err != nil {
		// The library's error quotes a character of the password.
		return nil, nil, errors.New("the SASL user name or password holds a character that SCRAM does not allow")
	}
	return login.Start(ctx)
}
