package broker

import (
	"crypto/tls"
	"errors"
	"fmt"
	"time"
)

// Options say how to reach a cluster.
type Options struct {
	// Brokers are host:port of one or more brokers, from which the others are learned. Required.
	Brokers []string
	// ClientID names the program in the brokers' logs and quotas.
	ClientID string
	// TLS returns the configuration of each new connection, so that certificates can be replaced
	// while the program runs. An empty ServerName becomes the broker's host. Nil means no TLS.
	TLS func() (*tls.Config, error)
	// SASL is the login. Nil means none.
	SASL *SASL
	// GiveUpAfter bounds how long a [Reader] waits for brokers that do not answer, or for messages
	// before an end that was given; a login that is refused is then an error at once. Zero means
	// for ever.
	GiveUpAfter time.Duration
	// Errorf makes errors of a format and arguments among which a [Setting] may be. Defaults to
	// fmt.Errorf.
	Errorf func(format string, args ...any) error
}

// Setting is an option that an error tells a person to change.
type Setting string

// The settings that errors name.
const (
	SettingBrokers   Setting = "Options.Brokers"
	SettingTLS       Setting = "Options.TLS"
	SettingTLSCA     Setting = "the certificates of Options.TLS"
	SettingMechanism Setting = "Options.SASL"
)

// Check sets defaults and refuses what cannot work.
func (o *Options) Check() error {
	if o.Errorf == nil {
		o.Errorf = fmt.Errorf
	}
	if len(o.Brokers) == 0 {
		return errors.New("kafka: no broker is given")
	}
	if o.SASL != nil {
		return o.SASL.Check()
	}
	return nil
}
