package testenv

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"example.org/bridge/tests/must"
)

// KafkaLibs is the folder with the jars of Apache Kafka: those that scripts/test-deps fetches, or
// with BRIDGE_TEST_KAFKA_LIBS others.
func KafkaLibs() string {
	if libs := os.Getenv("BRIDGE_TEST_KAFKA_LIBS"); libs != "" {
		return libs
	}
	return Cached("kafka-libs")
}

func kafkaVersion(libs string) string {
	jars, err := filepath.Glob(filepath.Join(libs, "kafka-clients-*.jar"))
	if err != nil || len(jars) != 1 {
		return "of an unknown version"
	}
	return strings.TrimSuffix(strings.TrimPrefix(filepath.Base(jars[0]), "kafka-clients-"), ".jar")
}

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

	brokers []string
	// at are the addresses of the listeners of KafkaOptions by their names, keys the file with the
	// server's certificate.
	at    map[string]string
	keys  string
	proxy *Proxy
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

func StartKafka(t testing.TB, opts KafkaOptions) *KafkaServer {
	t.Helper()
	return own(t, "Apache Kafka", func() (*KafkaServer, func(), error) { return newKafka(t, opts) })
}

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
		s := &KafkaServer{Version: kafkaVersion(libs), at: make(map[string]string)}
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
		report("real", fmt.Sprintf("Apache Kafka %s (KRaft)", s.Version))
		return s, s.Process, err
	})
}

func properties(dir string) string { return filepath.Join(dir, "server.properties") }

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
func (s *KafkaServer) SASLBrokers() []string       { return []string{s.at["SASL"]} }
func (s *KafkaServer) OAuthBrokers() []string      { return []string{s.at["OAUTH"]} }
func (s *KafkaServer) TLSBrokers() []string        { return []string{s.at["TLS"]} }
func (s *KafkaServer) SASLTLSBrokers() []string    { return []string{s.at["BOTH"]} }
func (s *KafkaServer) ProxiedBrokers() []string    { return []string{s.proxy.Addr()} }
func (s *KafkaServer) StrayBrokers(i int) []string { return []string{s.at[fmt.Sprint("STRAY", i)]} }

func (s *KafkaServer) Proxy() *Proxy { return s.proxy }

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

func (s *KafkaServer) configure(t testing.TB, dir string, opts KafkaOptions) error {
	controller := opts.controllers[opts.node-1]
	var voters []string
	for i, at := range opts.controllers {
		voters = append(voters, fmt.Sprintf("%d@%s", i+1, at))
	}
	plain := address(FreePort(t))
	s.brokers = []string{plain}
	listeners := []string{"PLAIN://" + plain}
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
	// Clients are told to go on at another address where one is given.
	advertised := slices.Clone(listeners)
	add := func(name, protocol, elsewhere string, more map[string]string) (at string) {
		at = address(FreePort(t))
		s.at[name] = at
		listeners, advertised = append(listeners, name+"://"+at), append(advertised, name+"://"+cmp.Or(elsewhere, at))
		protocols = append(protocols, name+":"+protocol)
		maps.Copy(config, more)
		return at
	}
	if opts.SASL {
		add("SASL", "SASL_PLAINTEXT", "", saslConfig("sasl"))
	}
	if opts.OAuth {
		const module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
		add("OAUTH", "SASL_PLAINTEXT", "", map[string]string{
			"listener.name.oauth.sasl.enabled.mechanisms": "OAUTHBEARER",
			"listener.name.oauth.oauthbearer.sasl.jaas.config": fmt.Sprintf(
				"%s unsecuredLoginStringClaim_sub=\"broker\" unsecuredValidatorRequiredScope=%q;", module, KafkaScope),
			"listener.name.oauth.oauthbearer.connections.max.reauth.ms": fmt.Sprint(KafkaSession.Milliseconds()),
		})
	}
	if opts.TLS != nil {
		s.keys = filepath.Join(dir, "broker.pem")
		s.Certify(t, opts.TLS.ServerCert, opts.TLS.ServerKey)
		add("TLS", "SSL", "", map[string]string{
			"ssl.keystore.type": "PEM", "ssl.keystore.location": s.keys, "ssl.truststore.type": "PEM", "ssl.truststore.location": opts.TLS.CA,
			"ssl.client.auth": "requested",
		})
	}
	if opts.SASL && opts.TLS != nil {
		add("BOTH", "SASL_SSL", "", saslConfig("both"))
	}
	if opts.Proxied {
		s.proxy = StartProxy(t, "")
		s.proxy.Forward(add("PROXIED", "PLAINTEXT", s.proxy.Addr(), nil))
	}
	for i, elsewhere := range opts.Strays {
		add(fmt.Sprint("STRAY", i), "PLAINTEXT", elsewhere, nil)
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

// The listener's name is in lower case.
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
	writeFile(t, s.keys, append(must.Get(os.ReadFile(key))(t), must.Get(os.ReadFile(cert))(t)...))
}

// KafkaScope is what a token needs at the listener of KafkaOptions.OAuth.
const KafkaScope = "publish"

// KafkaSession is how long a session lasts there at most.
const KafkaSession = 3 * time.Second

// KafkaToken returns a token without a signature: Kafka comes with a check of such ones.
func KafkaToken(user, scope string, expires time.Time) string {
	encode := base64.RawURLEncoding.EncodeToString
	claims := fmt.Sprintf(`{"sub":%q,"scope":[%q],"iat":%d,"exp":%d}`, user, scope, time.Now().Add(-time.Hour).Unix(), expires.Unix())
	return encode([]byte(`{"alg":"none"}`)) + "." + encode([]byte(claims)) + "."
}

// shareClasses has the JVM take the classes of a broker from an archive beside the jars: a start
// then takes a third less of a processor, and half as long. A broker that is alone makes the
// archive where there is none, by a run of its own, unless another process is at it.
func (p *Process) shareClasses(libs string, alone bool) error {
	archive := filepath.Join(libs, "classes.jsa")
	if !isFile(archive) && alone {
		lock, err := os.Create(archive + ".lock")
		if err != nil {
			return err // the formatted storage, too, is kept there
		}
		defer lock.Close()
		if syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil && !isFile(archive) {
			run, made := *p, archive+".new"
			run.args = slices.Insert(slices.Clone(p.args), 1, "-XX:ArchiveClassesAtExit="+made)
			if err := run.start(); err != nil {
				return err
			}
			run.Stop()
			_ = os.Rename(made, archive) // without one the starts take longer
		}
	}
	if isFile(archive) {
		// One that does not fit the JVM is left aside, with a line in the log.
		p.args = slices.Insert(p.args, 1, "-XX:SharedArchiveFile="+archive)
	}
	return nil
}
