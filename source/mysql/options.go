package mysql

import (
	"cmp"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"strconv"
	"time"

	driver "github.com/go-sql-driver/mysql"
)

// Options say where the server is and how to use it.
type Options struct {
	// Host is the server's name or address. Required.
	Host string
	// Port defaults to 3306.
	Port int
	// User is the login. Required.
	User string
	// Password returns the login's password. It is called at every connect, so that a password may
	// be changed while the source is open; an error of it fails that connect. Nil means no
	// password.
	Password func() (string, error)
	// Database is where tables are that are named without a database. Optional.
	Database string
	// TLS encrypts connections. It is called at every connect, so that certificates may be changed
	// while the source is open; an error of it fails that connect. Nil means plain text. An empty
	// ServerName becomes Host.
	TLS func() (*tls.Config, error)
	// TLSOptional goes on in plain text with a server that offers no TLS. It protects from
	// listeners only.
	TLSOptional bool
	// MaxConns bounds the connections that read at the same time; one more is kept for Ready.
	// Defaults to 8.
	MaxConns int
	// StatementTimeout ends a statement on the server. The client gives up as much later, but 5 s
	// at most. Defaults to 30 s.
	StatementTimeout time.Duration
	// DialTimeout bounds reaching the server; the login after that may take twice as long. Defaults
	// to 5 s.
	DialTimeout time.Duration
	// RefreshEvery is the time after which the columns of a table are read again, with the next
	// page. Defaults to 30 s.
	RefreshEvery time.Duration
	// Logger receives changes of columns and, at Debug, the driver's lines. Defaults to none.
	Logger *slog.Logger
}

const (
	// maxGrace bounds how much longer than the server the client waits for a statement's end.
	maxGrace = 5 * time.Second
	// connLifetime stays below the idle times after which servers and proxies drop connections.
	connLifetime = 3 * time.Minute
)

func (o Options) withDefaults() Options {
	o.Port = cmp.Or(o.Port, 3306)
	o.MaxConns = cmp.Or(o.MaxConns, 8)
	o.StatementTimeout = cmp.Or(o.StatementTimeout, 30*time.Second)
	o.DialTimeout = cmp.Or(o.DialTimeout, 5*time.Second)
	o.RefreshEvery = cmp.Or(o.RefreshEvery, 30*time.Second)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	return o
}

func (o Options) check() error {
	switch {
	case o.Host == "":
		return errors.New("no host")
	case o.User == "":
		return errors.New("no user")
	case o.Port < 1 || o.Port > 65535:
		return errors.New("the port must be 1 to 65535")
	case o.MaxConns < 1:
		return errors.New("MaxConns must be at least 1")
	case o.StatementTimeout < time.Millisecond || o.DialTimeout < time.Millisecond || o.RefreshEvery < 0:
		return errors.New("timeouts must be at least 1ms")
	}
	return nil
}

// answerTimeout is when the client gives up on a statement that the server should have ended.
func (o Options) answerTimeout() time.Duration {
	return o.StatementTimeout + min(o.StatementTimeout, maxGrace)
}

// driverConfig translates o for the driver.
func (o Options) driverConfig() *driver.Config {
	cfg := driver.NewConfig()
	cfg.User, cfg.Net, cfg.Addr = o.User, "tcp", net.JoinHostPort(o.Host, strconv.Itoa(o.Port))
	cfg.DialFunc = dial
	cfg.AllowFallbackToPlaintext = o.TLSOptional
	// Plain text gives the password away, also where a listener in between has taken out TLS.
	cfg.AllowCleartextPasswords = o.TLS != nil && !o.TLSOptional
	cfg.Timeout = o.DialTimeout
	// The deadline of the context, which has a name, comes first.
	cfg.ReadTimeout = o.StatementTimeout + 2*maxGrace
	cfg.WriteTimeout = 2 * maxGrace
	cfg.InterpolateParams = true
	cfg.ConnectionAttributes = "program_name:bridge"
	cfg.Logger = debugLogger{o.Logger}
	return cfg
}

// debugLogger writes the driver's lines, which repeat what its errors say, at Debug.
type debugLogger struct{ logger *slog.Logger }
