package kafka

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/segmentio/kafka-go/protocol"
	"github.com/twmb/franz-go/pkg/kmsg"

	"example.org/bridge/internal/option"
	"example.org/bridge/sink"
)

// dial connects to a broker, with TLS where that is configured.
func (c *cluster) dial(ctx context.Context, network, address string) (net.Conn, error) {
	raw, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, c.advertised(address, err)
	}
	if c.options.TLS != nil {
		secure, err := c.handshake(ctx, raw, address)
		if err != nil {
			err = option.Errorf("TLS with broker %s: %w: see that this listener speaks TLS (%s), with a certificate that %s trusts", address, err, option.KafkaTLS, option.KafkaTLSCA)
			return nil, errors.Join(c.advertised(address, err), raw.Close())
		}
		raw = secure
	}
	wrapped := &conn{Conn: raw, cluster: c, address: address, login: loginWatch{over: c.options.SASL == nil}}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.life.Err() != nil {
		return nil, errors.Join(sink.ErrClosed, raw.Close())
	}
	c.conns[wrapped] = struct{}{}
	return wrapped, nil
}

// advertised adds to an error about a broker where its address comes from, unless that was
// configured.
func (c *cluster) advertised(address string, err error) error {
	if slices.Contains(c.options.Brokers, address) {
		return err
	}
	return &advertisedError{address, err}
}

// advertisedError says that a broker cannot be used at the address that it tells clients.
type advertisedError struct {
	address string
	err     error
}

func (e *advertisedError) Error() string {
	return fmt.Sprintf("broker %s cannot be used, which the cluster advertises (advertised.listeners): %v: have the brokers advertise an address that this host resolves and reaches", e.address, e.err)
}

func (e *advertisedError) Unwrap() error { return e.err }

func (c *cluster) handshake(ctx context.Context, raw net.Conn, address string) (net.Conn, error) {
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

// conn is a connection that the cluster can close, that never waits without a deadline (kafka-go
// sets none while it logs in), and that tells when what it talks to is no broker.
type conn struct {
	net.Conn
	cluster *cluster
	address string
	limited atomic.Bool
	login   loginWatch
	// head are the first bytes of the first answer: its size. wrote says that a request has gone
	// out since the last answer, answers counts these.
	head    []byte
	wrote   atomic.Bool
	answers int
}

func (c *conn) SetDeadline(t time.Time) error {
	c.limited.Store(!t.IsZero())
	return c.Conn.SetDeadline(t)
}

func (c *conn) Read(b []byte) (int, error) {
	if !c.limited.Load() {
		if err := c.Conn.SetReadDeadline(time.Now().Add(answerWithin)); err != nil {
			return 0, err
		}
	}
	n, err := c.Conn.Read(b)
	if n > 0 && c.wrote.Swap(false) {
		c.answers++
	}
	if unfit := c.unfit(b[:n], err); unfit != nil {
		return 0, c.cluster.advertised(c.address, unfit)
	}
	if !c.login.over {
		if lifetime := c.login.read(b[:n]); lifetime > 0 {
			c.cluster.lasts(lifetime)
		}
	}
	return n, err
}

// unfit returns an error where what was read first, or that nothing was, shows that no broker
// answers with this configuration. Any other server than Kafka sends what would be a huge size. A
// broker that wants a login tells its versions, and closes the connection at the next request.
func (c *conn) unfit(b []byte, err error) error {
	if missing := sizePrefix - len(c.head); missing > 0 {
		c.head = append(c.head, b[:min(len(b), missing)]...)
	}
	switch {
	case c.answers > 1:
		return nil
	case len(c.head) == sizePrefix && binary.BigEndian.Uint32(c.head) > largestFirst:
		if c.head[0] == tlsAlert && c.head[1] == tlsMajor {
			return option.Errorf("the listener %s speaks TLS: set %s=true", c.address, option.KafkaTLS)
		}
		return option.Errorf("what listens at %s is not Kafka: it answers %q: correct %s", c.address, firstLine(b), option.SinkURL)
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
		return option.Errorf("what listens at %s closes the connection without an answer (%v): unless it is just starting or stopping, it wants TLS (%s) or a login (%s), or is not Kafka", c.address, err, option.KafkaTLS, option.KafkaSASLMechanism)
	}
	if late, ok := errors.AsType[net.Error](err); ok && late.Timeout() && len(c.head) == 0 {
		return fmt.Errorf("what listens at %s takes the connection and does not answer: the broker hangs, or it is not Kafka: %w", c.address, err)
	}
	return nil
}

const (
	// largestFirst bounds the first answer of a broker, which is about versions or a login.
	largestFirst = 16 << 20
	// tlsAlert and tlsMajor begin the record by which TLS refuses what is not TLS.
	tlsAlert, tlsMajor = 0x15, 0x03
)

// firstLine returns what can be shown of an answer that is not understood.
func firstLine(b []byte) string {
	const most = 60
	line, _, _ := strings.Cut(string(b[:min(len(b), most)]), "\n")
	return strings.TrimSpace(line)
}

func (c *conn) Write(b []byte) (int, error) {
	if !c.login.over {
		c.login.wrote(b)
	}
	c.wrote.Store(true)
	return c.Conn.Write(b)
}

func (c *conn) Close() error {
	c.cluster.mu.Lock()
	delete(c.cluster.conns, c)
	c.cluster.mu.Unlock()
	return c.Conn.Close()
}

// shortestSession bounds how often connections are replaced when sessions are short.
const shortestSession = time.Second

// renewalOf returns after what time of a session to connect again. Brokers close a connection at
// the first request after its end.
func renewalOf(lifetime time.Duration) time.Duration { return max(lifetime*4/5, shortestSession) }

// loginWatch reads from the bytes of a login how long the session lasts (KIP-368), which kafka-go
// does not tell. A login has one request on the way at a time.
type loginWatch struct {
	// request is the beginning of the request on its way: size, key and version. answer is what has
	// come of its answer.
	request, answer []byte
	// over says that the login has ended, or is none that can be read.
	over bool
}

const (
	// longestLogin bounds the bytes of one answer.
	longestLogin = 64 << 10
	// maxSession stands for all longer sessions.
	maxSession = 365 * 24 * time.Hour
)

// wrote notes bytes of a request.
func (w *loginWatch) wrote(b []byte) {
	if w.answer != nil {
		w.request, w.answer = nil, nil
	}
	w.request = append(w.request, b[:min(len(b), 8-len(w.request))]...)
}

// read notes bytes of an answer and returns the lifetime of the session, 0 where they do not tell.
func (w *loginWatch) read(b []byte) time.Duration {
	if w.over || len(b) == 0 {
		return 0
	}
	w.answer = append(w.answer, b...)
	var key protocol.ApiKey
	if len(w.request) == 8 {
		key = protocol.ApiKey(binary.BigEndian.Uint16(w.request[4:]))
	}
	switch key {
	case protocol.SaslAuthenticate, protocol.ApiVersions, protocol.SaslHandshake:
		w.over = len(w.answer) > longestLogin
	default:
		w.over = true
	}
	if w.over {
		w.request, w.answer = nil, nil
	}
	if key != protocol.SaslAuthenticate || len(w.answer) < 8 || uint64(binary.BigEndian.Uint32(w.answer)) != uint64(len(w.answer)-4) {
		return 0
	}
	// Behind the size comes the correlation id. Only version 1 tells.
	res := kmsg.SASLAuthenticateResponse{Version: int16(binary.BigEndian.Uint16(w.request[6:]))}
	if res.Version != 1 || res.ReadFrom(w.answer[8:]) != nil || res.ErrorCode != 0 {
		return 0
	}
	return time.Duration(min(uint64(res.SessionLifetimeMillis), uint64(maxSession.Milliseconds()))) * time.Millisecond
}
