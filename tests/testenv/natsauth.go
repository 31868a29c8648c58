package testenv

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
)

// NATSOption adds to the configuration of a server.
type NATSOption func(*natsConfig)

type natsConfig struct {
	lines []string
	login []nats.Option
	tls   bool
}

func (c *natsConfig) line(format string, args ...any) {
	c.lines = append(c.lines, fmt.Sprintf(format, args...))
}

// NATSLines adds lines in the server's configuration language, "max_payload: 4096" for instance.
func NATSLines(lines ...string) NATSOption {
	return func(c *natsConfig) { c.lines = append(c.lines, lines...) }
}

// NATSPassword lets in one user with a password.
func NATSPassword(user, password string) NATSOption {
	return func(c *natsConfig) {
		c.line("authorization { user: %q, password: %q, timeout: 60 }", user, password)
		c.login = append(c.login, nats.UserInfo(user, password))
	}
}

// Reconfigure replaces a text in the configuration, and has the server, which runs, read it again.
func (s *NATSServer) Reconfigure(t testing.TB, former, text string) {
	t.Helper()
	path := s.args[len(s.args)-1]
	config := must(os.ReadFile(path))(t)
	if bytes.Count(config, []byte(former)) != 1 {
		t.Fatalf("%q is not once in\n%s", former, config)
	}
	writeFile(t, path, bytes.Replace(config, []byte(former), []byte(text), 1))
	reloads := func() int { return bytes.Count(must(os.ReadFile(s.log))(t), []byte("Reloaded server configuration")) }
	before := reloads()
	s.signal(syscall.SIGHUP)
	ctx, cancel := context.WithTimeout(t.Context(), answerWithin)
	defer cancel()
	check(t, poll(ctx, func() error {
		if reloads() == before {
			return fmt.Errorf("not reloaded:\n%s", s.tail())
		}
		return nil
	}))
}

// NATSTLS has the server show the certificate in certFile and, with clients, ask for one signed by
// certs.CA.
func NATSTLS(t testing.TB, certs Certs, certFile, keyFile string, clients bool) NATSOption {
	t.Helper()
	client := must(tls.LoadX509KeyPair(certs.ClientCert, certs.ClientKey))(t)
	// The tests' own connections must get in whatever certificate the server shows.
	config := &tls.Config{Certificates: []tls.Certificate{client}, InsecureSkipVerify: true}
	return func(c *natsConfig) {
		c.line("tls { cert_file: %q, key_file: %q, ca_file: %q, verify: %t, timeout: 60 }", certFile, keyFile, certs.CA, clients)
		c.tls = true
		c.login = append(c.login, nats.Secure(config))
	}
}

// NATSNkey lets in the user whose seed it writes to seedFile.
func NATSNkey(t testing.TB, seedFile string) NATSOption {
	t.Helper()
	user := must(nkeys.CreateUser())(t)
	writeFile(t, seedFile, must(user.Seed())(t))
	public := must(user.PublicKey())(t)
	return func(c *natsConfig) {
		c.line("authorization { users: [ { nkey: %q } ], timeout: 60 }", public)
		login, err := nats.NkeyOptionFromSeed(seedFile)
		if err != nil {
			login = func(*nats.Options) error { return err }
		}
		c.login = append(c.login, login)
	}
}

// NATSOperator has the server trust an operator made on the spot and returns with it the file of
// credentials of a user in an account that may use JetStream.
func NATSOperator(t testing.TB) (option NATSOption, creds string) {
	t.Helper()
	dir := t.TempDir()
	operator, system := must(nkeys.CreateOperator())(t), must(nkeys.CreateAccount())(t)
	account, user := must(nkeys.CreateAccount())(t), must(nkeys.CreateUser())(t)
	operatorKey, systemKey := must(operator.PublicKey())(t), must(system.PublicKey())(t)
	accountKey, userKey := must(account.PublicKey())(t), must(user.PublicKey())(t)

	op := jwt.NewOperatorClaims(operatorKey)
	op.SystemAccount = systemKey
	opJWT := must(op.Encode(operator))(t)
	sysJWT := must(jwt.NewAccountClaims(systemKey).Encode(operator))(t)
	acc := jwt.NewAccountClaims(accountKey)
	acc.Limits.JetStreamLimits = jwt.JetStreamLimits{
		MemoryStorage: jwt.NoLimit, DiskStorage: jwt.NoLimit, Streams: jwt.NoLimit, Consumer: jwt.NoLimit,
		MaxAckPending: jwt.NoLimit, MemoryMaxStreamBytes: jwt.NoLimit, DiskMaxStreamBytes: jwt.NoLimit,
	}
	accJWT := must(acc.Encode(operator))(t)
	userJWT := must(jwt.NewUserClaims(userKey).Encode(account))(t)

	creds = filepath.Join(dir, "user.creds")
	writeFile(t, creds, must(jwt.FormatUserConfig(userJWT, must(user.Seed())(t)))(t))
	return func(c *natsConfig) {
		c.line("operator: %s", opJWT)
		c.line("system_account: %s", systemKey)
		c.line("resolver: MEMORY")
		c.line("resolver_preload { %s: %s, %s: %s }", systemKey, sysJWT, accountKey, accJWT)
		c.login = append(c.login, nats.UserCredentials(creds))
	}, creds
}

// must returns a function that ends the test when err is not nil.
func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		check(t, err)
		return v
	}
}

func writeFile(t testing.TB, path string, content []byte) {
	t.Helper()
	check(t, os.WriteFile(path, content, 0o600))
}
