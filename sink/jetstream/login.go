package jetstream

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
)

const (
	connectTimeout = 5 * time.Second
	// A peer that does not answer is noticed after pingEvery × 2.
	pingEvery    = 4 * time.Second
	writeTimeout = 5 * time.Second
)

// login collects what is needed for one connection: it reads every file and calls every function of
// o afresh.
func (o *Options) login() ([]nats.Option, error) {
	options := []nats.Option{
		nats.Name(o.Name),
		// A connection is never taken up again: what its buffers still hold must not follow what is
		// sent again.
		nats.NoReconnect(),
		nats.Timeout(connectTimeout), nats.PingInterval(pingEvery), nats.MaxPingsOutstanding(1), nats.FlusherTimeout(writeTimeout),
	}
	if o.InProcess != nil {
		return append(options, nats.InProcessServer(o.InProcess)), nil
	}
	if o.TLS != nil {
		config, err := o.TLS()
		if err != nil {
			return nil, err
		}
		options = append(options, nats.Secure(config))
	}
	if o.HandshakeFirst {
		options = append(options, nats.TLSHandshakeFirst())
	}
	user, err := o.user()
	if err != nil {
		return nil, err
	}
	return append(options, user...), nil
}

func (o *Options) user() ([]nats.Option, error) {
	switch {
	case o.Password != nil:
		user, password, err := o.Password()
		if err != nil {
			return nil, err
		}
		return []nats.Option{nats.UserInfo(user, password)}, nil
	case o.Creds != nil:
		creds, err := o.Creds()
		if err != nil {
			return nil, err
		}
		return []nats.Option{nats.UserCredentialBytes([]byte(creds))}, nil
	case o.NkeySeed != nil:
		seed, err := o.NkeySeed()
		if err != nil {
			return nil, err
		}
		return nkeyUser(seed)
	}
	return o.userInURL(), nil
}

// nkeyUser signs the server's challenges with the key of a seed.
func nkeyUser(seed string) ([]nats.Option, error) {
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

// userInURL takes the login from the first URL that has one.
func (o *Options) userInURL() []nats.Option {
	for _, s := range o.URLs {
		u, err := url.Parse(s)
		if err != nil || u.User == nil {
			continue
		}
		if password, ok := u.User.Password(); ok {
			return []nats.Option{nats.UserInfo(u.User.Username(), password)}
		}
		return []nats.Option{nats.Token(u.User.Username())}
	}
	return nil
}

// bare returns the URLs without a login, so that no error of the library can hold one.
func bare(urls []string) []string {
	var plain []string
	for _, s := range urls {
		if u, err := url.Parse(s); err == nil {
			u.User = nil
			plain = append(plain, u.String())
		}
	}
	return plain
}

// dial connects to one of servers.
func dial(ctx context.Context, servers []string, options []nats.Option) (*nats.Conn, error) {
	d := &dialer{ctx: ctx}
	defer d.closeRest()
	nc, err := nats.Connect(strings.Join(servers, ","), append(slices.Clone(options), nats.SetCustomDialer(d))...)
	if err != nil && d.err != nil && errors.Is(err, nats.ErrNoServers) {
		err = d.err
	}
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", strings.Join(servers, ", "), err)
	}
	return nc, nil
}

// dialer lets ctx end an attempt to connect, which the library knows no way to do.
type dialer struct {
	ctx  context.Context
	mu   sync.Mutex
	stop []func() bool
	err  error
}

// Dial is called by the library, for one address after the other.
func (d *dialer) Dial(network, address string) (net.Conn, error) {
	inner := net.Dialer{Timeout: connectTimeout}
	conn, err := inner.DialContext(d.ctx, network, address)
	d.mu.Lock()
	defer d.mu.Unlock()
	if err != nil {
		d.err = err
		return nil, err
	}
	d.stop = append(d.stop, context.AfterFunc(d.ctx, func() { _ = conn.Close() }))
	return conn, nil
}

// closeRest lets go of the connections when the attempt is over.
func (d *dialer) closeRest() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, stop := range d.stop {
		stop()
	}
}
