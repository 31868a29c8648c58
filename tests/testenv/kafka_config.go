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
	if opts.SASL {
		s.sasl = address(FreePort(t))
		listeners = append(listeners, "SASL://"+s.sasl)
		protocols = append(protocols, "SASL:SASL_PLAINTEXT")
		maps.Copy(config, saslConfig("sasl"))
	}
	if opts.OAuth {
		s.oauth = address(FreePort(t))
		listeners = append(listeners, "OAUTH://"+s.oauth)
		protocols = append(protocols, "OAUTH:SASL_PLAINTEXT")
		maps.Copy(config, oauthConfig("oauth"))
	}
	if opts.TLS != nil {
		s.secure = address(FreePort(t))
		listeners = append(listeners, "TLS://"+s.secure)
		protocols = append(protocols, "TLS:SSL")
		s.keys = filepath.Join(dir, "broker.pem")
		if err := joinKeys(s.keys, opts.TLS.ServerKey, opts.TLS.ServerCert); err != nil {
			return err
		}
		maps.Copy(config, tlsConfig(s.keys, opts.TLS.CA))
	}
	if opts.SASL && opts.TLS != nil {
		s.both = address(FreePort(t))
		listeners = append(listeners, "BOTH://"+s.both)
		protocols = append(protocols, "BOTH:SASL_SSL")
		maps.Copy(config, saslConfig("both"))
	}
	advertised := slices.Clone(listeners)
	if opts.Proxied {
		behind := address(FreePort(t))
		s.proxy = StartProxy(t, behind)
		listeners = append(listeners, "PROXIED://"+behind)
		advertised = append(advertised, "PROXIED://"+s.proxy.Addr())
		protocols = append(protocols, "PROXIED:"+proxiedProtocol(opts))
		if opts.SASL {
			maps.Copy(config, saslConfig("proxied"))
		}
	}
	for i, elsewhere := range opts.Strays {
		at, name := address(FreePort(t)), fmt.Sprint("STRAY", i)
		s.strays = append(s.strays, at)
		listeners, advertised = append(listeners, name+"://"+at), append(advertised, name+"://"+elsewhere)
		protocols = append(protocols, name+":PLAINTEXT")
	}
	config["listeners"] = strings.Join(append(listeners, "CONTROLLER://"+controller), ",")
	config["advertised.listeners"] = strings.Join(advertised, ",")
	config["listener.security.protocol.map"] = strings.Join(protocols, ",")
	maps.Copy(config, opts.Config)
	return writeProperties(properties(dir), config)
}

func proxiedProtocol(opts KafkaOptions) string {
	if opts.SASL {
		return "SASL_PLAINTEXT"
	}
	return "PLAINTEXT"
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

// joinKeys writes a key and its certificate to the one file that Kafka reads.
func joinKeys(store, key, cert string) error {
	var keys []byte
	for _, path := range []string{key, cert} {
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		keys = append(keys, b...)
	}
	return os.WriteFile(store, keys, 0o600)
}

func tlsConfig(keys, ca string) map[string]string {
	return map[string]string{
		"ssl.keystore.type":       "PEM",
		"ssl.keystore.location":   keys,
		"ssl.truststore.type":     "PEM",
		"ssl.truststore.location": ca,
		"ssl.client.auth":         "requested",
	}
}

func writeProperties(path string, config map[string]string) error {
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(config)) {
		fmt.Fprintf(&b, "%s=%s\n", key, config[key])
	}
	return os.WriteFile(path, []byte(b.String()), 0o600)
}
