package nats

import (
	"bytes"
	"cmp"
	"context"
	"regexp"
	"slices"
	"strings"
	"time"

	"example.org/bridge/internal/buscopy"
	"example.org/bridge/internal/driver"
	"example.org/bridge/internal/option"
	"example.org/bridge/internal/standby"
	standbyjetstream "example.org/bridge/internal/standby/jetstream"
	"example.org/bridge/internal/verify"
	"example.org/bridge/sink"
	"example.org/bridge/sink/jetstream"
)

const title = "NATS JetStream"

// streamSettings are the variables of the stream, which both drivers have.
type streamSettings struct {
	NATSStream                string        `env:"NATS_STREAM" example:"EVENTS" doc:"The JetStream stream for the messages. Required to create it, and for exactly-once. With embedded: the default is BRIDGE."`
	NATSCreateStream          bool          `env:"NATS_CREATE_STREAM" envDefault:"false" doc:"Create that stream if it is missing. embedded: always does."`
	NATSStreamReplicas        int           `env:"NATS_STREAM_REPLICAS" min:"1" max:"5" example:"3" doc:"Replicas of a stream that bridge creates, and of its KV buckets. Default: 1, as with NATS; for buckets 3, or 1 where there are fewer servers. bridge never changes a stream that is there: bridge check compares it with what is set."`
	NATSStreamMaxAge          time.Duration `env:"NATS_STREAM_MAX_AGE" min:"10m" max:"87600h" example:"168h" doc:"How long a stream that bridge creates keeps messages. Default: for ever. What has expired cannot be read back when the checkpoint is lost."`
	NATSStreamMaxBytes        driver.Size   `env:"NATS_STREAM_MAX_BYTES" min:"16MiB" max:"1048576GiB" example:"10GiB" doc:"How many bytes a stream that bridge creates keeps: at that size it drops the oldest messages. Default: no limit but those of the account."`
	NATSStreamStorage         string        `env:"NATS_STREAM_STORAGE" oneof:"file,memory" doc:"Where a stream that bridge creates keeps messages. Default: file. memory loses all that was acknowledged when its servers restart, and is refused with exactly-once."`
	NATSStreamDuplicateWindow time.Duration `env:"NATS_STREAM_DUPLICATE_WINDOW" min:"10s" max:"24h" example:"5m" doc:"For how long a stream that bridge creates remembers message ids and drops repeats. Default: 2m, as with NATS. It costs the server about 114 bytes a message."`
}

type connSettings struct {
	NATSClaimSubject      string `env:"NATS_CLAIM_SUBJECT" example:"events.bridge.claim" doc:"With BRIDGE_DELIVERY=exactly-once, a subject of the stream that no event has: the process that published there last is the one that publishes. Default: bridge.claim. and BRIDGE_DOMAIN_ID. Bridges of one domain with different tables need different ones."`
	NATSDomain            string `env:"NATS_DOMAIN" example:"hub" doc:"The JetStream domain that has the stream, where it is not that of the servers: of a hub behind leaf nodes, say."`
	NATSCreds             string `env:"NATS_CREDS" secret:"true" example:"/etc/bridge/bridge.creds" doc:"Credentials file of the user, or its contents."`
	NATSNKey              string `env:"NATS_NKEY" secret:"true" example:"/etc/bridge/bridge.nk" doc:"File with the NKey seed of the user, or the seed."`
	NATSTLSCA             string `env:"NATS_TLS_CA" example:"/etc/bridge/ca.pem" doc:"PEM file with the certificate authorities to trust, instead of the system's."`
	NATSTLSCert           string `env:"NATS_TLS_CERT" example:"/etc/bridge/cert.pem" doc:"PEM file with the client certificate."`
	NATSTLSKey            string `env:"NATS_TLS_KEY" example:"/etc/bridge/key.pem" doc:"PEM file with the key of the client certificate."`
	NATSTLSHandshakeFirst bool   `env:"NATS_TLS_HANDSHAKE_FIRST" envDefault:"false" doc:"Begin connections with TLS, for servers with handshake_first."`
}

const defaultPort = "4222"

// Driver implements [driver.Shared] and [driver.Readable].
type Driver struct {
	stream streamSettings
	conn   connSettings
	// Options are the options of each connection.
	Options jetstream.Options
}

var (
	_ driver.Shared   = (*Driver)(nil)
	_ driver.Readable = (*Driver)(nil)
)

// New returns the two drivers. They share the variables of the stream.
func New() (*Driver, *Embedded) {
	d := new(Driver)
	return d, &Embedded{stream: &d.stream}
}

func (*Driver) Scheme() string { return "nats" }

func (d *Driver) Settings() []driver.Settings {
	return []driver.Settings{{Title: title, Fields: &d.stream}, {Title: title, Fields: &d.conn}}
}

func (d *Driver) Load(in *driver.Input) driver.BusTraits {
	s, c := &d.stream, &d.conn
	isCreds := func(text string) bool { return strings.Contains(text, "-----BEGIN NATS USER JWT-----") }
	traits := driver.BusTraits{Protocol: "nats", Destinations: driver.Subjects, Transactions: true, LogsOutages: true}
	if strings.ContainsAny(c.NATSDomain, ".*> \t") {
		in.Fault(option.NATSDomain, "invalid JetStream domain: use a name without dots, blanks and wildcards")
	}
	d.Options = jetstream.Options{
		Connection: jetstream.Connection{
			Name: "bridge", Stream: s.NATSStream, HandshakeFirst: c.NATSTLSHandshakeFirst, JetStreamDomain: c.NATSDomain,
			Creds: secret(in, option.NATSCreds, c.NATSCreds, isCreds), NkeySeed: secret(in, option.NATSNKey, c.NATSNKey, seed.MatchString),
		},
		CreateStream: s.NATSCreateStream, Keeps: s.keeping(in),
	}
	files := driver.TLS{CA: c.NATSTLSCA, Cert: c.NATSTLSCert, Key: c.NATSTLSKey}
	if in.TLS("NATS_TLS_", files); files.Given() || c.NATSTLSHandshakeFirst {
		d.Options.TLS = files.Config()
	}
	d.checkStream(in)
	traits.Agreed = map[option.Name]string{option.NATSStream: s.NATSStream, option.NATSClaimSubject: ""}
	switch {
	case in.ExactlyOnce:
		d.Options.Claim = cmp.Or(c.NATSClaimSubject, defaultClaim(in.DomainID))
		traits.Agreed[option.NATSClaimSubject] = d.Options.Claim
	case c.NATSClaimSubject != "":
		in.Warn(option.NATSClaimSubject, "has no effect without %s=exactly-once", option.Delivery)
	}
	a, err := driver.ParseAuthority("nats", in.URL, defaultPort)
	if err != nil {
		in.Fault(option.SinkURL, "%v", err)
		return traits
	}
	traits.Servers, traits.JetStreamDomain = a.Hosts, c.NATSDomain
	d.login(in, &a)
	return traits
}

func (d *Driver) checkStream(in *driver.Input) {
	s, keeps := &d.stream, &d.Options.Keeps
	s.checkName(in)
	if s.NATSStream == "" {
		if in.ExactlyOnce {
			in.Fault(option.NATSStream, "is not set, but %s is exactly-once: name the one stream that takes all messages", option.Delivery)
		}
		if s.NATSCreateStream {
			in.Fault(option.NATSStream, "is not set, but %s is true: name the stream to create", option.NATSCreateStream)
		}
		// Replicas holds for buckets, too.
		for _, one := range []struct {
			name option.Name
			set  bool
		}{
			{option.NATSStreamMaxAge, keeps.MaxAge != 0}, {option.NATSStreamMaxBytes, keeps.MaxBytes != 0},
			{option.NATSStreamStorage, keeps.File || keeps.Memory}, {option.NATSStreamDuplicateWindow, keeps.Duplicates != 0},
		} {
			if one.set {
				in.Warn(one.name, "has no effect without %s", option.NATSStream)
			}
		}
	}
	if in.ProgressOnBus && keeps.Memory {
		in.Warn(option.NATSStreamStorage, "memory, and %s=bus: keeps progress in files: after a restart of the servers the progress names messages that are gone, and release streams stop", option.CheckpointURL)
	}
}

func (d *Driver) login(in *driver.Input, a *driver.Authority) {
	o := &d.Options
	for _, server := range a.Hosts {
		o.URLs = append(o.URLs, "nats://"+server)
	}
	const oneWay = "is one way to log in, and another one is set too: use one of the user in %s, %s and %s"
	if o.NkeySeed != nil && (a.User != nil || o.Creds != nil) {
		in.Fault(option.NATSNKey, oneWay, option.SinkURL, option.NATSCreds, option.NATSNKey)
	}
	if o.Creds != nil && a.User != nil {
		in.Fault(option.NATSCreds, oneWay, option.SinkURL, option.NATSCreds, option.NATSNKey)
	}
	if a.User == nil {
		return
	}
	read, _ := in.Secret(option.SinkURL)
	o.Password = func() (user, password string, err error) {
		text, err := read()
		if err != nil {
			return "", "", err
		}
		a, err := driver.ParseAuthority("nats", text, defaultPort)
		if err != nil {
			return "", "", option.Errorf("%s %w", option.SinkURL, err)
		}
		if a.User == nil {
			return "", "", option.Errorf("%s names no user any more: write nats://user:password@host:port", option.SinkURL)
		}
		user = a.User.Username()
		password, is := a.User.Password()
		if !is {
			user, password = "", user
		}
		in.Hide(password)
		return user, password, nil
	}
	// It cannot fail so shortly after the parse.
	_, _, _ = o.Password()
}

func (s *streamSettings) checkName(in *driver.Input) {
	if strings.ContainsAny(s.NATSStream, ". \t*>/\\") {
		in.Fault(option.NATSStream, `invalid stream name: use no white space and none of . * > / \`)
	}
}

// keeping checks how a stream that is created keeps messages. After a fault it keeps nothing.
func (s *streamSettings) keeping(in *driver.Input) jetstream.Keeping {
	if in.Faulty(option.NATSStreamReplicas, option.NATSStreamMaxAge, option.NATSStreamMaxBytes, option.NATSStreamStorage, option.NATSStreamDuplicateWindow) {
		return jetstream.Keeping{}
	}
	k := jetstream.Keeping{
		Replicas: s.NATSStreamReplicas, MaxAge: s.NATSStreamMaxAge, MaxBytes: int64(s.NATSStreamMaxBytes),
		File: s.NATSStreamStorage == "file", Memory: s.NATSStreamStorage == "memory", Duplicates: s.NATSStreamDuplicateWindow,
	}
	switch {
	case k.Memory && in.ExactlyOnce:
		in.Fault(option.NATSStreamStorage, "is memory, which loses what was acknowledged when its servers restart, and %s is exactly-once, which promises that nothing is lost: use file, or at-least-once", option.Delivery)
	case k.Memory:
		in.Warn(option.NATSStreamStorage, "memory loses all messages when the servers of the stream restart: capability streams are published again then, and release streams stop until a person decides")
	}
	if k.Duplicates > k.MaxAge && k.MaxAge > 0 {
		in.Fault(option.NATSStreamDuplicateWindow, "is longer than %s, which no server takes: use at most %s", option.NATSStreamMaxAge, k.MaxAge)
	}
	return k
}

// defaultClaim returns the subject of claims for a domain, whose dots separate tokens.
func defaultClaim(domain string) string {
	claim := []byte("bridge.claim")
	for token := range strings.SplitSeq(domain, ".") {
		claim = sink.EscapeToken(append(claim, '.'), token)
	}
	return string(claim)
}

var seed = regexp.MustCompile(`S[UA-Z][A-Z2-7]{56,}`)

// secret checks a secret that may stand in the variable itself, in the file that the variable names
// as the tools of NATS have it, or in the one that its _FILE twin names. It returns nil when none
// is set.
func secret(in *driver.Input, name option.Name, value string, is func(string) bool) driver.Secret {
	if value == "" || in.Faulty(name) {
		return nil
	}
	read, inFile := in.Secret(name)
	if !inFile && !is(value) {
		read = func() (string, error) {
			text, err := driver.ReadFile(value)
			if err != nil {
				return "", option.Errorf("%s is neither the secret nor a file that can be read (%w): name a file that bridge may read", name, err)
			}
			return string(bytes.TrimRight(text, "\r\n")), nil
		}
	}
	text, err := read()
	switch {
	case err != nil:
		in.Fault(name, "%s", strings.TrimPrefix(err.Error(), string(name)+" "))
	case !is(text):
		in.Fault(name, "does not lead to what it should: name a file with credentials (.creds) for %s, with a seed (SU…) for %s", option.NATSCreds, option.NATSNKey)
	}
	in.Hide(text)
	return read
}

func (d *Driver) options(u driver.Use) jetstream.Options {
	o := d.Options
	o.Origin = jetstream.Origin{Domain: u.Domain, Streams: u.Streams}
	o = withUse(o, u)
	if o.Claim != "" && u.Share != "" {
		// A stream that one of them creates takes the claims of all.
		o.Subjects = append(slices.Clone(o.Subjects), o.Claim, o.Claim+".*")
		o.Claim += "." + u.Share
	}
	return o
}

func withUse(o jetstream.Options, u driver.Use) jetstream.Options {
	o.Subjects, o.Published, o.Readable, o.Uncompactable = u.Subjects, u.Published, u.Readable, u.Uncompactable
	o.Logger, o.Fault, o.Session, o.Windows = u.Logger, u.Fault, u.Session, u.Windows
	return o
}

func (d *Driver) Open(u driver.Use) (sink.Sink, error) { return jetstream.Open(d.options(u)) }

func (d *Driver) Read(ctx context.Context, u driver.Use, what driver.Reading) (*verify.Bus, error) {
	return read(ctx, d.options(u), what.Destinations)
}

// read opens subjects of the stream that the options name, or else of all.
func read(ctx context.Context, o jetstream.Options, subjects []string) (*verify.Bus, error) {
	o.Name, o.GiveUpAfter, o.CreateStream = "bridge verify", driver.GiveUpAfter, false
	o.Published, o.Readable = subjects, subjects
	reader, err := jetstream.Open(o)
	if err != nil {
		return nil, err
	}
	return verify.OpenBus(ctx, verify.BusOptions{Reader: reader, Subjects: subjects, Stream: o.Stream})
}

// Group returns the key of the group in its bucket.
func (*Driver) Group(name string) string { return name }

func (d *Driver) Elector(name string, silence time.Duration, _ driver.Use) (standby.Elector, error) {
	connection := d.Options.Connection
	return standby.NewLease(standbyjetstream.New(standbyjetstream.Options{
		Connection: &connection, Key: d.Group(name), Replicas: d.Options.Keeps.Replicas, Timeout: silence / 4,
	}), silence), nil
}

// Grant is empty: the error of a login without rights names them.
func (*Driver) Grant(string) string { return "" }

// Progress opens a bucket, whatever the delivery of events: an older copy is safe, so copies need
// no claim.
func (d *Driver) Progress(topic string, giveUp time.Duration, u driver.Use) (buscopy.Bucket, sink.Inspector, error) {
	o := d.options(u)
	o.Name, o.Bucket, o.CreateStream, o.GiveUpAfter = "bridge progress", topic, true, giveUp
	o.Keeps = jetstream.Keeping{Replicas: o.Keeps.Replicas}
	o.Published, o.Readable, o.Claim = nil, nil, ""
	s, err := jetstream.Open(o)
	if err != nil {
		return nil, nil, err
	}
	return buscopy.NewKV(s, topic), s, nil
}
