package config

import (
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"example.org/bridge/event"
	"example.org/bridge/internal/driver"
	"example.org/bridge/internal/driver/kafka"
	"example.org/bridge/internal/driver/mysql"
	"example.org/bridge/internal/driver/nats"
	"example.org/bridge/internal/driver/sqlite"
	"example.org/bridge/internal/driver/stdout"
	"example.org/bridge/internal/option"
	"example.org/bridge/sink"
	"example.org/bridge/source"
)

// Config is everything that the environment says, checked and ready for wiring. Defaults are filled
// in. It holds no secret but for the headers of Trace: those are read by functions at each connect.
type Config struct {
	// Process has the variables of the process. What stands below under the same name wins.
	Process
	Sources
	Sink Sink
	// CheckpointPath is the checkpoint's folder, relative to the working directory or absolute.
	CheckpointPath string
	// Temporary says that it was chosen, and is below the temporary directory of the system.
	Temporary bool
	// CheckpointTopic is the topic of Kafka, or the KV bucket of NATS, that has copies of the
	// progress. Empty: the folder has all.
	CheckpointTopic string
	// Streams has at least one entry, in the order of BRIDGE_STREAMS.
	Streams []Stream
	// all are those of the whole configuration, nil where Streams are.
	all []Stream

	// HTTPToken is nil where none is set; ask it at each request. HTTPTLS names no certificate
	// where the HTTP server does not speak TLS.
	HTTPToken driver.Secret
	HTTPTLS   driver.TLS
	LogLevel  slog.Level
	// Trace says where spans go; nil makes none.
	Trace *Trace
	// Others are variables of other programs, NAME=value, that the file of variables has. Load does
	// not know them: its caller fills them in.
	Others []string
	// Share is the part of the tables that the process works on.
	Share Share
	// Standby says with whom the process shares the work.
	Standby Standby

	// limits and others are hashes of the variables: of those that a reload changes while streams
	// run, and of all others.
	limits, others string
	// login has hashes of those by which a process of a standby group connects to the bus.
	login map[string]string

	// Warnings are for the log at start: what is set but has no effect, or is unwise.
	Warnings []Warning
}

// Standby is a group of processes of which one works.
type Standby struct {
	// Group is empty where the process works alone.
	Group   string
	Timeout time.Duration
	// Settings has a hash of each variable that all processes must agree on, but for defaults.
	Settings map[string]string
}

// Warning is one remark about a variable.
type Warning struct{ Variable, Text string }

// Stream is one stream.
type Stream struct {
	// Name is as BRIDGE_STREAMS spells it.
	Name string
	streamSettings
	// The settings of the tail and of reconcile: the stream's own where it has them, else the
	// global ones.
	Tuning

	// Tables are the physical tables, one shard each: those that TABLE names and, after WithTables,
	// those that match Patterns.
	Tables []string
	// Patterns are those of TABLE. Looked says that Tables has what matches them.
	Patterns []string
	Looked   bool
	// Unlisted are the patterns whose database did not list its tables.
	Unlisted []string
	// items are the tables and patterns of TABLE.
	items []string
	// EventNames has the event types that differ from the default.
	EventNames map[event.Op]string
	// Fields is nil for all columns; a field without Member has the default one.
	Fields []event.Field
	// headers are the columns of HEADERS with their names there, routed those of DESTINATION, which
	// is the template.
	headers  []event.Field
	routed   []string
	template *sink.Template
	// Masks are the columns whose values are replaced.
	Masks map[string]source.Mask
	// Deleted is a column, empty where there is none. Deletion says which of its values say that a
	// row is deleted.
	Deleted  string
	Deletion event.Deletion
}

// Naming names a setting by its variable: that of the stream where the stream has one, else that of
// the process. An empty stream is for what concerns no single one.
func Naming(stream string) option.Naming {
	return func(name option.Name) string {
		global, own := prefix+string(name), StreamPrefix(stream)+string(name)
		switch {
		case stream != "" && slices.Contains(NewDrivers().known([]string{stream}), own):
			return own
		case slices.Contains(NewDrivers().known(nil), global), strings.HasPrefix(global, sourcePrefix):
			return global
		}
		return streamPrefix + referenceStream + "_" + string(name)
	}
}

// Text returns the text of err with settings named by their variables.
func Text(err error) string { return option.Text(err, Naming("")) }

// StreamText returns Text for the errors of one stream: it names the stream's own variables.
func StreamText(stream string) func(error) string {
	return func(err error) string { return option.Text(err, Naming(stream)) }
}

// Drivers are those of all kinds of buses and databases, for one configuration.
type Drivers struct {
	Buses     []driver.Bus
	Databases []driver.Database

	// globals are the variables of the process.
	globals []Variable
}

// NewDrivers returns the drivers that there are: the one list of them.
func NewDrivers() *Drivers {
	servers, embedded := nats.New()
	return &Drivers{
		Buses:     []driver.Bus{new(kafka.Driver), servers, new(stdout.Driver), embedded},
		Databases: []driver.Database{mysql.Driver{}, sqlite.Driver{}},
	}
}

func (d *Drivers) settings() (all []driver.Settings) {
	for _, bus := range d.Buses {
		for _, one := range bus.Settings() {
			if !slices.Contains(all, one) {
				all = append(all, one)
			}
		}
	}
	return all
}

// Sink says which bus to publish to.
type Sink struct {
	// Scheme is that of the URL.
	Scheme string
	// ExactlyOnce tells whether each batch is on the bus as a whole and once. Only some buses can.
	ExactlyOnce bool
	driver.BusTraits
	Driver driver.Bus
}

// Delivery modes.
const (
	AtLeastOnce = "at-least-once"
	ExactlyOnce = "exactly-once"
)

// Delivery returns the delivery mode.
func (s *Sink) Delivery() string {
	if s.ExactlyOnce {
		return ExactlyOnce
	}
	return AtLeastOnce
}

// Readable reports whether messages can be read back from the bus.
func (s *Sink) Readable() bool {
	_, can := s.Driver.(driver.Readable)
	return can
}

const (
	sinkVariable = prefix + "SINK_URL"
	sinkExample  = "kafka://host:9092,host:9092"
)

// in says what the environment says besides.
func (l *loader) sink(in driver.Input, delivery string) (s Sink) {
	in.URL = l.env[sinkVariable]
	if in.URL == "" || l.has(sinkVariable) {
		return s
	}
	chosen, ok := choose(l, sinkVariable, in.URL, sinkExample, l.Buses)
	if !ok {
		return s
	}
	in.ExactlyOnce, in.Environment = delivery == ExactlyOnce, input{loader: l}
	s = Sink{Scheme: chosen.Scheme(), ExactlyOnce: in.ExactlyOnce, Driver: chosen}
	s.BusTraits = chosen.Load(&in)
	if s.ExactlyOnce && !s.Transactions {
		l.add(prefix+"DELIVERY", "is exactly-once, which the sink %s: cannot promise: use Kafka or NATS, or at-least-once", s.Scheme)
	}
	l.warnOtherBuses(&s)
	return s
}

// choose returns the driver of a URL. ok is false after a fault.
func choose[D interface{ Scheme() string }](l *loader, variable, text, example string, drivers []D) (chosen D, ok bool) {
	schemes := make([]string, len(drivers))
	for i, d := range drivers {
		schemes[i] = d.Scheme()
	}
	scheme, _, ok := l.cutScheme(variable, text, schemes, example)
	if ok {
		chosen = drivers[slices.Index(schemes, scheme)]
	}
	return chosen, ok
}

// cutScheme splits the URL of a variable after its scheme, which must be one of those allowed. ok
// is false after a fault.
func (l *loader) cutScheme(variable, text string, allowed []string, example string) (name, rest string, ok bool) {
	name, rest, found := strings.Cut(text, ":")
	name = strings.ToLower(name)
	if !found || !slices.Contains(allowed, name) {
		l.add(variable, "does not begin with a known scheme: write one of %s:, as in %s", strings.Join(allowed, ": "), example)
		return "", "", false
	}
	return name, rest, true
}

// warnOtherBuses warns of settings that the bus of the sink does not have. They are no fault, so
// that one environment can be used with another sink by changing one variable.
func (l *loader) warnOtherBuses(s *Sink) {
	own := s.Driver.Settings()
	others := map[string]bool{prefix + string(option.KafkaTombstones): !s.Tombstones}
	for _, settings := range l.settings() {
		if slices.Contains(own, settings) {
			continue
		}
		for _, v := range variablesOf(settings.Fields, prefix, settings.Title) {
			for _, name := range v.names() {
				others[name] = true
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(l.env)) {
		if others[name] && !l.has(name) {
			l.warn(name, "has no effect with the sink %s:", s.Scheme)
		}
	}
}

type input struct {
	*loader
	// source is that which they are for, nil for others.
	source *Source
}

func (in input) Fault(name option.Name, format string, args ...any) {
	in.add(in.fullName(name), "%s", option.Sprintf(in.fullName, format, args...))
}

func (in input) Warn(name option.Name, format string, args ...any) {
	in.warn(in.fullName(name), "%s", option.Sprintf(in.fullName, format, args...))
}

func (in input) fullName(name option.Name) string {
	if in.source != nil {
		name = in.source.OwnName(name)
	}
	return prefix + string(name)
}

func (in input) Faulty(names ...option.Name) bool {
	return slices.ContainsFunc(names, func(name option.Name) bool { return in.has(in.fullName(name), in.fullName(name)+fileSuffix) })
}

func (in input) Secret(name option.Name) (read driver.Secret, inFile bool) {
	_, inFile = in.env[in.fullName(name)+fileSuffix]
	return in.secret(in.fullName(name)), inFile
}

func (in input) Hide(secret string) { in.secrets.add(secret) }

func (in input) Replace(former, secret string) {
	in.secrets.mu.Lock()
	in.secrets.secrets = slices.DeleteFunc(in.secrets.secrets, func(one string) bool { return one == former })
	in.secrets.mu.Unlock()
	in.secrets.add(secret)
}

func (in input) TLS(begin option.Name, files driver.TLS) { in.tls(string(begin), files) }

// Others returns a variable of other programs.
func (in input) Others(variable string) string {
	for _, entry := range in.environ {
		if value, found := strings.CutPrefix(entry, variable+"="); found {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func (l *loader) tls(begin string, files driver.TLS) driver.TLS {
	ca, cert, key := prefix+begin+"CA", prefix+begin+"CERT", prefix+begin+"KEY"
	if pem, ok := l.readPEM(ca, files.CA); ok && !x509.NewCertPool().AppendCertsFromPEM(pem) {
		l.add(ca, "names a file without a certificate in PEM form: name one with the authorities to trust")
	}
	if (files.Cert == "") != (files.Key == "") {
		missing, present := key, cert
		if files.Cert == "" {
			missing, present = cert, key
		}
		l.add(missing, "is not set, but %s is: set both or none", present)
		return files
	}
	certPEM, certOK := l.readPEM(cert, files.Cert)
	keyPEM, keyOK := l.readPEM(key, files.Key)
	if certOK && keyOK {
		if _, err := tls.X509KeyPair(certPEM, keyPEM); err != nil {
			l.add(cert, "and %s name files that are no pair of a certificate and its key in PEM form: name two that belong together", key)
		}
	}
	return files
}

// readPEM reads the file that a variable names; ok is false when the variable is not set or the
// file cannot be read.
func (l *loader) readPEM(variable, path string) (pem []byte, ok bool) {
	if path == "" {
		return nil, false
	}
	pem, err := driver.ReadFile(path)
	if err != nil {
		l.add(variable, "names a file that cannot be read (%v): name a PEM file that bridge may read", err)
		return nil, false
	}
	return pem, true
}
