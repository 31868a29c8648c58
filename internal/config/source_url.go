package config

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"example.org/bridge/source/mysql"
	"example.org/bridge/source/sqlite"
)

const (
	sourceVariable = prefix + "SOURCE_URL"
	mysqlExample   = "mysql://user:password@host:3306/database"
)

// source checks BRIDGE_SOURCE_URL. zone is BRIDGE_TIME_ZONE.
func (l *loader) source(zone *time.Location) Source {
	text := l.env[sourceVariable]
	if text == "" || l.has(sourceVariable) {
		return Source{}
	}
	scheme, _, ok := l.cutScheme(sourceVariable, text, sourceSchemes, mysqlExample)
	if !ok {
		return Source{}
	}
	if scheme == "sqlite" {
		return l.sqlite(text, zone)
	}
	options, err := parseMySQL(text)
	if err != nil {
		l.add(sourceVariable, "%v", err)
		return Source{}
	}
	options.Password = l.mysqlPassword()
	// It cannot fail so shortly after the parse; a file that changed meanwhile shows at the
	// connect.
	_, _ = options.Password()
	return Source{
		Scheme:   scheme,
		Addr:     net.JoinHostPort(options.Host, strconv.Itoa(cmp.Or(options.Port, 3306))),
		Database: options.Database,
		MySQL:    options,
	}
}

// sqlite checks sqlite:///path. Times without a zone are in zone.
func (l *loader) sqlite(text string, zone *time.Location) Source {
	options, err := sqlite.ParseURL(text)
	if err != nil {
		l.add(sourceVariable, "%v", err)
		return Source{}
	}
	options.TimeZone = zone
	file := filepath.Base(options.Path)
	return Source{
		Scheme: "sqlite", Addr: options.Path, Database: cmp.Or(strings.TrimSuffix(file, filepath.Ext(file)), file), SQLite: options,
	}
}

// mysqlPassword returns a function that returns the password of the URL as it is at each call. Of a
// file that changes, only the password is taken up.
func (l *loader) mysqlPassword() func() (string, error) {
	secret, secrets := l.secret(sourceVariable), l.secrets
	return func() (string, error) {
		text, err := secret()
		if err != nil {
			return "", err
		}
		options, err := parseMySQL(text)
		if err != nil {
			return "", fmt.Errorf("%s %w", sourceVariable, err)
		}
		if options.Password == nil {
			return "", nil
		}
		password, err := options.Password()
		secrets.add(password)
		return password, err
	}
}

// parseMySQL parses mysql://user:password@host:port/database?tls=…. The error quotes neither login
// nor host.
func parseMySQL(text string) (mysql.Options, error) {
	if u, err := url.Parse(text); err == nil && strings.ContainsAny(u.EscapedPath(), "@:") {
		// The password held a slash, which ended the host too early.
		return mysql.Options{}, fmt.Errorf("has an @ or a : after the host: write %s; %s", mysqlExample, encoding)
	}
	return mysql.ParseURL(text)
}

// checkTables finds a table that a stream has twice under different names.
func (l *loader) checkTables(cfg *Config) {
	for _, s := range cfg.Streams {
		known := make(map[string]bool)
		for _, table := range s.Tables {
			database, name := cfg.physical(table)
			if full := database + "." + name; known[full] {
				l.add(StreamPrefix(s.Name)+"TABLE", "names one table twice, with and without its database: name it once")
				break
			} else {
				known[full] = true
			}
		}
	}
}

// checkDatabase finds tables without a database where the URL names none either.
func (l *loader) checkDatabase(cfg *Config) {
	if cfg.Source.Scheme != "mysql" || cfg.Source.Database != "" {
		return
	}
	for _, s := range cfg.Streams {
		for _, table := range s.Tables {
			if !strings.Contains(table, ".") {
				l.add(sourceVariable, "names no database, and %sTABLE has a table without one: write %s, or db.table", StreamPrefix(s.Name), mysqlExample)
				return
			}
		}
	}
}

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
	scheme, rest, ok := l.cutScheme(checkpointVariable, text, checkpointSchemes, checkpointExample)
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

// setCheckpoint checks where progress is kept. The streams of cfg are known by then.
func (cfg *Config) setCheckpoint(l *loader, settings *globalSettings, streams []string) {
	path, onBus := l.checkpoint(settings.Ends.CheckpointURL)
	cfg.CheckpointPath = path
	switch topic := settings.Process.CheckpointTopic; {
	case !onBus:
		if topic != defaultOf(topicVariable) {
			l.warn(topicVariable, "has no effect without %s=bus:", checkpointVariable)
		}
		return
	case cfg.Sink.Scheme != "kafka" && cfg.Sink.Scheme != "nats" && !l.has(sinkVariable):
		l.add(checkpointVariable, "is bus:, and the sink %s: keeps no progress: use Kafka or NATS, or a folder, as in %s", cfg.Sink.Scheme, checkpointExample)
	case !topicName.MatchString(topic):
		l.add(topicVariable, "invalid name: use up to 200 letters, digits, - and _")
	default:
		cfg.CheckpointTopic = topic
	}
	if path == "" {
		cfg.CheckpointPath = temporaryFolder(cfg, streams)
	}
}

// temporaryFolder returns a folder that a process of this configuration finds again when it is
// restarted in its container, and that no other process on the host has: two on one host have
// different addresses.
func temporaryFolder(cfg *Config, streams []string) string {
	names := append([]string{cfg.DomainID, cfg.HTTPAddr}, slices.Sorted(slices.Values(streams))...)
	sum := sha256.Sum256([]byte(strings.Join(names, "\x00")))
	return filepath.Join(os.TempDir(), "bridge-"+hex.EncodeToString(sum[:6]))
}

// checkTopics refuses a stream that publishes to the topic of the checkpoint.
func (cfg *Config) checkTopics(l *loader) {
	if cfg.CheckpointTopic == "" || cfg.Sink.Scheme != "kafka" {
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

// encoding tells how to write a password into a URL. It stands in the faults in place of what
// net/url says, which quotes the URL.
const encoding = `in user and password write % as %25, @ as %40, : as %3A, / as %2F, ? as %3F, # as %23, "," as %2C and a space as %20`

// The schemes of the URLs.
var (
	sourceSchemes     = []string{"mysql", "sqlite"}
	sinkSchemes       = []string{"kafka", "nats", "stdout", "embedded"}
	checkpointSchemes = []string{"file", "bus"}
)

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

// authority is the part of a URL that names a server.
type authority struct {
	// hosts are host:port.
	hosts []string
	// user is nil without a login.
	user *url.Userinfo
}

// parseAuthority parses "user:password@host:port,host:port". Every host may repeat the scheme and
// the login. The error quotes nothing.
func parseAuthority(scheme, text, defaultPort string) (authority, error) {
	var a authority
	for item := range strings.SplitSeq(text, ",") {
		item = strings.TrimSpace(item)
		if item == "" {
			continue
		}
		item = strings.TrimSuffix(strings.TrimPrefix(item, scheme+"://"), "/")
		u, err := url.Parse(scheme + "://" + item)
		if err != nil || u.Path != "" || strings.ContainsAny(item, "?#") {
			return authority{}, fmt.Errorf("invalid URL: write %s://host:port,host:port; %s", scheme, encoding)
		}
		host, err := hostPort(u, defaultPort)
		if err != nil {
			return authority{}, err
		}
		if u.User != nil && a.user != nil && *u.User != *a.user {
			return authority{}, fmt.Errorf("has different logins for its hosts: write one login before the first host")
		}
		if u.User != nil {
			a.user = u.User
		}
		a.hosts = append(a.hosts, host)
	}
	if len(a.hosts) == 0 {
		return authority{}, fmt.Errorf("names no host: write %s://host:%s", scheme, defaultPort)
	}
	return a, nil
}

// hostPort returns host:port of a URL.
func hostPort(u *url.URL, defaultPort string) (string, error) {
	port := u.Port()
	port = cmp.Or(port, defaultPort)
	if u.Hostname() == "" || !isPort(port) || port == "0" {
		return "", fmt.Errorf("names no host, or a port that is none: write %s://host:%s; %s", u.Scheme, defaultPort, encoding)
	}
	return net.JoinHostPort(u.Hostname(), port), nil
}
