package config

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"strings"
	"sync"
)

const (
	mechanismVariable = prefix + "KAFKA_SASL_MECHANISM"
	usernameVariable  = prefix + "KAFKA_SASL_USERNAME"
	tokenVariable     = prefix + "KAFKA_SASL_TOKEN"
	regionVariable    = prefix + "KAFKA_SASL_AWS_REGION"
	// awsRegion is the variable that the programs of AWS have in common.
	awsRegion = "AWS_REGION"
)

// The mechanisms without a password.
const (
	// OAuthBearer logs in with a token.
	OAuthBearer = "OAUTHBEARER"
	// AWSMSKIAM logs in with what the AWS SDK finds.
	AWSMSKIAM = "AWS_MSK_IAM"
)

// login checks whether the parts of a SASL login come together.
func (k *Kafka) login(l *loader, settings *kafkaSettings) {
	if l.has(mechanismVariable) {
		return
	}
	k.Mechanism = settings.KafkaSASLMechanism
	hasPassword := settings.KafkaSASLPassword != "" || l.has(passwordVariable, passwordVariable+fileSuffix)
	hasToken := settings.KafkaSASLToken != "" || l.has(tokenVariable, tokenVariable+fileSuffix)
	// used tells which of these the mechanism uses; none is known without one.
	used := map[string]bool{}
	switch k.Mechanism {
	case "":
	case OAuthBearer:
		used[tokenVariable] = true
		k.token(l, settings, hasToken)
	case AWSMSKIAM:
		used[regionVariable] = true
		k.aws(l, settings)
	default:
		used[usernameVariable], used[passwordVariable] = true, true
		k.password(l, settings, hasPassword)
	}
	for _, part := range []struct {
		variable, mechanisms string
		set                  bool
	}{
		{usernameVariable, "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512", settings.KafkaSASLUsername != ""},
		{passwordVariable, "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512", settings.KafkaSASLPassword != ""},
		{tokenVariable, OAuthBearer, settings.KafkaSASLToken != ""},
		{regionVariable, AWSMSKIAM, settings.KafkaSASLAWSRegion != ""},
	} {
		switch {
		case !part.set || used[part.variable]:
		case k.Mechanism == "":
			l.add(part.variable, "is set, but %s is not: set it to one of %s, or unset this", mechanismVariable, part.mechanisms)
		default:
			l.warn(part.variable, "has no effect with %s=%s", mechanismVariable, k.Mechanism)
		}
	}
}

// password completes a login by user and password.
func (k *Kafka) password(l *loader, settings *kafkaSettings, given bool) {
	if k.Username = settings.KafkaSASLUsername; k.Username == "" {
		l.add(usernameVariable, "is not set, but %s is: set the user to log in as", mechanismVariable)
	}
	if !given {
		l.add(passwordVariable, "is not set, but %s is: set it, or %s", mechanismVariable, passwordVariable+fileSuffix)
	}
	if k.Mechanism == "PLAIN" && !settings.KafkaTLS {
		l.warn(mechanismVariable, "PLAIN without BRIDGE_KAFKA_TLS=true sends the password readable over the network")
	}
	k.Password = l.secret(passwordVariable)
}

// token completes a login by token.
func (k *Kafka) token(l *loader, settings *kafkaSettings, given bool) {
	switch token := settings.KafkaSASLToken; {
	case !given:
		l.add(tokenVariable+fileSuffix, "is not set, but %s=%s is: name the file that holds the access token", mechanismVariable, k.Mechanism)
	case strings.ContainsAny(token, " \t\r\n"):
		l.add(tokenVariable, "holds white space: give the token alone")
	default:
		l.secrets.add(token)
	}
	if !settings.KafkaTLS {
		l.warn(mechanismVariable, "%s without BRIDGE_KAFKA_TLS=true sends the token readable over the network", k.Mechanism)
	}
	k.Token = rotating(l.secret(tokenVariable), settings.KafkaSASLToken, l.secrets)
}

// rotating has secrets know the last value of a secret that is replaced every hour, say.
func rotating(read Secret, last string, secrets *Redactor) Secret {
	var mu sync.Mutex
	return func() (string, error) {
		text, err := read()
		if err != nil {
			return "", err
		}
		mu.Lock()
		defer mu.Unlock()
		if text != last {
			secrets.replace(last, text)
			last = text
		}
		return text, nil
	}
}

// aws completes a login by IAM.
func (k *Kafka) aws(l *loader, settings *kafkaSettings) {
	k.AWSRegion = cmp.Or(settings.KafkaSASLAWSRegion, l.region)
	if k.AWSRegion == "" {
		l.add(regionVariable, "is not set, nor is %s, but %s=%s is: set the region of the cluster, such as eu-west-1", awsRegion, mechanismVariable, k.Mechanism)
	}
	if !settings.KafkaTLS && !l.has(prefix+"KAFKA_TLS") {
		l.add(prefix+"KAFKA_TLS", "is not true, but %s=%s is set: brokers take it with TLS only, so set BRIDGE_KAFKA_TLS=true", mechanismVariable, k.Mechanism)
	}
}

// Config returns a function that reads the PEM files and makes a TLS configuration of them. It is
// called at each connect, so that files can be replaced while the program runs.
func (t TLS) Config() func() (*tls.Config, error) {
	return func() (*tls.Config, error) {
		c := &tls.Config{MinVersion: tls.VersionTLS12}
		if t.CA != "" {
			pem, err := os.ReadFile(t.CA)
			if err != nil {
				return nil, fmt.Errorf("read the certificate authorities: %w", err)
			}
			c.RootCAs = x509.NewCertPool()
			if !c.RootCAs.AppendCertsFromPEM(pem) {
				return nil, fmt.Errorf("read the certificate authorities: no certificate in %s", t.CA)
			}
		}
		if t.Cert != "" {
			pair, err := tls.LoadX509KeyPair(t.Cert, t.Key)
			if err != nil {
				return nil, fmt.Errorf("read the client certificate: %w", err)
			}
			c.Certificates = []tls.Certificate{pair}
		}
		return c, nil
	}
}

// Given reports whether any file is named.
func (t TLS) Given() bool { return t != TLS{} }
