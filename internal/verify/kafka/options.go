package kafka

import (
	"crypto/tls"
	"errors"
	"fmt"
	"slices"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/segmentio/kafka-go/sasl/scram"
)

// Options say what to read and how to log in.
type Options struct {
	// Brokers are host:port of one or more brokers.
	Brokers []string
	// Topics are read, each once.
	Topics []string
	// TLS returns the configuration of the connections. Nil means none.
	TLS func() (*tls.Config, error)
	// Mechanism is PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512, empty for no login.
	Mechanism string
	Username  string
	Password  func() (string, error)
}

// transport makes the connections' transport. Its errors hold no secret.
func (o *Options) transport() (*kafkago.Transport, error) {
	t := &kafkago.Transport{
		DialTimeout: connectWithin, MetadataTTL: layoutAge, MetadataTopics: slices.Clone(o.Topics), ClientID: "bridge-verify",
	}
	if o.TLS != nil {
		config, err := o.TLS()
		if err != nil {
			return nil, err
		}
		t.TLS = config
	}
	var err error
	t.SASL, err = o.login()
	return t, err
}

func (o *Options) login() (sasl.Mechanism, error) {
	if o.Mechanism == "" {
		return nil, nil
	}
	password, err := o.Password()
	if err != nil {
		return nil, fmt.Errorf("read the SASL password: %w", err)
	}
	algorithm := scram.SHA512
	switch o.Mechanism {
	case "PLAIN":
		return plain.Mechanism{Username: o.Username, Password: password}, nil
	case "SCRAM-SHA-256":
		algorithm = scram.SHA256
	}
	login, err := scram.Mechanism(algorithm, o.Username, password)
	if err != nil {
		// The library's error quotes a character of the password.
		return nil, errors.New("the SASL user name or password holds a character that SCRAM does not allow")
	}
	return login, nil
}
