package testenv

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// configure picks ports and writes the broker's server.properties and certificates to dir.
func (s *KafkaServer) configure(t testing.TB, dir string, opts KafkaOptions) error {
	controller := address(FreePort(t))
	s.plain = address(FreePort(t))
	s.brokers = []string{s.plain}
	listeners := []string{"PLAIN://" + s.plain}
	protocols := []string{"PLAIN:PLAINTEXT", "CONTROLLER:PLAINTEXT"}
	config := map[string]string{
		"process.roles":                            "broker,controller",
		"node.id":                                  "1",
		"controller.quorum.voters":                 "1@" + controller,
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
		// A killed broker may come back as soon as its session is over.
		"broker.session.timeout.ms":    "1000",
		"broker.heartbeat.interval.ms": "200",
		"num.network.threads":          "2",
		"num.io.threads":               "4",
	}
	if opts.SASL {
		s.sasl = address(FreePort(t))
		listeners = append(listeners, "SASL://"+s.sasl)
		protocols = append(protocols, "SASL:SASL_PLAINTEXT")
		maps.Copy(config, saslConfig())
	}
	if opts.TLS != nil {
		s.secure = address(FreePort(t))
		listeners = append(listeners, "TLS://"+s.secure)
		protocols = append(protocols, "TLS:SSL")
		secure, err := tlsConfig(dir, opts.TLS)
		if err != nil {
			return err
		}
		maps.Copy(config, secure)
	}
	config["listeners"] = strings.Join(append(listeners, "CONTROLLER://"+controller), ",")
	config["advertised.listeners"] = strings.Join(listeners, ",")
	config["listener.security.protocol.map"] = strings.Join(protocols, ",")
	maps.Copy(config, opts.Config)
	return writeProperties(properties(dir), config)
}

func saslConfig() map[string]string {
	const modules = "org.apache.kafka.common.security."
	login := fmt.Sprintf("%splain.PlainLoginModule required user_%s=%q;", modules, KafkaUser, KafkaPassword)
	return map[string]string{
		"sasl.enabled.mechanisms":                           "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
		"listener.name.sasl.plain.sasl.jaas.config":         login,
		"listener.name.sasl.scram-sha-256.sasl.jaas.config": modules + "scram.ScramLoginModule required;",
		"listener.name.sasl.scram-sha-512.sasl.jaas.config": modules + "scram.ScramLoginModule required;",
	}
}

// tlsConfig joins the server's key and certificate to the one file that Kafka reads.
func tlsConfig(dir string, certs *Certs) (map[string]string, error) {
	var keys []byte
	for _, path := range []string{certs.ServerKey, certs.ServerCert} {
		b, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		keys = append(keys, b...)
	}
	store := filepath.Join(dir, "broker.pem")
	if err := os.WriteFile(store, keys, 0o600); err != nil {
		return nil, err
	}
	return map[string]string{
		"ssl.keystore.type":       "PEM",
		"ssl.keystore.location":   store,
		"ssl.truststore.type":     "PEM",
		"ssl.truststore.location": certs.CA,
		"ssl.client.auth":         "requested",
	}, nil
}

func writeProperties(path string, config map[string]string) error {
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(config)) {
		fmt.Fprintf(&b, "%s=%s\n", key, config[key])
	}
	return os.WriteFile(path, []byte(b.String()), 0o600)
}
