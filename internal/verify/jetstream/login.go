package jetstream

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
)

// Options say what to read and how to log in.
type Options struct {
	// URLs are servers of one cluster; a URL may hold user:password or a token.
	URLs []string
	// InProcess makes connections to a server inside this process; URLs are then not used.
	// Optional.
	InProcess nats.InProcessConnProvider
	// Stream is read. Empty: the streams that take the subjects.
	Stream string
	// Subjects are read; wildcards are fine.
	Subjects []string
	// Password, Creds and NkeySeed log in, each optional.
	Password        func() (user, password string, err error)
	Creds, NkeySeed func() (string, error)
	// TLS returns the configuration of encrypted connections. Nil leaves it to the URL and the
	// server.
	TLS func() (*tls.Config, error)
}

const connectWithin = 5 * time.Second

// connect opens a connection that comes back when it is lost. Its errors hold no secret.
func (o *Options) connect(ctx context.Context) (*nats.Conn, error) {
	options := []nats.Option{nats.Name("bridge verify"), nats.Timeout(connectWithin), nats.MaxReconnects(-1), nats.ReconnectWait(200 * time.Millisecond)}
	if o.InProcess != nil {
		return nats.Connect("", append(options, nats.InProcessServer(o.InProcess))...)
	}
	if o.TLS != nil {
		config, err := o.TLS()
		if err != nil {
			return nil, err
		}
		options = append(options, nats.Secure(config))
	}
	login, err := o.login()
	if err != nil {
		return nil, err
	}
	var servers []string
	for _, text := range o.URLs {
		u, err := url.Parse(text)
		if err != nil {
			return nil, fmt.Errorf("a URL of the NATS servers is not of the form nats://host:4222")
		}
		if u.User != nil && login == nil {
			login = fromURL(u.User)
		}
		// No error may hold the login.
		u.User = nil
		servers = append(servers, u.String())
	}
	nc, err := nats.Connect(strings.Join(servers, ","), append(slices.Clone(options), login...)...)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", strings.Join(servers, ", "), err)
	}
	return nc, ctx.Err()
}

func fromURL(user *url.Userinfo) []nats.Option {
	if password, ok := user.Password(); ok {
		return []nats.Option{nats.UserInfo(user.Username(), password)}
	}
	return []nats.Option{nats.Token(user.Username())}
}

func (o *Options) login() ([]nats.Option, error) {
	switch {
	case o.Password != nil:
		user, password, err := o.Password()
		return []nats.Option{nats.UserInfo(user, password)}, err
	case o.Creds != nil:
		creds, err := o.Creds()
		return []nats.Option{nats.UserCredentialBytes([]byte(creds))}, err
	case o.NkeySeed != nil:
		seed, err := o.NkeySeed()
		if err != nil {
			return nil, err
		}
		key, err := nkeys.ParseDecoratedNKey([]byte(seed))
		if err != nil {
			return nil, fmt.Errorf("read the nkey seed: %w", err)
		}
		public, err := key.PublicKey()
		if err != nil {
			return nil, fmt.Errorf("read the nkey seed: %w", err)
		}
		return []nats.Option{nats.Nkey(public, key.Sign)}, nil
	}
	return nil, nil
}
