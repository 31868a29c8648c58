package testenv

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// configure picks ports and writes the broker's server.properties and certificates to dir.
func (s *KafkaServer) configure(t testing.TB, dir string, opts KafkaOptions) error {
	controller := opts.controllers[opts.node-1]
	var voters []string
	for i, at := range opts.controllers {
		voters = append(voters, fmt.Sprintf("%d@%s", i+1, at))
	}
	s.plain = address(FreePort(t))
	s.brokers = []string{s.plain}
	listeners := []string{"PLAIN://" + s.plain}
	protocols := []string{"PLAIN:PLAINTEXT", "CONTROLLER:PLAINTEXT"}
	config := map[string]string{
		"process.roles":                            "broker,controller",
		"node.id":                                  strconv.Itoa(opts.node),
		"controller.quorum.voters":                 strings.Join(voters, ","),
		"controller.listener.names":                "CONTROLLER",
		"inter.broker.listener.name":               "PLAIN",
		"log.dirs":                                 filepath.Join(dir, "data"),
		"auto.create.topics.enable":                "false",
		"default.replication.factor":               "1",
		"offsets.topic.num.partitions":             "1",
		"offsets.topic.replication.factor":         "1",
		"transaction.state.log.num.partitions":     "1",
		"transaction.state.log.replication.factor": "1",
		"transaction.state.log.min.isr":            "1",
		"group.initial.rebalance.delay.ms":         "0",
		"group.min.session.timeout.ms":             "500",
		// A killed broker may come back as soon as its session is over; one that has no processor
		// for that long leads nothing for a while.
		"broker.session.timeout.ms":    "3000",
		"broker.heartbeat.interval.ms": "200",
		"num.network.threads":          "2",
		"num.io.threads":               "4",
		// How often it looks for transactions that are over their time limit.
		"transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
	}
	if opts.Lasting {
		config["broker.session.timeout.ms"] = "60000"
	}
	// add adds a listener at an address, where clients are told to go on at another.
	advertised := slices.Clone(listeners)
	add := func(name, protocol, at, elsewhere string, of ...map[string]string) {
		listeners, advertised = append(listeners, name+"://"+at), append(advertised, name+"://"+elsewhere)
		protocols = append(protocols, name+":"+protocol)
		for _, more := range of {
			maps.Copy(config, more)
		}
	}
	if opts.SASL {
		s.sasl = address(FreePort(t))
		add("SASL", "SASL_PLAINTEXT", s.sasl, s.sasl, saslConfig("sasl"))
	}
	if opts.OAuth {
		s.oauth = address(FreePort(t))
		add("OAUTH", "SASL_PLAINTEXT", s.oauth, s.oauth, oauthConfig("oauth"))
	}
	if opts.TLS != nil {
		s.secure, s.keys = address(FreePort(t)), filepath.Join(dir, "broker.pem")
		s.Certify(t, opts.TLS.ServerCert, opts.TLS.ServerKey)
		add("TLS", "SSL", s.secure, s.secure, map[string]string{
			"ssl.keystore.type": "PEM", "ssl.keystore.location": s.keys, "ssl.truststore.type": "PEM", "ssl.truststore.location": opts.TLS.CA,
			"ssl.client.auth": "requested",
		})
	}
	if opts.SASL && opts.TLS != nil {
		s.both = address(FreePort(t))
		add("BOTH", "SASL_SSL", s.both, s.both, saslConfig("both"))
	}
	if opts.Proxied {
		behind := address(FreePort(t))
		s.proxy = StartProxy(t, behind)
		add("PROXIED", "PLAINTEXT", behind, s.proxy.Addr())
	}
	for i, elsewhere := range opts.Strays {
		s.strays = append(s.strays, address(FreePort(t)))
		add(fmt.Sprint("STRAY", i), "PLAINTEXT", s.strays[i], elsewhere)
	}
	config["listeners"] = strings.Join(append(listeners, "CONTROLLER://"+controller), ",")
	config["advertised.listeners"] = strings.Join(advertised, ",")
	config["listener.security.protocol.map"] = strings.Join(protocols, ",")
	maps.Copy(config, opts.Config)
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(config)) {
		fmt.Fprintf(&b, "%s=%s\n", key, config[key])
	}
	return os.WriteFile(properties(dir), []byte(b.String()), 0o600)
}

// saslConfig lets KafkaUser in at a listener, whose name is in lower case.
func saslConfig(listener string) map[string]string {
	const modules = "org.apache.kafka.common.security."
	login := fmt.Sprintf("%splain.PlainLoginModule required user_%s=%q;", modules, KafkaUser, KafkaPassword)
	begin := "listener.name." + listener + "."
	return map[string]string{
		"sasl.enabled.mechanisms":                "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
		begin + "plain.sasl.jaas.config":         login,
		begin + "scram-sha-256.sasl.jaas.config": modules + "scram.ScramLoginModule required;",
		begin + "scram-sha-512.sasl.jaas.config": modules + "scram.ScramLoginModule required;",
	}
}

// Certify has a broker with TLS show another certificate from its next start on.
func (s *KafkaServer) Certify(t testing.TB, cert, key string) {
	t.Helper()
	// Kafka reads both from one file.
	writeFile(t, s.keys, append(must(os.ReadFile(key))(t), must(os.ReadFile(cert))(t)...))
}
