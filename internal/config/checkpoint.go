package config

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"example.org/bridge/internal/driver"
)

// topicName is what a topic of Kafka and a bucket of NATS may both be called.
var topicName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,200}$`)

const (
	checkpointVariable = prefix + "CHECKPOINT_URL"
	topicVariable      = prefix + "CHECKPOINT_TOPIC"
	checkpointExample  = "file:///var/lib/bridge/bridge.db"
)

// checkpoint checks BRIDGE_CHECKPOINT_URL and returns the path of the folder, and whether progress
// is kept on the bus, too. The path is empty where bus: names none.
func (l *loader) checkpoint(text string) (path string, onBus bool) {
	if l.has(checkpointVariable) {
		return "", false
	}
	scheme, rest, ok := l.cutScheme(checkpointVariable, text, []string{"file", "bus"}, checkpointExample)
	if !ok {
		return "", false
	}
	onBus = scheme == "bus"
	if onBus && rest == "" {
		return "", true
	}
	if local, isURL := strings.CutPrefix(rest, "//"); isURL && !strings.HasPrefix(local, "/") {
		l.add(checkpointVariable, "names a host where the path should be: write %s with three slashes, or file:bridge.db for a relative path", checkpointExample)
		return "", onBus
	} else if isURL {
		rest = local
	}
	path, err := url.PathUnescape(rest)
	if err != nil || path == "" || strings.HasSuffix(path, "/") || strings.ContainsAny(rest, "?#\x00") || strings.Contains(path, "\x00") {
		l.add(checkpointVariable, "names no folder: write %s, or file:bridge.db for a relative path, with ? as %%3F, # as %%23 and %% as %%25", checkpointExample)
		return "", onBus
	}
	return path, onBus
}

func setProgress(cfg *Config, l *loader, onBus bool, topic string, streams []string) {
	_, shared := cfg.Sink.Driver.(driver.Shared)
	switch {
	case !onBus:
		if topic != defaultOf(topicVariable) {
			l.warn(topicVariable, "has no effect without %s=bus:", checkpointVariable)
		}
		return
	case !shared && !l.has(sinkVariable):
		l.add(checkpointVariable, "is bus:, and the sink %s: keeps no progress: use Kafka or NATS, or a folder, as in %s", cfg.Sink.Scheme, checkpointExample)
	case !topicName.MatchString(topic):
		l.add(topicVariable, "invalid name: use up to 200 letters, digits, - and _")
	default:
		cfg.CheckpointTopic = topic
	}
	if cfg.CheckpointPath == "" {
		// A process of this configuration finds it again when it is restarted in its container, and
		// no other process on the host has it: two on one host have different addresses.
		all := append([]string{cfg.DomainID, cfg.HTTPAddr}, slices.Sorted(slices.Values(streams))...)
		sum := sha256.Sum256([]byte(strings.Join(all, "\x00")))
		cfg.CheckpointPath, cfg.Temporary = filepath.Join(os.TempDir(), "bridge-"+hex.EncodeToString(sum[:6])), true
	}
}

// checkTopics refuses a stream that publishes to the topic of the checkpoint.
func checkTopics(l *loader, cfg *Config) {
	if cfg.CheckpointTopic == "" || !cfg.Sink.Destinations.Topics {
		return
	}
	for i := range cfg.Streams {
		if s := &cfg.Streams[i]; slices.Contains(cfg.Destinations(s), cfg.CheckpointTopic) {
			l.add(topicVariable, "is a topic of the stream %s: use one of its own", s.Name)
		}
	}
}

// LoadCheckpointPath reads BRIDGE_CHECKPOINT_URL and nothing else, for the commands that need only
// that. With bus: it returns an error that wraps ErrOnBus: Load says the rest.
func LoadCheckpointPath(environ []string) (string, error) {
	l := &loader{env: parseEnvironment(environ), secrets: &Redactor{}}
	path, onBus := l.checkpoint(cmp.Or(l.env[checkpointVariable], defaultOf(checkpointVariable)))
	if onBus {
		return "", ErrOnBus
	}
	return path, l.err()
}

// ErrOnBus is returned where the folder of the checkpoint is not all of it.
var ErrOnBus = errors.New("progress is kept on the bus")

const standbyVariable = prefix + "STANDBY"

// standbyName is what a name of a group may be: a part of the name of a group of Kafka, and of a
// key of NATS.
var standbyName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,100}$`)

// check checks the standby group, and says what its processes must agree on.
func (s *Standby) check(l *loader, cfg *Config) {
	p := &cfg.Process
	_, shared := cfg.Sink.Driver.(driver.Shared)
	*s = Standby{Group: p.Standby, Timeout: p.StandbyTimeout}
	switch {
	case p.Standby == "":
		if timeout := standbyVariable + "_TIMEOUT"; l.env[timeout] != "" && l.env[timeout] != defaultOf(timeout) {
			l.warn(timeout, "has no effect without %s", standbyVariable)
		}
		return
	case !standbyName.MatchString(p.Standby):
		l.add(standbyVariable, "invalid name: use up to 100 letters, digits, - and _")
	case !shared && !l.has(sinkVariable):
		l.add(standbyVariable, "is set, and the sink %s: cannot tell several processes which of them works: use Kafka or NATS, or unset this", cfg.Sink.Scheme)
	}
	for i := range cfg.Streams {
		switch stream := &cfg.Streams[i]; {
		case cfg.CheckpointTopic != "":
		case stream.Start.Latest:
			l.add(StreamPrefix(stream.Name)+"START", "latest is decided by one process, and no other one of %s knows what it decided before a row is published: set %s=bus:, or use an id, or beginning", standbyVariable, checkpointVariable)
		case stream.Start.After > 0 && len(stream.Patterns) > 0:
			l.add(StreamPrefix(stream.Name)+"START", "is an id, and TABLE has a pattern: which tables were there already is known to one process of %s alone: set %s=bus:, or use beginning", standbyVariable, checkpointVariable)
		}
	}
	agreed := make(agreement)
	agreed.add(prefix, l.globalVariables(), cfg.agreed())
	for i := range cfg.Streams {
		stream := &cfg.Streams[i]
		agreed.add(StreamPrefix(stream.Name), streamVariables(stream.Name), stream.agreed())
	}
	s.Settings = agreed
}

// agreement has a hash of each variable.
type agreement map[string]string

// add adds the values of variables, whose names begin with begin, where they are not the defaults:
// so one that a former version does not know differs only where it is set.
func (a agreement) add(begin string, variables []Variable, values map[string]string) {
	for _, v := range variables {
		if value := values[strings.TrimPrefix(v.Name, begin)]; value != "" && value != v.def {
			sum := sha256.Sum256([]byte(value))
			a[v.Name] = base64.RawURLEncoding.EncodeToString(sum[:6])
		}
	}
}

// agreed returns the values of the variables of the process that decide what is published. How the
// source and the bus are reached may differ.
func (c *Config) agreed() map[string]string {
	streams := make([]string, len(c.Streams))
	for i := range c.Streams {
		streams[i] = c.Streams[i].Name
	}
	slices.Sort(streams)
	values := map[string]string{
		"DELIVERY": c.Sink.Delivery(), "STREAMS": strings.Join(streams, ","),
		"DOMAIN_ID": c.DomainID, "STANDBY_TIMEOUT": c.Standby.Timeout.String(), "SHARE": c.Share.String(),
	}
	var sources []string
	for i := range c.Sources {
		s := &c.Sources[i]
		if values[string(s.Setting())] = s.Scheme + "/" + s.Database; s.Name != "" {
			sources = append(sources, s.Name)
		}
	}
	slices.Sort(sources)
	values["SOURCES"] = strings.Join(sources, ",")
	// The folder is of each process.
	values["CHECKPOINT_URL"], values["CHECKPOINT_TOPIC"] = "", c.CheckpointTopic
	if c.CheckpointTopic != "" {
		values["CHECKPOINT_URL"] = "bus:"
	}
	for name, value := range c.Sink.Agreed {
		values[string(name)] = value
	}
	return values
}

func (s *Stream) agreed() map[string]string {
	text := func(v any, empty bool) string {
		if empty {
			return ""
		}
		return fmt.Sprint(v)
	}
	return map[string]string{
		"TABLE": strings.Join(s.items, ","), "KIND": string(s.Kind), "EVENT": s.Event, "EVENT_NAMES": text(s.EventNames, len(s.EventNames) == 0),
		"EVENT_VERSION": s.Version, "EVENT_FORMAT": string(s.Format),
		"FIELDS": text(s.Fields, len(s.Fields) == 0), "EXCLUDE": strings.Join(s.Exclude, ","), "MASK": maskText(s.Masks), "ID": s.ID, "ID_FORMAT": string(s.IDFormat()), "KEY": strings.Join(s.Key, ","), "CREATED": s.Created, "MODIFIED": s.Modified,
		"STALE_AFTER": text(s.StaleAfter, s.StaleAfter == 0), "DELETED": deletionText(s), "FILTER": s.Filter, "DESTINATION": s.Destination, "FAMILY": s.Family, "TAG": s.Tag,
		"PAYLOAD": s.Payload, "HEADERS": strings.Join(s.HeaderColumns, ","), "DESTINATIONS": strings.Join(s.Bounds, ","),
		"START":      text(s.Start, s.Start == Start{}),
		"GAP_POLICY": s.GapPolicy, "ID_ORDER": s.IDOrder, "RECONCILE_MAX_DELETES": fmt.Sprintf("%v%%", 100*float64(s.ReconcileMaxDeletes)),
		"KAFKA_TOMBSTONES": s.KafkaTombstones, "DEAD_LETTER": s.DeadLetter, "ON_BAD_VALUE": s.OnBadValue, "ON_SCHEMA_CHANGE": s.OnSchemaChange, "TIME_ZONE": s.TimeZone.Location.String(),
	}
}

// Reads of a source that take no connection from the tails: KeyReads by key, ServeReads of entities
// for those who ask, where Config.Serve is set, and scanReads of reconcile.
const (
	KeyReads   = 2
	ServeReads = 1
	scanReads  = 1
)

// OtherReads returns how many reads there are at the same time besides those of tails.
func OtherReads(serve bool) int {
	if serve {
		return scanReads + KeyReads + ServeReads
	}
	return scanReads + KeyReads
}

// connectionsName and rateName are the variables that a reload changes while streams run, without
// their prefixes.
const (
	connectionsName = "CONNECTIONS"
	rateName        = "RATE"
	reconcileRate   = "RECONCILE_RATE"
)

// connections returns the bound of a source, 0 for none. One that is too small for the reads that
// must not wait for one another is a fault.
func (l *loader) connections(s *Source, global int) int {
	variable, most := prefix+"SOURCE_"+connectionsName, global
	if s.Name != "" {
		own := sourceSettings{NamedConnections: global}
		l.parse(&own, sourcePrefixOf(s.Name), true)
		if name := sourcePrefixOf(s.Name) + connectionsName; l.env[name] != "" {
			variable, most = name, own.NamedConnections
		}
	}
	if most == 0 || s.Opener == nil || l.has(variable) {
		return most
	}
	tails := OtherReads(l.serve) + 1
	least := most
	for s.Readers(least) < tails {
		least++
	}
	if least > most {
		l.add(variable, "is too small for %s, where reads must not wait for one another: set it to %d or more%s, or to 0 for no limit",
			s.Label(), least, map[bool]string{true: " (one less without " + prefix + "SERVE)"}[l.serve])
	}
	return most
}

func setFingerprints(c *Config, env environment) {
	limit := map[string]bool{prefix + rateName: true, prefix + "SOURCE_" + connectionsName: true}
	for i := range c.Streams {
		limit[StreamPrefix(c.Streams[i].Name)+rateName] = true
	}
	for i := range c.Sources {
		limit[sourcePrefixOf(c.Sources[i].Name)+connectionsName] = c.Sources[i].Name != ""
	}
	c.login = make(map[string]string)
	limits, others := sha256.New(), sha256.New()
	for _, name := range slices.Sorted(maps.Keys(env)) {
		sum := others
		if limit[name] {
			sum = limits
		}
		// A hash takes all that is written.
		_, _ = fmt.Fprintf(sum, "%d %s=%d %s;", len(name), name, len(env[name]), env[name])
		// Each connect reads a file.
		if c.Standby.Group != "" && env[name] != "" && env[name+fileSuffix] == "" && busLogin.MatchString(strings.TrimPrefix(name, prefix)) {
			one := sha256.Sum256([]byte(env[name]))
			c.login[name] = string(one[:])
		}
	}
	c.limits, c.others = string(limits.Sum(nil)), string(others.Sum(nil))
}

var busLogin = regexp.MustCompile(`^(SINK_URL|KAFKA_(TLS|SASL)|NATS_(CREDS|NKEY|TLS))`)

// ChangesLimitsAlone reports whether next differs from c in limits (RATE, SOURCE_CONNECTIONS) and
// in nothing else.
func (c *Config) ChangesLimitsAlone(next *Config) bool {
	return c.limits != next.limits && c.others == next.others && strings.Join(c.Others, "\x00") == strings.Join(next.Others, "\x00")
}

// NeedRestart returns the variables that a reload cannot change.
func NeedRestart() (names []string) {
	for _, one := range new(Config).fixed() {
		names = append(names, one.variable)
	}
	return names
}

// fixedValue is a value that a reload must find as it was.
type fixedValue struct{ variable, value string }

// fixed returns what stays open over a reload, and what decides where progress is kept and which
// messages are our own.
func (c *Config) fixed() []fixedValue {
	token, folder := "", c.CheckpointPath
	if c.HTTPToken != nil {
		// While it cannot be read, every request is refused.
		token, _ = c.HTTPToken()
	}
	if c.Temporary {
		folder = ""
	}
	return []fixedValue{
		{checkpointVariable, folder}, {topicVariable, c.CheckpointTopic},
		{prefix + "DOMAIN_ID", c.DomainID},
		{HTTPVariable, c.HTTPAddr}, {HTTPTokenVariable, token},
		{prefix + httpTLS + "CA", c.HTTPTLS.CA}, {prefix + httpTLS + "CERT", c.HTTPTLS.Cert}, {prefix + httpTLS + "KEY", c.HTTPTLS.Key},
		{prefix + "LOG_FORMAT", c.LogFormat},
		{sinkVariable, strings.Join(append([]string{c.Sink.Scheme, c.Sink.Folder}, c.Sink.Servers...), " ")},
		{prefix + "NATS_DOMAIN", c.Sink.JetStreamDomain},
		{shareVariable, c.Share.String()}, {standbyVariable, c.Standby.Group}, {standbyVariable + "_TIMEOUT", c.Standby.Timeout.String()},
	}
}

// Reloaded returns the configuration that replaces c when next was read. The error is an
// *Error with all variables that need a restart.
func (c *Config) Reloaded(next *Config) (*Config, error) {
	var l faults
	now := next.fixed()
	for i, one := range c.fixed() {
		if one.value != now[i].value {
			l.add(one.variable, "has another value, which needs a restart: change it back, or restart bridge")
		}
	}
	// The membership in a standby group stays open, too, with the login that it began with.
	logins := maps.Clone(c.login)
	maps.Copy(logins, next.login)
	for _, name := range slices.Sorted(maps.Keys(logins)) {
		if c.login[name] != next.login[name] && !l.has(name) {
			l.add(name, "has another value, which needs a restart in a standby group: change it back, or restart bridge")
		}
	}
	if err := l.err(); err != nil {
		return nil, err
	}
	reloaded := *next
	// The name of a temporary folder depends on the streams.
	reloaded.CheckpointPath = c.CheckpointPath
	return &reloaded, nil
}
