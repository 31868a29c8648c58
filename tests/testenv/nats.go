package testenv

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"example.org/bridge/sink"
	"example.org/bridge/sink/sinktest"
	"example.org/bridge/tests/must"
)

// NATSServer is a NATS server with JetStream and file storage.
type NATSServer struct {
	// Version is the server's version.
	Version string

	url *url.URL
	// login opens a connection that may do everything.
	login []nats.Option
	// Process is nil for a whole cluster and for a server inside the test, which is inner.
	*Process
	inner   *server.Server
	options *server.Options
}

var sharedNATS shared[*NATSServer]

// NATS returns the server that all tests of the binary share.
func NATS(t testing.TB) *NATSServer {
	t.Helper()
	return sharedNATS.get(t, "NATS", func() (*NATSServer, func(), error) { return newNATS(t, nil) })
}

func StartNATS(t testing.TB, options ...NATSOption) *NATSServer {
	t.Helper()
	return own(t, "NATS", func() (*NATSServer, func(), error) { return newNATS(t, options) })
}

// OwnNATS is StartNATS where real servers are wanted, AnyNATS is NATS, and both are InProcessNATS
// elsewhere, which the race detector makes several times slower.
func OwnNATS(t testing.TB) *NATSServer {
	t.Helper()
	if os.Getenv("BRIDGE_TEST_REAL") == "" {
		return InProcessNATS(t)
	}
	return StartNATS(t)
}

// AnyNATS is for tests that need no settings of the server: see OwnNATS.
func AnyNATS(t testing.TB) *NATSServer {
	t.Helper()
	if os.Getenv("BRIDGE_TEST_REAL") == "" {
		return InProcessNATS(t)
	}
	return NATS(t)
}

func newNATS(t testing.TB, options []NATSOption) (*NATSServer, func(), error) {
	daemon := Cached("bin", "nats-server")
	if !isFile(daemon) {
		return nil, nil, fmt.Errorf("%s: %w", daemon, exec.ErrNotFound)
	}
	return tryPorts("nats", func(dir string) (*NATSServer, *Process, error) {
		s := &NATSServer{url: &url.URL{Scheme: "nats", Host: address(FreePort(t))}}
		lines := fmt.Sprintf("listen: %q\njetstream { store_dir: %q, max_mem: 256M, max_file: 64G }\n", s.url.Host, filepath.Join(dir, "data"))
		for _, o := range options {
			lines += o.lines + "\n"
			if o.login != nil {
				s.login = append(s.login, o.login)
			}
			if o.tls {
				s.url.Scheme = "tls"
			}
		}
		config := filepath.Join(dir, "nats.conf")
		s.Process = &Process{
			name: "nats-server", args: []string{daemon, "-c", config}, log: filepath.Join(dir, "log"), ready: s.identify, data: filepath.Join(dir, "data"),
		}
		return s, s.Process, os.WriteFile(config, []byte(lines), 0o600)
	})
}

func (s *NATSServer) identify(ctx context.Context) error {
	nc, err := nats.Connect(s.url.String(), s.login...)
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	// A request that meets no leader of a cluster gets no answer.
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if _, err := js.AccountInfo(ctx); err != nil {
		return fmt.Errorf("JetStream: %w", err)
	}
	s.Version = nc.ConnectedServerVersion()
	report("real", "nats-server "+s.Version)
	return nil
}

// URL returns the server's address without credentials.
func (s *NATSServer) URL() string { return s.url.String() }

// Addr returns the server's host:port.
func (s *NATSServer) Addr() string { return s.url.Host }

// NATSOption adds to the configuration of a server, and says how the tests get in.
type NATSOption struct {
	lines string
	login nats.Option
	tls   bool
}

// NATSLines adds lines in the server's configuration language, "max_payload: 4096" for instance.
func NATSLines(lines ...string) NATSOption { return NATSOption{lines: strings.Join(lines, "\n")} }

// NATSPassword lets in one user with a password.
func NATSPassword(user, password string) NATSOption {
	return NATSOption{fmt.Sprintf("authorization { user: %q, password: %q, timeout: 60 }", user, password), nats.UserInfo(user, password), false}
}

// Reconfigure replaces a text in the configuration, and starts the server again.
func (s *NATSServer) Reconfigure(t testing.TB, former, text string) {
	t.Helper()
	path := s.args[len(s.args)-1]
	writeFile(t, path, bytes.Replace(must.Get(os.ReadFile(path))(t), []byte(former), []byte(text), 1))
	s.Restart(t)
}

// NATSTLS has the server show the certificate in certFile and, with clients, ask for one signed by
// certs.CA.
func NATSTLS(t testing.TB, certs Certs, certFile, keyFile string, clients bool) NATSOption {
	t.Helper()
	client := must.Get(tls.LoadX509KeyPair(certs.ClientCert, certs.ClientKey))(t)
	// The tests' own connections must get in whatever certificate the server shows.
	config := &tls.Config{Certificates: []tls.Certificate{client}, InsecureSkipVerify: true}
	lines := fmt.Sprintf("tls { cert_file: %q, key_file: %q, ca_file: %q, verify: %t, timeout: 60 }", certFile, keyFile, certs.CA, clients)
	return NATSOption{lines, nats.Secure(config), true}
}

// NATSNkey lets in the user whose seed it writes to seedFile.
func NATSNkey(t testing.TB, seedFile string) NATSOption {
	t.Helper()
	user := must.Get(nkeys.CreateUser())(t)
	writeFile(t, seedFile, must.Get(user.Seed())(t))
	public := must.Get(user.PublicKey())(t)
	login := must.Get(nats.NkeyOptionFromSeed(seedFile))(t)
	return NATSOption{fmt.Sprintf("authorization { users: [ { nkey: %q } ], timeout: 60 }", public), login, false}
}

// NATSOperator has the server trust an operator made on the spot and returns with it the file of
// credentials of a user in an account that may use JetStream.
func NATSOperator(t testing.TB) (option NATSOption, creds string) {
	t.Helper()
	dir := t.TempDir()
	operator, system := must.Get(nkeys.CreateOperator())(t), must.Get(nkeys.CreateAccount())(t)
	account, user := must.Get(nkeys.CreateAccount())(t), must.Get(nkeys.CreateUser())(t)
	operatorKey, systemKey := must.Get(operator.PublicKey())(t), must.Get(system.PublicKey())(t)
	accountKey, userKey := must.Get(account.PublicKey())(t), must.Get(user.PublicKey())(t)

	op := jwt.NewOperatorClaims(operatorKey)
	op.SystemAccount = systemKey
	opJWT := must.Get(op.Encode(operator))(t)
	sysJWT := must.Get(jwt.NewAccountClaims(systemKey).Encode(operator))(t)
	acc := jwt.NewAccountClaims(accountKey)
	acc.Limits.JetStreamLimits = jwt.JetStreamLimits{
		MemoryStorage: jwt.NoLimit, DiskStorage: jwt.NoLimit, Streams: jwt.NoLimit, Consumer: jwt.NoLimit,
		MaxAckPending: jwt.NoLimit, MemoryMaxStreamBytes: jwt.NoLimit, DiskMaxStreamBytes: jwt.NoLimit,
	}
	accJWT := must.Get(acc.Encode(operator))(t)
	userJWT := must.Get(jwt.NewUserClaims(userKey).Encode(account))(t)

	creds = filepath.Join(dir, "user.creds")
	writeFile(t, creds, must.Get(jwt.FormatUserConfig(userJWT, must.Get(user.Seed())(t)))(t))
	lines := fmt.Sprintf("operator: %s\nsystem_account: %s\nresolver: MEMORY\nresolver_preload { %[2]s: %[3]s, %[4]s: %[5]s }", opJWT, systemKey, sysJWT, accountKey, accJWT)
	return NATSOption{lines, nats.UserCredentials(creds), false}, creds
}

func writeFile(t testing.TB, path string, content []byte) {
	t.Helper()
	must.OK(t, os.WriteFile(path, content, 0o600))
}

// InProcessNATS starts a server of the NATS library inside the test, with file storage in a folder
// of the test, and stops it when the test ends. It needs nothing installed and takes a few
// milliseconds. It cannot be killed: use StartNATS for that.
func InProcessNATS(t testing.TB, adjust ...func(*server.Options)) *NATSServer {
	t.Helper()
	options := &server.Options{
		ServerName: "test", Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true,
		AuthTimeout: time.Minute.Seconds(),
	}
	for _, f := range adjust {
		f(options)
	}
	inner := must.Get(server.NewServer(options))(t)
	inner.Start()
	t.Cleanup(func() {
		inner.Shutdown()
		inner.WaitForShutdown()
	})
	if !inner.ReadyForConnections(startWithin) {
		t.Fatal("the NATS server inside the test is not ready")
	}
	return &NATSServer{Version: server.VERSION, url: &url.URL{Scheme: "nats", Host: inner.Addr().String()}, inner: inner, options: options}
}

// Reload has a server inside the test take other options, as a signal has another server read its
// configuration again.
func (s *NATSServer) Reload(t testing.TB, change func(*server.Options)) {
	t.Helper()
	s.options = s.options.Clone()
	change(s.options)
	must.OK(t, s.inner.ReloadOptions(s.options))
}

// Connect opens a connection of an administrator, closed when the test ends.
func (s *NATSServer) Connect(t testing.TB) *nats.Conn {
	t.Helper()
	options := append([]nats.Option{nats.MaxReconnects(-1), nats.ReconnectWait(50 * time.Millisecond), nats.Timeout(20 * time.Second)}, s.login...)
	nc := must.Get(nats.Connect(s.url.String(), options...))(t)
	t.Cleanup(nc.Close)
	return nc
}

// As returns the server with another login for Connect.
func (s *NATSServer) As(user, password string) *NATSServer {
	other := *s
	other.login = []nats.Option{nats.UserInfo(user, password)}
	return &other
}

func (s *NATSServer) JetStream(t testing.TB) jetstream.JetStream {
	t.Helper()
	return must.Get(jetstream.New(s.Connect(t), jetstream.WithDefaultTimeout(time.Minute)))(t)
}

var natsStreams atomic.Uint64

// NewStreamName returns a name that no stream of the server has.
func NewStreamName() string {
	return fmt.Sprintf("T%d-%d", os.Getpid(), natsStreams.Add(1))
}

// CreateStream creates a stream with file storage that takes the subjects "<name>.>" unless config
// names others, and deletes it when the test ends. An empty name means a new one.
func (s *NATSServer) CreateStream(t testing.TB, config jetstream.StreamConfig) jetstream.Stream {
	t.Helper()
	if config.Name == "" {
		config.Name = NewStreamName()
	}
	if config.Subjects == nil {
		config.Subjects = []string{config.Name + ".>"}
	}
	js := s.JetStream(t)
	stream := must.Get(CreateStream(t.Context(), js, config))(t)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		// A server that the test has stopped, or a stream that it has deleted, is gone already.
		err := js.DeleteStream(ctx, config.Name)
		if err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
			t.Logf("delete stream %s: %v", config.Name, err)
		}
	})
	return stream
}

// storeFailed is the server's error code for a stream that it could not create, for want of its
// files among other reasons.
const storeFailed = jetstream.ErrorCode(10049)

// CreateStream creates a stream, and tries again for a while when the server could not create its
// files: when an account's last stream is deleted, the server removes the folder of all streams a
// moment later, also under a stream that is being created.
func CreateStream(ctx context.Context, js jetstream.JetStream, config jetstream.StreamConfig) (stream jetstream.Stream, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	// The last try tells how it ended.
	_ = poll(ctx, func() error {
		stream, err = js.CreateStream(ctx, config)
		if refused := new(jetstream.APIError); errors.As(err, &refused) && refused.ErrorCode == storeFailed {
			return err
		}
		return nil
	})
	return stream, err
}

// Consume returns what a stream holds on a subject, all of it where that is empty, in its order.
func Consume(t testing.TB, stream jetstream.Stream, subject string) (all []sinktest.Record) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	config := jetstream.OrderedConsumerConfig{}
	if subject != "" {
		config.FilterSubjects = []string{subject}
	}
	must.OK(t, EachMessage(ctx, stream, config, false, func(m jetstream.Msg) {
		r := sinktest.Record{ID: m.Headers().Get(sink.HeaderID), Value: m.Data(), Headers: make(map[string]string)}
		for name, values := range m.Headers() {
			r.Headers[name] = values[0]
		}
		all = append(all, r)
	}))
	return all
}

// EachMessage hands out what a stream holds of what config selects, in its order, as nats.go reads
// it. follow goes on with what comes until ctx ends.
func EachMessage(ctx context.Context, stream jetstream.Stream, config jetstream.OrderedConsumerConfig, follow bool, each func(jetstream.Msg)) error {
	consumer, err := stream.OrderedConsumer(ctx, config)
	if err != nil {
		return err
	}
	info, err := consumer.Info(ctx)
	if err != nil || info.NumPending == 0 && !follow {
		return err
	}
	messages, err := consumer.Messages()
	if err != nil {
		return err
	}
	defer messages.Stop()
	for left := info.NumPending; follow || left > 0; left-- {
		m, err := messages.Next(jetstream.NextContext(ctx))
		switch {
		case err == nil:
			each(m)
		case !follow || !errors.Is(err, jetstream.ErrNoHeartbeat):
			return err
		}
	}
	return nil
}
