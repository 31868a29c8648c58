package driver

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"example.org/bridge/client/bus"
	"example.org/bridge/internal/buscopy"
	"example.org/bridge/internal/inspect"
	"example.org/bridge/internal/option"
	"example.org/bridge/internal/standby"
	"example.org/bridge/internal/verify"
	"example.org/bridge/sink"
	"example.org/bridge/source"
)

// GiveUpAfter is how long a command waits for a bus that does not answer.
const GiveUpAfter = 30 * time.Second

// Bus is a kind of bus.
type Bus interface {
	// Scheme begins the URLs of the bus.
	Scheme() string
	// Settings are the variables of the bus. They are filled before Load is called.
	Settings() []Settings
	// Load checks the URL and the settings, and reports what is wrong. After a fault nothing else
	// of the driver is used.
	Load(in *Input) BusTraits
	// Open opens the bus for publishing.
	Open(u Use) (sink.Sink, error)
}

// Settings are variables of drivers. Two drivers may have the same: Fields are then equal.
type Settings struct {
	// Title is the title of their group in the reference.
	Title string
	// Fields points to a struct with tags as in internal/config/settings.go.
	Fields any
}

// BusTraits say what a bus is like.
type BusTraits struct {
	// Servers are host:port of those who serve it, without a login; none where it has no address.
	Servers []string
	// Folder has the data of a server inside the process, JetStreamDomain the stream; each is empty
	// where it is not named.
	Folder, JetStreamDomain string
	// Protocol is what AsyncAPI calls it, KeyBinding its name for what describes the keys of
	// messages, empty where these have none.
	Protocol, KeyBinding string
	// Destinations says how they are written.
	Destinations Destinations
	// Transactions: it can take each batch as a whole and once. Tombstones: messages without a body
	// delete others.
	Transactions, Tombstones bool
	// LogsOutages: its sink itself logs what it meets in Ready.
	LogsOutages bool
	// Agreed are the values of variables of the bus that all processes of a standby group must
	// agree on, by their names.
	Agreed map[option.Name]string
}

// Destinations says how the destinations of a bus are written.
type Destinations struct {
	// Default is the template where none is set.
	Default string
	// Parse parses a template, and Escape writes a value into it. Check returns an error for a
	// destination that cannot be.
	Parse  func(text string) (*sink.Template, error)
	Escape sink.Escape
	Check  func(destination string) error
	// Topics: a destination depends on no event, so all of them are known. Else they are subjects,
	// of which wildcards stand for many.
	Topics bool
}

// The ways to write destinations.
var (
	Topics   = Destinations{"{stream}", sink.ParseTopic, sink.EscapeNone, bus.CheckTopic, true}
	Subjects = Destinations{"eiffel.{family}.{type}.{tag}.{domain}", sink.ParseSubject, sink.EscapeToken, sink.CheckSubject, false}
	// Labels are printed, so they can be any text.
	Labels = Destinations{
		Default: "{stream}", Parse: func(text string) (*sink.Template, error) { return sink.ParseTemplate(text) },
		Escape: sink.EscapeNone, Check: func(string) error { return nil },
	}
)

// Use says what a bus is opened for.
type Use struct {
	// Topics are the topics of all streams, where the bus has topics. Uncompactable says why
	// compaction would lose events on some of them, or few messages of each on some subjects, and
	// of Asked depends on compaction what is published.
	Topics        []string
	Uncompactable map[string]string
	Asked         []string
	// Subjects are the subjects of a stream that takes all messages, where the bus has subjects.
	// Published are those to publish to, Readable also those that were published to once.
	Subjects, Published, Readable []string
	// Share names the share that publishes, empty where there are none: what lets one process
	// publish with exactly-once is of each share.
	Share string
	// Domain and Streams are whose events they are.
	Domain  string
	Streams []string

	Logger *slog.Logger
	// Fault and Session are called as the options of sinks say. Optional.
	Fault   sink.Fault
	Session func(tp string)
	// Windows is for all sinks of a process, one after the other: see jetstream.Options. Optional.
	Windows *sync.Map
}

// Readable is a Bus that keeps messages, so that commands can read them.
type Readable interface {
	Bus
	// Read opens destinations for reading, with connections of its own.
	Read(ctx context.Context, u Use, what Reading) (*verify.Bus, error)
}

// Reading says what a command reads: whole topics, or subjects.
type Reading struct {
	Destinations []string
	// Command is the name of the command in errors.
	Command string
	// Running is the open sink of this process, nil in a process that publishes nothing.
	Running sink.Sink
}

// Shared is a Bus by which several processes can share their work, and which can keep progress.
type Shared interface {
	Bus
	// Group is the name on the bus of a standby group. Elector opens what tells which process of it
	// works; silence is how long that one may not be heard of. Grant is the command that lets the
	// login take part, empty if there is none.
	Group(name string) string
	Elector(name string, silence time.Duration, u Use) (standby.Elector, error)
	Grant(name string) string
	// Progress opens the topic or bucket that has copies of the progress, with connections of its
	// own. giveUp bounds the wait for a bus that does not answer; 0 waits for ever.
	Progress(topic string, giveUp time.Duration, u Use) (buscopy.Bucket, sink.Inspector, error)
}

// Inspector is a Bus that is not opened to be inspected, because that would start a server.
type Inspector interface {
	Bus
	// Inspect looks at the bus as [sink.Inspector] says.
	Inspect(ctx context.Context, u Use) inspect.Report
}

// Database is a kind of database.
type Database interface {
	// Scheme begins the URLs of the database.
	Scheme() string
	// Load checks the URL, and reports what is wrong. What it returns serves that URL: several may
	// be loaded. After a fault nothing of it is used.
	Load(in *Input) (Opener, DatabaseTraits)
}

// Opener opens a database.
type Opener interface {
	// Open opens the database. It connects at the first read.
	Open(conns source.Conns, logger *slog.Logger) (source.Source, error)
	// Readers returns how many of so many connections read rows; the others serve the rest.
	Readers(most int) int
}

// DatabaseTraits say what a database is like.
type DatabaseTraits struct {
	// Addr is host:port, or the path of the file, for the log.
	Addr string
	// Database is data.row.source of tables without a database. Empty where the URL names none.
	Database string
	// Alone: there is one database, whatever tables call it, and it has one time zone.
	Alone bool
	// Example is a URL that names a database.
	Example string
}

// Input is what the environment says to a driver.
type Input struct {
	// URL is the whole text of the variable that has the URL.
	URL string
	// TimeZone is that of DATETIME columns, DomainID meta.source.domainId.
	TimeZone *time.Location
	DomainID string
	// ExactlyOnce and ProgressOnBus tell whether that was asked for.
	ExactlyOnce, ProgressOnBus bool
	// Checkpoint is the folder of the checkpoint, empty where it is chosen later.
	Checkpoint string
	Environment
}

// Environment has what variables and the files that they name hold, and takes what is wrong. Names
// of settings among args are written out in full. No text may hold a value of a variable, which may
// be a secret.
type Environment interface {
	Fault(name option.Name, format string, args ...any)
	// Warn is for what has no effect or is unwise.
	Warn(name option.Name, format string, args ...any)
	// Faulty reports whether something is wrong with a variable, or its file, already.
	Faulty(names ...option.Name) bool
	// Secret returns a function that returns the value of a variable as it is at each call: where
	// the variable names a file, every call reads it. inFile tells whether it does.
	Secret(name option.Name) (read Secret, inFile bool)
	// Hide keeps a secret out of logs; Replace does so in place of a former one.
	Hide(secret string)
	Replace(former, secret string)
	// TLS checks the PEM files that the variables named begin+"CA", "CERT" and "KEY" name.
	TLS(begin option.Name, files TLS)
	// Others returns a variable of other programs, empty where it is not set.
	Others(variable string) string
}

// Secret returns a secret as it is now. The error never holds it.
type Secret func() (string, error)

// maxFile bounds what is read of a file that is none of ours after all.
const maxFile = 1 << 20

// ReadFile returns the contents of a file with a secret or a certificate. The error does not hold
// the path: it may be the secret itself, written there by mistake.
func ReadFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, withoutPath(err)
	case !info.Mode().IsRegular():
		// Reading a device or a pipe could last for ever.
		return nil, errors.New("no regular file")
	case info.Size() > maxFile:
		return nil, fmt.Errorf("larger than %d bytes", maxFile)
	}
	text, err := os.ReadFile(path)
	return text, withoutPath(err)
}

func withoutPath(err error) error {
	if pathError, ok := errors.AsType[*fs.PathError](err); ok {
		return pathError.Err
	}
	return err
}

// TLS names PEM files, each optional; Cert and Key come together.
type TLS struct{ CA, Cert, Key string }

// Given reports whether any file is named.
func (t TLS) Given() bool { return t != TLS{} }

// Config returns a function that reads the PEM files and makes a TLS configuration of them. It is
// called at each connect, so that files can be replaced while the program runs.
func (t TLS) Config() func() (*tls.Config, error) {
	return func() (*tls.Config, error) {
		roots, err := t.Roots()
		if err != nil {
			return nil, err
		}
		c := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}
		if t.Cert != "" {
			pair, err := tls.LoadX509KeyPair(t.Cert, t.Key)
			if err != nil {
				return nil, fmt.Errorf("read the client certificate: %w", err)
			}
			c.Certificates = []tls.Certificate{pair}
		}
		return c, nil
	}
}

// Roots reads the certificate authorities, nil for those of the system.
func (t TLS) Roots() (*x509.CertPool, error) {
	if t.CA == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(t.CA)
	if err != nil {
		return nil, fmt.Errorf("read the certificate authorities: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("read the certificate authorities: no certificate in %s", t.CA)
	}
	return roots, nil
}

// Size is a number of bytes, as a variable has it.
type Size int64

var units = []struct {
	name  string
	bytes int64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"kB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"B", 1},
}

func (s *Size) UnmarshalText(text []byte) error {
	number, factor := string(text), int64(1)
	for _, unit := range units {
		if n := len(number) - len(unit.name); n > 0 && strings.EqualFold(number[n:], unit.name) {
			number, factor = strings.TrimSpace(number[:n]), unit.bytes
			break
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64/factor {
		return errors.New("invalid size: use a whole number of bytes or one with a unit (B, kB, MB, GB, KiB, MiB, GiB), as in 32MiB")
	}
	*s = Size(n * factor)
	return nil
}

// Encoding tells how to write a password into a URL. It stands in the faults in place of what
// net/url says, which quotes the URL.
const Encoding = `in user and password write % as %25, @ as %40, : as %3A, / as %2F, ? as %3F, # as %23, "," as %2C and a space as %20`

// Authority is the part of a URL that names servers.
type Authority struct {
	// Hosts are host:port.
	Hosts []string
	// User is nil without a login.
	User *url.Userinfo
}

// ParseAuthority parses "scheme://user:password@host:port,host:port". Every host may repeat the
// scheme and the login. The error quotes nothing.
func ParseAuthority(scheme, text, defaultPort string) (Authority, error) {
	_, text, _ = strings.Cut(text, ":")
	text, slashes := strings.CutPrefix(text, "//")
	if !slashes {
		return Authority{}, fmt.Errorf("has no // after the scheme: write %s://host:port", scheme)
	}
	var a Authority
	for item := range strings.SplitSeq(text, ",") {
		item = strings.TrimSpace(item)
		if item == "" {
			continue
		}
		item = strings.TrimSuffix(strings.TrimPrefix(item, scheme+"://"), "/")
		u, err := url.Parse(scheme + "://" + item)
		if err != nil || u.Path != "" || strings.ContainsAny(item, "?#") {
			return Authority{}, fmt.Errorf("invalid URL: write %s://host:port,host:port; %s", scheme, Encoding)
		}
		host, port := u.Hostname(), cmp.Or(u.Port(), defaultPort)
		if host == "" || !IsPort(port) || port == "0" {
			return Authority{}, fmt.Errorf("names no host, or a port that is none: write %s://host:%s; %s", scheme, defaultPort, Encoding)
		}
		if u.User != nil && a.User != nil && *u.User != *a.User {
			return Authority{}, errors.New("has different logins for its hosts: write one login before the first host")
		}
		if u.User != nil {
			a.User = u.User
		}
		a.Hosts = append(a.Hosts, net.JoinHostPort(host, port))
	}
	if len(a.Hosts) == 0 {
		return Authority{}, fmt.Errorf("names no host: write %s://host:%s", scheme, defaultPort)
	}
	return a, nil
}

// IsPort reports whether text is a port number; 0 lets the system choose one.
func IsPort(text string) bool {
	_, err := strconv.ParseUint(text, 10, 16)
	return err == nil
}
