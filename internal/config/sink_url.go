package config

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
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

const (
	embeddedExample = "embedded:, embedded:///var/lib/bridge/nats or embedded:?listen=127.0.0.1:4222"
	// embeddedStream is the stream where BRIDGE_NATS_STREAM names none.
	embeddedStream = "BRIDGE"
)

// embedded checks the sink embedded:.
func (l *loader) embedded(text, stream string) Embedded {
	e, err := parseEmbedded(text)
	if err != nil {
		l.add(sinkVariable, "%v", err)
	}
	l.natsStream(stream)
	e.Stream = cmp.Or(stream, embeddedStream)
	return e
}

// parseEmbedded parses embedded:/path?listen=host:port, in which all may be left out. The error
// quotes nothing.
func parseEmbedded(text string) (Embedded, error) {
	var e Embedded
	u, err := url.Parse(text)
	if err != nil || u.User != nil || u.Host != "" || u.Fragment != "" || strings.HasPrefix(u.Opaque, ":") {
		return e, errors.New("does not name a folder: write " + embeddedExample + "; in the path ? is %3F, # is %23 and % is %25")
	}
	if e.Dir = u.Path; u.Opaque != "" {
		if e.Dir, err = url.PathUnescape(u.Opaque); err != nil {
			return e, errors.New("has a path that cannot be read: a % is written %25")
		}
	}
	if strings.ContainsRune(e.Dir, 0) {
		return e, errors.New("has a NUL in its path: write " + embeddedExample)
	}
	parameters, err := url.ParseQuery(u.RawQuery)
	e.Listen = parameters.Get("listen")
	delete(parameters, "listen")
	switch {
	case err != nil || len(parameters) > 0:
		return e, errors.New("has a parameter that is unknown: known is listen, as in embedded:?listen=127.0.0.1:4222")
	case e.Listen == "":
		return e, nil
	}
	if host, port, err := net.SplitHostPort(e.Listen); err != nil || host == "" || !isPort(port) {
		return e, errors.New("has no address after listen=: write host:port, as in embedded:?listen=127.0.0.1:4222; port 0 is a free one")
	}
	return e, nil
}

// beside puts the data beside the checkpoint where no folder is named.
func (e *Embedded) beside(checkpoint string) {
	e.Dir = cmp.Or(e.Dir, filepath.Join(filepath.Dir(checkpoint), "nats"))
}

// embeddedHas reports whether a variable of NATS has a meaning for embedded:.
func embeddedHas(variable string) bool {
	return slices.Contains([]string{prefix + "NATS_STREAM", prefix + "NATS_CREATE_STREAM"}, variable) || slices.Contains(keepingVariables, variable)
}

const (
	replicasVariable = prefix + "NATS_STREAM_REPLICAS"
	maxAgeVariable   = prefix + "NATS_STREAM_MAX_AGE"
	maxBytesVariable = prefix + "NATS_STREAM_MAX_BYTES"
	storageVariable  = prefix + "NATS_STREAM_STORAGE"
	windowVariable   = prefix + "NATS_STREAM_DUPLICATE_WINDOW"
)

// keepingVariables are those of a stream that is created.
var keepingVariables = []string{replicasVariable, maxAgeVariable, maxBytesVariable, storageVariable, windowVariable}

// check checks how a stream that is created keeps messages.
func (k *Keeping) check(l *loader, s *Sink, settings *natsSettings) {
	if l.has(keepingVariables...) {
		return
	}
	*k = Keeping{
		Replicas: settings.NATSStreamReplicas, MaxAge: settings.NATSStreamMaxAge, MaxBytes: int64(settings.NATSStreamMaxBytes),
		File: settings.NATSStreamStorage == "file", Memory: settings.NATSStreamStorage == "memory", DuplicateWindow: settings.NATSStreamDuplicateWindow,
	}
	switch {
	case k.Memory && s.ExactlyOnce:
		l.add(storageVariable, "is memory, which loses what was acknowledged when its servers restart, and BRIDGE_DELIVERY is exactly-once, which promises that nothing is lost: use file, or at-least-once")
	case k.Memory:
		l.warn(storageVariable, "memory loses all messages when the servers of the stream restart: capability streams are published again then, and release streams stop until a person decides")
	}
	if k.DuplicateWindow > k.MaxAge && k.MaxAge > 0 {
		l.add(windowVariable, "is longer than %s, which no server takes: use at most %s", maxAgeVariable, k.MaxAge)
	}
	if s.Scheme == "embedded" && k.Replicas > 1 {
		l.add(replicasVariable, "is above 1, but embedded: is one server: use nats: with a cluster, or unset this")
	}
	if s.Scheme == "nats" && settings.NATSStream == "" {
		for _, variable := range keepingVariables {
			// Buckets have replicas, too.
			if l.env[variable] != "" && variable != replicasVariable {
				l.warn(variable, "has no effect without %s", prefix+"NATS_STREAM")
			}
		}
	}
}

// warnMemory warns of progress that outlives the messages it counts.
func (c *Config) warnMemory(l *loader) {
	if c.CheckpointTopic != "" && c.Sink.NATS.Keeps.Memory {
		l.warn(storageVariable, "memory, and %s=bus: keeps progress in files: after a restart of the servers the progress names messages that are gone, and release streams stop", checkpointVariable)
	}
}

// TLS names PEM files, each optional; Cert and Key come together.
type TLS struct{ CA, Cert, Key string }

// tls checks the PEM files of a bus, whose variables begin with begin.
func (l *loader) tls(begin string, files TLS) TLS {
	ca, cert, key := prefix+begin+"CA", prefix+begin+"CERT", prefix+begin+"KEY"
	if pem, ok := l.readPEM(ca, files.CA); ok && !x509.NewCertPool().AppendCertsFromPEM(pem) {
		l.add(ca, "names a file without a certificate in PEM form: name one with the authorities to trust")
	}
	if (files.Cert == "") != (files.Key == "") {
		missing, present := key, cert
		if files.Cert == "" {
			missing, present = cert, key
		}
		l.add(missing, "is not set, but %s is: set both or none", present)
		return files
	}
	certPEM, certOK := l.readPEM(cert, files.Cert)
	keyPEM, keyOK := l.readPEM(key, files.Key)
	if certOK && keyOK {
		if _, err := tls.X509KeyPair(certPEM, keyPEM); err != nil {
			l.add(cert, "and %s name files that are no pair of a certificate and its key in PEM form: name two that belong together", key)
		}
	}
	return files
}

// readPEM reads the file that a variable names; ok is false when the variable is not set or the
// file cannot be read.
func (l *loader) readPEM(variable, path string) (pem []byte, ok bool) {
	if path == "" {
		return nil, false
	}
	pem, err := readFile(path)
	if err != nil {
		l.add(variable, "names a file that cannot be read (%v): name a PEM file that bridge may read", err)
		return nil, false
	}
	return pem, true
}

var seed = regexp.MustCompile(`S[UA-Z][A-Z2-7]{56,}`)

// isSeed reports whether text holds an NKey seed, isCreds whether it is the contents of a
// credentials file.
func isSeed(text string) bool  { return seed.MatchString(text) }
func isCreds(text string) bool { return strings.Contains(text, "-----BEGIN NATS USER JWT-----") }

// natsSecret checks a secret that may stand in the variable itself, in the file that the variable
// names as the tools of NATS have it, or in the one that its _FILE twin names. It returns nil when
// none is set.
func (l *loader) natsSecret(name, value string, is func(string) bool) Secret {
	variable := prefix + name
	if value == "" || l.has(variable, variable+fileSuffix) {
		return nil
	}
	read := l.secret(variable)
	if _, inFile := l.env[variable+fileSuffix]; !inFile && !is(value) {
		read = func() (string, error) {
			text, err := readFile(value)
			if err != nil {
				return "", fmt.Errorf("%s is neither the secret nor a file that can be read (%w): name a file that bridge may read", variable, err)
			}
			return string(bytes.TrimRight(text, "\r\n")), nil
		}
	}
	text, err := read()
	switch {
	case err != nil:
		l.add(variable, "%s", strings.TrimPrefix(err.Error(), variable+" "))
	case !is(text):
		l.add(variable, "does not lead to what it should: name a file with credentials (.creds) for BRIDGE_NATS_CREDS, with a seed (SU…) for BRIDGE_NATS_NKEY")
	}
	l.secrets.add(text)
	return read
}
