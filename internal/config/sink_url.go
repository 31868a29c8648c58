package config

import (
	"cmp"
	"fmt"
	"net/url"
	"strings"
)

const (
	sinkVariable = prefix + "SINK_URL"
	sinkExample  = "kafka://host:9092,host:9092"
	kafkaPort    = "9092"
	natsPort     = "4222"
)

// sink checks BRIDGE_SINK_URL and the settings of its bus.
func (l *loader) sink(settings *globalSettings) Sink {
	text := l.env[sinkVariable]
	if text == "" || l.has(sinkVariable) {
		return Sink{}
	}
	scheme, rest, ok := l.cutScheme(sinkVariable, text, sinkSchemes, sinkExample)
	if !ok {
		return Sink{}
	}
	s := Sink{Scheme: scheme}
	s.checkDelivery(l, settings)
	rest, slashes := strings.CutPrefix(rest, "//")
	switch {
	case scheme == "stdout" && rest != "":
		l.add(sinkVariable, "has something after stdout: write stdout: alone")
	case scheme == "stdout":
	case scheme == "embedded":
		s.Embedded = l.embedded(text, settings.NATS.NATSStream)
		s.Embedded.Keeps.check(l, &s, &settings.NATS)
	case !slashes:
		l.add(sinkVariable, "has no // after the scheme: write %s://host:port", scheme)
	case scheme == "kafka":
		s.Kafka = l.kafka(rest, &settings.Kafka)
		s.Kafka.TransactionalID = cmp.Or(settings.Kafka.KafkaTransactionalID, "bridge."+settings.Process.DomainID)
	case scheme == "nats":
		s.NATS = l.nats(rest, &settings.NATS)
		s.NATS.Keeps.check(l, &s, &settings.NATS)
		s.NATS.Claim = cmp.Or(settings.NATS.NATSClaimSubject, defaultClaim(settings.Process.DomainID))
	}
	if scheme != "kafka" {
		l.warnOtherBus("KAFKA_", scheme)
	}
	if scheme != "nats" {
		l.warnOtherBus("NATS_", scheme)
	}
	return s
}

// warnOtherBus warns of settings of a bus that is not the sink's. They are no fault, so that one
// environment can be used with another sink by changing one variable.
func (l *loader) warnOtherBus(begin, scheme string) {
	for _, name := range l.env.names() {
		if strings.HasPrefix(name, prefix+begin) && !l.has(name) && !(scheme == "embedded" && embeddedHas(name)) {
			l.warn(name, "has no effect with the sink %s:", scheme)
		}
	}
}

// kafka checks the brokers and the settings of Kafka.
func (l *loader) kafka(hosts string, settings *kafkaSettings) Kafka {
	a, err := parseAuthority("kafka", hosts, kafkaPort)
	switch {
	case err != nil:
		l.add(sinkVariable, "%v", err)
	case a.user != nil:
		l.add(sinkVariable, "has a login before the host: write it to BRIDGE_KAFKA_SASL_USERNAME and BRIDGE_KAFKA_SASL_PASSWORD")
	}
	k := Kafka{
		Brokers:     a.hosts,
		Compression: settings.KafkaCompression,
		UseTLS:      settings.KafkaTLS,

		TransactionInterval: settings.KafkaTransactionInterval,
		TLS:                 l.tls("KAFKA_TLS_", TLS{settings.KafkaTLSCA, settings.KafkaTLSCert, settings.KafkaTLSKey}),
	}
	k.login(l, settings)
	if !k.UseTLS && !l.has(prefix+"KAFKA_TLS") {
		for _, file := range []string{"CA", "CERT", "KEY"} {
			if l.env[prefix+"KAFKA_TLS_"+file] != "" {
				l.add(prefix+"KAFKA_TLS_"+file, "is set, but BRIDGE_KAFKA_TLS is not true: set BRIDGE_KAFKA_TLS=true or unset this")
			}
		}
	}
	return k
}

// nats checks the servers and the settings of NATS.
func (l *loader) nats(hosts string, settings *natsSettings) NATS {
	n := NATS{
		Creds:  l.natsSecret("NATS_CREDS", settings.NATSCreds, isCreds),
		NKey:   l.natsSecret("NATS_NKEY", settings.NATSNKey, isSeed),
		TLS:    l.tls("NATS_TLS_", TLS{settings.NATSTLSCA, settings.NATSTLSCert, settings.NATSTLSKey}),
		Stream: settings.NATSStream,
		Create: settings.NATSCreateStream,

		HandshakeFirst: settings.NATSTLSHandshakeFirst,
		Domain:         settings.NATSDomain,
	}
	if strings.ContainsAny(n.Domain, ".*> \t") {
		l.add(prefix+"NATS_DOMAIN", "invalid JetStream domain: use a name without dots, blanks and wildcards")
	}
	a, err := parseAuthority("nats", hosts, natsPort)
	if err != nil {
		l.add(sinkVariable, "%v", err)
		return n
	}
	n.Servers = a.hosts
	l.natsLogin(&n, a.user)
	l.natsContradictions(&n, a.user != nil)
	return n
}

// natsLogin puts the login of the URL into n: user and password, or a token.
func (l *loader) natsLogin(n *NATS, user *url.Userinfo) {
	if user == nil {
		return
	}
	password, hasPassword := user.Password()
	if !hasPassword {
		l.secrets.add(user.Username())
		n.Servers[0] = user.String() + "@" + n.Servers[0]
		return
	}
	l.secrets.add(password)
	secret, secrets := l.secret(sinkVariable), l.secrets
	n.Login = func() (string, string, error) {
		text, err := secret()
		if err != nil {
			return "", "", err
		}
		_, hosts, _ := strings.Cut(text, "://")
		a, err := parseAuthority("nats", hosts, natsPort)
		if err != nil {
			return "", "", fmt.Errorf("%s %w", sinkVariable, err)
		}
		if a.user == nil {
			return "", "", fmt.Errorf("%s names no user any more: write nats://user:password@host:port", sinkVariable)
		}
		password, _ := a.user.Password()
		secrets.add(password)
		return a.user.Username(), password, nil
	}
}

// natsContradictions finds ways to log in that exclude one another, and a stream to create without
// a name.
func (l *loader) natsContradictions(n *NATS, inURL bool) {
	if n.NKey != nil && (inURL || n.Creds != nil) {
		l.add(prefix+"NATS_NKEY", "is one way to log in, and another one is set too: use one of the user in BRIDGE_SINK_URL, BRIDGE_NATS_CREDS and BRIDGE_NATS_NKEY")
	}
	if n.Creds != nil && inURL {
		l.add(prefix+"NATS_CREDS", "is one way to log in, and another one is set too: use one of the user in BRIDGE_SINK_URL, BRIDGE_NATS_CREDS and BRIDGE_NATS_NKEY")
	}
	if n.Create && n.Stream == "" {
		l.add(prefix+"NATS_STREAM", "is not set, but BRIDGE_NATS_CREATE_STREAM is true: name the stream to create")
	}
	l.natsStream(n.Stream)
}

// natsStream checks the name of a JetStream stream.
func (l *loader) natsStream(name string) {
	if strings.ContainsAny(name, ". \t*>/\\") {
		l.add(prefix+"NATS_STREAM", `invalid stream name: use no white space and none of . * > / \`)
	}
}
