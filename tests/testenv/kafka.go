package testenv

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// KafkaLibs is the folder with the jars of Apache Kafka: those that scripts/test-deps fetches, or
// with BRIDGE_TEST_KAFKA_LIBS others.
func KafkaLibs() string {
	if libs := os.Getenv("BRIDGE_TEST_KAFKA_LIBS"); libs != "" {
		return libs
	}
	return filepath.Join(cacheDir(), "kafka-libs")
}

// kafkaVersion is that of the jars in a folder.
func kafkaVersion(libs string) string {
	jars, err := filepath.Glob(filepath.Join(libs, "kafka-clients-*.jar"))
	if err != nil || len(jars) != 1 {
		return "of an unknown version"
	}
	return strings.TrimSuffix(strings.TrimPrefix(filepath.Base(jars[0]), "kafka-clients-"), ".jar")
}

// The logins of a broker with SASL.
const (
	KafkaUser     = "bridge"
	KafkaPassword = "bridge-secret"
)

// KafkaOptions say what a broker of one's own has beyond a plain listener.
type KafkaOptions struct {
	// SASL adds a listener that wants a login: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512.
	SASL bool
	// OAuth adds a listener that wants a token of KafkaToken with the scope KafkaScope. Brokers end
	// the sessions there when the token expires, and after three seconds.
	OAuth bool
	// TLS adds a listener with the server certificate given, which also takes client certificates
	// by the same CA. With SASL there is one that wants both, too.
	TLS *Certs
	// Proxied adds a listener behind a Proxy, whose address is the one that the broker tells
	// clients there: they stay behind it.
	Proxied bool
	// Strays are host:port at which the broker tells clients to go on that have come to a listener
	// of its own for each.
	Strays []string
	// Lasting says that nobody kills the broker. It then stays in its own cluster for a minute
	// without a processor. Others are thrown out after three seconds: they may come back that soon.
	Lasting bool
	// Config is added to server.properties.
	Config map[string]string
	// node is the broker's number in a cluster, from 1 on, and controllers are the addresses at
	// which the brokers of the cluster control it; without them it is on its own.
	node        int
	controllers []string
}

// KafkaServer is an Apache Kafka broker that is its own controller (KRaft, one node).
type KafkaServer struct {
	// Version of the broker.
	Version string

	brokers             []string
	plain, sasl, secure string
	oauth               string
	// both wants TLS and a login; keys is the file with the server's certificate.
	both, keys string
	proxy      *Proxy
	strays     []string
	// Process is nil for a whole cluster.
	*Process

	connecting sync.Once
	admin      *kadm.Client
}

var sharedKafka shared[*KafkaServer]

// Kafka returns the broker that all tests of the binary share.
func Kafka(t testing.TB) *KafkaServer {
	t.Helper()
	return sharedKafka.get(t, "Apache Kafka", func() (*KafkaServer, func(), error) { return newKafka(t, KafkaOptions{Lasting: true}) })
}

// StartKafka starts a broker that belongs to the test.
func StartKafka(t testing.TB, opts KafkaOptions) *KafkaServer {
	t.Helper()
	return own(t, "Apache Kafka", func() (*KafkaServer, func(), error) { return newKafka(t, opts) })
}

// newKafka formats a data folder and starts a broker on it.
func newKafka(t testing.TB, opts KafkaOptions) (*KafkaServer, func(), error) {
	java, err := exec.LookPath("java")
	if err != nil {
		return nil, nil, err
	}
	libs := KafkaLibs()
	if stamps, err := filepath.Glob(filepath.Join(libs, "*.done")); err != nil || len(stamps) == 0 {
		return nil, nil, errors.Join(fmt.Errorf("jars of Apache Kafka in %s: %w", libs, exec.ErrNotFound), err)
	}
	if opts.node == 0 {
		opts.node, opts.controllers = 1, []string{address(FreePort(t))}
	}
	run := []string{java, "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", libs + "/*"}
	return tryPorts("kafka", func(dir string) (*KafkaServer, *Process, error) {
		s := &KafkaServer{Version: kafkaVersion(libs)}
		s.Process = &Process{
			name: "kafka", log: filepath.Join(dir, "log"), ready: s.ping, data: filepath.Join(dir, "data"),
			args: append(append([]string{}, append(run, "-Xms128m", "-Xmx512m")...), "kafka.Kafka", properties(dir)),
		}
		err := s.configure(t, dir, opts)
		if err == nil {
			err = formatKafka(run, filepath.Join(libs, "formatted"), dir, opts)
		}
		if err == nil {
			err = s.shareClasses(libs, len(opts.controllers) == 1)
		}
		reportKafka.Do(func() { report("real", fmt.Sprintf("Apache Kafka %s (KRaft)", s.Version)) })
		return s, s.Process, err
	})
}

func properties(dir string) string { return filepath.Join(dir, "server.properties") }

// formatKafka makes the storage of a broker below dir.
func formatKafka(run []string, kept, dir string, opts KafkaOptions) error {
	args := append(run[1:len(run):len(run)], "kafka.tools.StorageTool", "format", "--ignore-formatted",
		"--cluster-id", "YnJpZGdlLXRlc3QtMDAwMA", "--config", properties(dir))
	if opts.SASL {
		kept += "-login"
		for _, mechanism := range []string{"SCRAM-SHA-256", "SCRAM-SHA-512"} {
			args = append(args, "--add-scram", fmt.Sprintf("%s=[name=%s,password=%s]", mechanism, KafkaUser, KafkaPassword))
		}
	}
	if opts.node > 1 {
		kept += fmt.Sprint("-", opts.node)
	}
	data := filepath.Join(dir, "data")
	if isFolder(data) {
		return nil
	}
	return copyInitialised(kept, dir, func(made string) error {
		if out, err := exec.Command(run[0], args...).CombinedOutput(); err != nil {
			return fmt.Errorf("format the storage of kafka: %w\n%s", err, out)
		}
		return os.Rename(data, filepath.Join(made, "data"))
	})
}

// The addresses of the listeners: a plain one, and those of KafkaOptions.
func (s *KafkaServer) Brokers() []string           { return s.brokers }
func (s *KafkaServer) SASLBrokers() []string       { return []string{s.sasl} }
func (s *KafkaServer) OAuthBrokers() []string      { return []string{s.oauth} }
func (s *KafkaServer) TLSBrokers() []string        { return []string{s.secure} }
func (s *KafkaServer) SASLTLSBrokers() []string    { return []string{s.both} }
func (s *KafkaServer) ProxiedBrokers() []string    { return []string{s.proxy.Addr()} }
func (s *KafkaServer) StrayBrokers(i int) []string { return []string{s.strays[i]} }

// Proxy returns the proxy of KafkaOptions.Proxied.
func (s *KafkaServer) Proxy() *Proxy { return s.proxy }

var reportKafka sync.Once

func (s *KafkaServer) ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(s.brokers...))
	if err != nil {
		return err
	}
	defer client.Close()
	// An open port is not enough: a broker that has not joined its controller yet names no brokers.
	res, err := kmsg.NewPtrMetadataRequest().RequestWith(ctx, client)
	if err == nil && len(res.Brokers) == 0 {
		err = errors.New("no broker has joined the cluster")
	}
	if err != nil {
		return err
	}
	// Nor does a broker that has just started hand out producer ids.
	ids, err := kmsg.NewPtrInitProducerIDRequest().RequestWith(ctx, client)
	if err != nil {
		return err
	}
	if err := kerr.ErrorForCode(ids.ErrorCode); kerr.IsRetriable(err) {
		return err
	}
	return nil
}

func address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
