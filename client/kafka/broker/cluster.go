package broker

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/segmentio/kafka-go/sasl/scram"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// AnswerWithin bounds one request from the first byte to the answer, connecting included.
	AnswerWithin = 15 * time.Second
	// ConnectWithin bounds connecting, TLS and the first answers included, but for a login: what is
	// wrong with an address is known within 5 s.
	ConnectWithin = 4 * time.Second
	// LayoutAge is how old the transport lets its view of the cluster become at most.
	LayoutAge = 5 * time.Second
	// renewEvery keeps workers that fail one after another from dropping the connections of all
	// others again and again.
	renewEvery = 100 * time.Millisecond
)

var ErrNoAnswer = fmt.Errorf("no answer within %v", AnswerWithin)

// Cluster sends requests to brokers. It wraps a kafka-go transport, which keeps connections and
// knows the leaders, and replaces it when that knowledge is found to be old: kafka-go refreshes it
// by time only (segmentio/kafka-go#1221).
type Cluster struct {
	options *Options
	Addr    net.Addr
	// life ends with the bus.
	life context.Context
	// throttled is until when a broker has this client wait, in ms since 1970.
	throttled atomic.Int64
	// readings counts the calls of [Reader.Read] that are under way.
	readings atomic.Int64

	mu        sync.Mutex
	transport *kafkago.Transport
	// from are the addresses of the brokers that transport learns the others from.
	from       net.Addr
	generation int
	renewed    time.Time
	// addresses are those of the brokers that the cluster has, true where one was reached.
	// leaders are those of partitions, by TP.
	addresses map[string]bool
	leaders   map[string]leader
	// renewAt is when the first of the sessions is about to end, zero where none does.
	renewAt time.Time
	// refusal is how the last refused login was answered, at refusedAt.
	refusal   error
	refusedAt time.Time

	topics []string
	conns  map[*conn]struct{}
}

// NewCluster returns a cluster that lasts until life ends, by options that were checked. It does
// not touch the network.
func NewCluster(life context.Context, opts *Options) *Cluster {
	c := &Cluster{
		options: opts, Addr: kafkago.TCP(opts.Brokers...), life: life,
		// Not nil, which would mean all topics of the cluster.
		topics: []string{}, conns: make(map[*conn]struct{}), leaders: make(map[string]leader),
	}
	c.transport, c.from = c.newTransport(), c.Addr
	return c
}

func (c *Cluster) newTransport() *kafkago.Transport {
	return &kafkago.Transport{
		Dial:           c.Dial,
		DialTimeout:    AnswerWithin,
		MetadataTTL:    LayoutAge,
		MetadataTopics: slices.Clone(c.topics),
		ClientID:       c.options.ClientID,
		Context:        c.life,
	}
}

// RoundTrip sends a request to the broker it belongs to. It also returns the generation of the view
// of the cluster that it went by. A cancelled request may still be read from memory by the
// transport, and may still reach the broker.
func (c *Cluster) RoundTrip(ctx context.Context, req protocol.Message) (protocol.Message, int, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, AnswerWithin, ErrNoAnswer)
	defer cancel()
	c.mu.Lock()
	if !c.renewAt.IsZero() && time.Now().After(c.renewAt) {
		// A request that meets the end of a session is a fault, and may leave the outcome of a
		// transaction unknown.
		c.replace()
	}
	transport, generation, at := c.transport, c.generation, c.from
	c.mu.Unlock()
	res, err := transport.RoundTrip(ctx, at, req)
	return res, generation, c.Understood(ctx, err)
}

// Throttled notes that a broker takes no request of this client for some ms.
func (c *Cluster) Throttled(ms int32) { c.throttled.Store(time.Now().UnixMilli() + int64(ms)) }

// Understood returns the error of a request with its cause, if known: a refused login may have a
// token that has expired, a quota may be used up.
func (c *Cluster) Understood(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	throttled := time.Until(time.UnixMilli(c.throttled.Load()))
	if verdictOf(err) == (verdict{Remedy: Reroute, reach: allTopics}) && throttled > 0 {
		return fmt.Errorf("the brokers let this client wait for %s, as its quota is used up (producer_byte_rate): %w", throttled.Round(time.Second), err)
	}
	if c.options.SASL == nil || c.options.SASL.Token == nil || !errors.Is(err, kafkago.SASLAuthenticationFailed) {
		return err
	}
	token, tokenErr := c.options.SASL.Token()
	if tokenErr != nil {
		return fmt.Errorf("%w; now the SASL token cannot be read: %w", err, tokenErr)
	}
	if expiry := expiryOf(token); !expiry.IsZero() && expiry.Before(time.Now()) {
		return fmt.Errorf("%w; the token expired at %s: replace it", err, expiry.UTC().Format(time.RFC3339))
	}
	return err
}

// Renew drops the view of the cluster, and all connections once they are idle, unless somebody did
// so since generation.
func (c *Cluster) Renew(generation int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if generation == c.generation && time.Since(c.renewed) >= renewEvery {
		c.replace()
	}
}

// Follow has the view of the cluster include topics.
func (c *Cluster) Follow(topics []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := len(c.topics)
	for _, topic := range topics {
		if i, found := slices.BinarySearch(c.topics, topic); !found {
			c.topics = slices.Insert(c.topics, i, topic)
		}
	}
	if len(c.topics) > known {
		c.replace()
	}
}

// replace also has any broker that was reached tell of the others: those of the options may be
// away.
func (c *Cluster) replace() {
	old, from := c.transport, slices.Clone(c.options.Brokers)
	for address, reached := range c.addresses {
		if reached && !slices.Contains(from, address) {
			from = append(from, address)
		}
	}
	c.transport, c.from = c.newTransport(), kafkago.TCP(from...)
	c.generation++
	c.renewed, c.renewAt = time.Now(), time.Time{}
	old.CloseIdleConnections()
}

// leader is what was told last of the leader of a partition: the id of its topic, and the epoch.
type leader struct {
	id    string
	epoch int32
	// older counts the views in succession that had an older one, at is the last of these.
	older, at int
}

// believedAfter is how many views with an older leader are passed over: a cluster that was restored
// has no others.
const believedAfter = 8

// learn notes where brokers are, and who leads partitions. The error says that the broker which
// tells of them knows less than another one did: cut off from the others, it would be asked, and
// taken for the leader, for as long as it answers.
func (c *Cluster) learn(found *kmsg.MetadataResponse, generation int) (behind error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	addresses := make(map[string]bool, len(found.Brokers))
	for _, b := range found.Brokers {
		address := net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port)))
		addresses[address] = c.addresses[address]
	}
	c.addresses = addresses
	for i := range found.Topics {
		t := &found.Topics[i]
		id := IDOf(t)
		for _, p := range t.Partitions {
			tp := TPName(NameOf(t), p.Partition)
			was := c.leaders[tp]
			switch {
			case id == "" || p.LeaderEpoch < 0:
			case was.id == id && p.LeaderEpoch < was.epoch && was.older < believedAfter:
				if was.at != generation {
					was.older, was.at = was.older+1, generation
				}
				c.leaders[tp] = was
				behind = fmt.Errorf("a broker names a leader of %s that another one has followed: it is behind the other brokers, or cut off from them", tp)
			default:
				c.leaders[tp] = leader{id: id, epoch: p.LeaderEpoch}
			}
		}
	}
	return behind
}

// Close drops all connections, also those in use.
func (c *Cluster) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.transport.CloseIdleConnections()
	for conn := range c.conns {
		// A connection that breaks while being closed is as good as closed.
		_ = conn.Conn.Close()
	}
}

// Dialer returns what connects kafka-go's own clients, by TLS and SASL of the options. Close drops
// these connections, too.
func (c *Cluster) Dialer() *kafkago.Dialer {
	return &kafkago.Dialer{ClientID: c.options.ClientID, Timeout: AnswerWithin, DialFunc: c.Dial}
}

// Options say how to reach a cluster.
type Options struct {
	// Brokers are host:port of one or more brokers, from which the others are learned. Required.
	Brokers []string
	// ClientID names the program in the brokers' logs and quotas.
	ClientID string
	// TLS returns the configuration of each new connection, so that certificates can be replaced
	// while the program runs. An empty ServerName becomes the broker's host. Nil means no TLS.
	TLS func() (*tls.Config, error)
	// SASL is the login. Nil means none.
	SASL *SASL
	// GiveUpAfter bounds how long a [Reader] waits for brokers that do not answer, or for messages
	// before an end that was given; a login that is refused is then an error at once. Zero means
	// for ever.
	GiveUpAfter time.Duration
	// Errorf makes errors of a format and arguments among which a [Setting] may be. Defaults to
	// fmt.Errorf.
	Errorf func(format string, args ...any) error
}

// Setting is an option that an error tells a person to change.
type Setting string

// The settings that errors name.
const (
	SettingBrokers   Setting = "Options.Brokers"
	SettingTLS       Setting = "Options.TLS"
	SettingTLSCA     Setting = "the certificates of Options.TLS"
	SettingMechanism Setting = "Options.SASL"
)

// Check sets defaults and refuses what cannot work.
func (o *Options) Check() error {
	if o.Errorf == nil {
		o.Errorf = fmt.Errorf
	}
	if len(o.Brokers) == 0 {
		return errors.New("kafka: no broker is given")
	}
	if o.SASL != nil {
		return o.SASL.Check()
	}
	return nil
}

// SASL mechanisms.
const (
	Plain       = "PLAIN"
	ScramSHA256 = "SCRAM-SHA-256"
	ScramSHA512 = "SCRAM-SHA-512"
	OAuthBearer = "OAUTHBEARER"
)

// Mechanisms lists the SASL mechanisms.
var Mechanisms = []string{Plain, ScramSHA256, ScramSHA512, OAuthBearer}

// SASL is a login.
type SASL struct {
	// Mechanism is one of Mechanisms.
	Mechanism string
	// Username may be empty only if the broker takes that. OAuthBearer has none.
	Username string
	// Password is asked at every connect, so that it can change while the program runs.
	Password func() (string, error)
	// Token returns the access token of OAuthBearer, a JWT or an opaque one. It is asked at every
	// connect.
	Token func() (string, error)
	// Custom is a mechanism that is implemented elsewhere, in place of all others. Optional.
	Custom sasl.Mechanism
}

func (s *SASL) Check() error {
	switch {
	case s.Custom != nil:
		return nil
	case !slices.Contains(Mechanisms, s.Mechanism):
		return fmt.Errorf("kafka: unknown SASL mechanism %q: use one of %q", s.Mechanism, Mechanisms)
	case s.Mechanism == OAuthBearer && s.Token == nil:
		return errors.New("kafka: OAUTHBEARER needs a token")
	case s.Mechanism != OAuthBearer && s.Password == nil:
		return errors.New("kafka: SASL needs a password")
	}
	return nil
}

// start begins the login of a connection, and returns what to send first.
func (s *SASL) start(ctx context.Context) (sasl.StateMachine, []byte, error) {
	switch {
	case s.Custom != nil:
		return s.Custom.Start(ctx)
	case s.Mechanism == OAuthBearer:
		token, err := s.Token()
		if err != nil {
			return nil, nil, fmt.Errorf("read the SASL token: %w", err)
		}
		if !IsToken(token) {
			return nil, nil, errors.New("the SASL token holds white space or a character that no token has: write the token alone")
		}
		return &bearerLogin{}, []byte("n,,\x01auth=Bearer " + token + "\x01\x01"), nil
	}
	password, err := s.Password()
	if err != nil {
		return nil, nil, fmt.Errorf("read the SASL password: %w", err)
	}
	if s.Mechanism == Plain {
		return plain.Mechanism{Username: s.Username, Password: password}.Start(ctx)
	}
	algorithm := scram.SHA256
	if s.Mechanism == ScramSHA512 {
		algorithm = scram.SHA512
	}
	login, err := scram.Mechanism(algorithm, s.Username, password)
	if err != nil {
		// The library's error quotes a character of the password.
		return nil, nil, errors.New("the SASL user name or password holds a character that SCRAM does not allow")
	}
	return login.Start(ctx)
}

// IsToken reports whether text has the form of a bearer token (RFC 6750, b64token).
func IsToken(text string) bool {
	const allowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~+/="
	return text != "" && !strings.ContainsFunc(text, func(r rune) bool { return !strings.ContainsRune(allowed, r) })
}

// bearerLogin is one exchange of OAUTHBEARER (RFC 7628), as Kafka has it (KIP-255).
type bearerLogin struct{ refusal error }

// Next implements sasl.StateMachine. A refusal comes as a message of the server, which goes on with
// its error when that is acknowledged.
func (l *bearerLogin) Next(_ context.Context, challenge []byte) (bool, []byte, error) {
	if l.refusal != nil {
		return false, nil, l.refusal
	}
	if len(challenge) == 0 {
		return true, nil, nil
	}
	l.refusal = refusalOf(challenge)
	return false, []byte{1}, nil
}

// refusalOf returns the error of RFC 7628, section 3.2.2.
func refusalOf(message []byte) error {
	var answer struct{ Status, Scope string }
	if json.Unmarshal(message, &answer) != nil || answer.Status == "" {
		return kafkago.SASLAuthenticationFailed
	}
	if answer.Scope != "" {
		return fmt.Errorf("%w: status %q, the token needs the scope %q", kafkago.SASLAuthenticationFailed, answer.Status, answer.Scope)
	}
	return fmt.Errorf("%w: status %q", kafkago.SASLAuthenticationFailed, answer.Status)
}

// expiryOf returns when a JWT expires by its own account, zero where it does not tell.
func expiryOf(token string) time.Time {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return time.Time{}
	}
	text, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(parts[1], "="))
	var claims struct {
		Exp float64 `json:"exp"`
	}
	if err != nil || json.Unmarshal(text, &claims) != nil || claims.Exp <= 0 || claims.Exp > 1<<40 {
		return time.Time{}
	}
	return time.Unix(int64(claims.Exp), 0)
}
