package broker

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/sasl"
	"github.com/twmb/franz-go/pkg/kmsg"

	"example.org/bridge/client/bus"
)

const (
	// loginWithin bounds a login. With connectWithin it is less than answerWithin, whose end would
	// hide the cause.
	loginWithin = 10 * time.Second
	// refusedFor is how long a refused login counts for all brokers: kafka-go walks over all
	// addresses until a dial succeeds, and each refusal brings the user closer to a lockout.
	refusedFor = 250 * time.Millisecond
)

// Dial connects to a broker, with TLS and a login where these are configured.
func (c *Cluster) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	c.mu.Lock()
	refusal, ago := c.refusal, time.Since(c.refusedAt)
	c.mu.Unlock()
	if refusal != nil && ago < refusedFor {
		return nil, refusal
	}
	connecting, cancel := context.WithTimeout(ctx, ConnectWithin)
	defer cancel()
	raw, err := new(net.Dialer).DialContext(connecting, network, address)
	if err != nil {
		return nil, c.advertised(address, err)
	}
	held := &conn{Conn: raw, cluster: c}
	c.mu.Lock()
	c.conns[held] = struct{}{}
	c.mu.Unlock()
	if c.life.Err() != nil {
		// Close may not have seen it.
		return nil, errors.Join(bus.ErrClosed, held.Close())
	}
	ready := net.Conn(held)
	if c.options.TLS != nil {
		if ready, err = c.handshake(connecting, held, address); err != nil {
			err = c.options.Errorf("TLS with broker %s: %w: see that this listener speaks TLS (%s), with a certificate that %s trusts", address, err, SettingTLS, SettingTLSCA)
		}
	}
	w := &wire{ReadWriter: ready, clientID: c.options.ClientID, longest: largestFirst}
	if err == nil {
		until, _ := connecting.Deadline()
		if err = ready.SetDeadline(until); err == nil {
			err = c.negotiate(w, address)
		}
	}
	if err != nil {
		return nil, errors.Join(c.advertised(address, err), held.Close())
	}
	if err = ready.SetDeadline(time.Time{}); err == nil && c.options.SASL != nil {
		err = c.logInWithin(ctx, w, ready, address)
	}
	if err != nil {
		return nil, errors.Join(err, held.Close())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, is := c.addresses[address]; is {
		c.addresses[address] = true
	}
	return ready, nil
}

// advertised adds to an error about a broker where its address comes from, unless that was
// configured, or a broker was reached there. One that answers is where it says.
func (c *Cluster) advertised(address string, err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, answers := errors.AsType[*brokerError](err); answers || c.addresses[address] || slices.Contains(c.options.Brokers, address) {
		return err
	}
	return &AdvertisedError{address, err}
}

// AdvertisedError says that a broker cannot be used at the address that it tells clients.
type AdvertisedError struct {
	address string
	Err     error
}

func (e *AdvertisedError) Error() string {
	return fmt.Sprintf("broker %s cannot be used, which the cluster advertises (advertised.listeners): %v: have the brokers advertise an address that this host resolves and reaches", e.address, e.Err)
}

func (e *AdvertisedError) Unwrap() error { return e.Err }

func (c *Cluster) handshake(ctx context.Context, raw net.Conn, address string) (net.Conn, error) {
	config, err := c.options.TLS()
	if err != nil {
		return nil, err
	}
	if config.ServerName == "" {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		config = config.Clone()
		config.ServerName = host
	}
	secure := tls.Client(raw, config)
	return secure, secure.HandshakeContext(ctx)
}

// negotiate exchanges the first two requests. Their errors say where no broker answers with this
// configuration: any other server than Kafka sends what would be a huge size, and a broker that
// wants a login tells its versions, and closes the connection at the next request.
func (c *Cluster) negotiate(w *wire, address string) error {
	next := kmsg.Request(&kmsg.MetadataRequest{Version: 7, Topics: []kmsg.MetadataRequestTopic{}})
	if c.options.SASL != nil {
		mechanism := c.options.SASL.Mechanism
		if custom := c.options.SASL.Custom; custom != nil {
			mechanism = custom.Name()
		}
		next = &kmsg.SASLHandshakeRequest{Version: 1, Mechanism: mechanism}
	}
	res, err := w.exchange(kmsg.NewPtrApiVersionsRequest())
	if err == nil {
		w.versions = make(map[int16]int16)
		for _, k := range res.(*kmsg.ApiVersionsResponse).ApiKeys {
			w.versions[k.ApiKey] = k.MaxVersion
		}
		if newest, known := w.versions[next.Key()]; known {
			next.SetVersion(min(next.GetVersion(), newest))
		}
		w.head = nil
		res, err = w.exchange(next)
	}
	late, timed := errors.AsType[net.Error](err)
	switch {
	case err == nil:
	case len(w.head) >= 4 && binary.BigEndian.Uint32(w.head) > largestFirst:
		if w.head[0] == tlsAlert && w.head[1] == tlsMajor {
			return c.options.Errorf("the listener %s speaks TLS: set %s=true", address, SettingTLS)
		}
		// What cannot be read of it is not shown.
		more := make([]byte, 60)
		n, _ := w.Read(more)
		line, _, _ := strings.Cut(string(append(w.head, more[:n]...)), "\n")
		return c.options.Errorf("what listens at %s is not Kafka: it answers %q: correct %s", address, strings.TrimSpace(line), SettingBrokers)
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
		return c.options.Errorf("what listens at %s closes the connection without an answer (%v): unless it is just starting or stopping, it wants TLS (%s) or a login (%s), or is not Kafka", address, err, SettingTLS, SettingMechanism)
	case timed && late.Timeout() && len(w.head) == 0:
		return c.options.Errorf("what listens at %s takes the connection and does not answer: the broker hangs, or it is not Kafka, then correct %s: %w", address, SettingBrokers, err)
	}
	if shaken, ok := res.(*kmsg.SASLHandshakeResponse); ok && err == nil {
		return Answer(shaken.ErrorCode, "")
	}
	return err
}

const (
	// largestFirst bounds the answers of a broker about versions or a login.
	largestFirst = 16 << 20
	// tlsAlert and tlsMajor begin the record by which TLS refuses what is not TLS.
	tlsAlert, tlsMajor = 0x15, 0x03
	// shortestSession bounds how often connections are replaced when sessions are short, maxSession
	// stands for all longer sessions.
	shortestSession = time.Second
	maxSession      = 365 * 24 * time.Hour
)

// logInWithin is logIn within loginWithin and ctx. It notes that the broker refuses the login.
func (c *Cluster) logInWithin(ctx context.Context, w *wire, ready net.Conn, address string) error {
	limited, cancel := context.WithTimeout(ctx, loginWithin)
	defer cancel()
	until, _ := limited.Deadline()
	err := ready.SetDeadline(until)
	// What waits for an answer ends with ctx.
	stop := context.AfterFunc(ctx, func() { _ = ready.SetDeadline(time.Unix(1, 0)) })
	if err == nil {
		err = c.logIn(limited, w, address)
	}
	switch ended := !stop(); {
	case ended && (err == nil || errors.Is(ctx.Err(), context.Canceled)):
		return context.Cause(ctx)
	case err == nil:
		return ready.SetDeadline(time.Time{})
	case errors.Is(err, kafkago.SASLAuthenticationFailed):
		c.mu.Lock()
		c.refusal, c.refusedAt = err, time.Now()
		c.mu.Unlock()
	}
	return err
}

// logIn authenticates a connection behind the handshake, and has the cluster connect again before
// the session ends (KIP-368): a broker closes the connection at the first request behind that.
// kafka-go's own login does not tell how long it lasts.
func (c *Cluster) logIn(ctx context.Context, w *wire, address string) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		return err
	}
	newest, known := w.versions[int16(kmsg.SASLAuthenticate)]
	if !known {
		return fmt.Errorf("log in at %s: %w", address, ErrTooOld)
	}
	login, text, err := c.options.SASL.start(sasl.WithMetadata(ctx, &sasl.Metadata{Host: host, Port: number}))
	for done := false; err == nil && !done; {
		var res kmsg.Response
		res, err = w.exchange(&kmsg.SASLAuthenticateRequest{Version: min(1, newest), SASLAuthBytes: text})
		if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) {
			return fmt.Errorf("broker %s closes the connection during the login: it is stopping, or its log says why: %w", address, err)
		}
		if late, timed := errors.AsType[net.Error](err); timed && late.Timeout() {
			return fmt.Errorf("broker %s does not answer the login in time: see its log, and whether what it asks about logins (LDAP, OAuth) answers: %w", address, err)
		}
		if err != nil {
			return err
		}
		r := res.(*kmsg.SASLAuthenticateResponse)
		message := ""
		if r.ErrorMessage != nil {
			message = *r.ErrorMessage
		}
		if err := Answer(r.ErrorCode, message); err != nil {
			return err
		}
		if ms := r.SessionLifetimeMillis; ms > 0 {
			// The connections are replaced when four fifths of a session are over.
			lasts := time.Duration(min(ms, maxSession.Milliseconds())) * time.Millisecond * 4 / 5
			at := time.Now().Add(max(lasts, shortestSession))
			c.mu.Lock()
			if c.renewAt.IsZero() || at.Before(c.renewAt) {
				c.renewAt = at
			}
			c.mu.Unlock()
		}
		done, text, err = login.Next(ctx, r.SASLAuthBytes)
	}
	return err
}

// conn is a connection that the cluster can close, and that never waits without a deadline:
// kafka-go sets none for some requests of consumer groups.
type conn struct {
	net.Conn
	cluster *Cluster
	limited atomic.Bool
}

func (c *conn) SetDeadline(t time.Time) error {
	c.limited.Store(!t.IsZero())
	return c.Conn.SetDeadline(t)
}

func (c *conn) Read(b []byte) (int, error) {
	if !c.limited.Load() {
		if err := c.Conn.SetReadDeadline(time.Now().Add(AnswerWithin)); err != nil {
			return 0, err
		}
	}
	return c.Conn.Read(b)
}

func (c *conn) Close() error {
	c.cluster.mu.Lock()
	delete(c.cluster.conns, c)
	c.cluster.mu.Unlock()
	return c.Conn.Close()
}
