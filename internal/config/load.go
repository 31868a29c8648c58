package config

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/caarlos0/env/v11"

	"example.org/bridge/internal/driver"
	"example.org/bridge/internal/option"
)

// loader turns the environment into a Config and collects the faults on the way. A step goes on
// past a fault wherever it can, so that a person sees all of them at once.
type loader struct {
	env environment
	faults
	warnings []Warning
	secrets  *Redactor
	// environ has the variables of other programs, too.
	environ []string
	*Drivers
	// serve is BRIDGE_SERVE.
	serve bool
}

// Load reads the configuration from "NAME=value" entries. The error is a *Error with everything
// that is wrong. What must not be shown is made known to secrets, now and whenever a file is read
// again.
func Load(environ []string, secrets *Redactor) (*Config, error) {
	return NewDrivers().Load(environ, secrets)
}

// Load is [Load] with these drivers, which serve this configuration alone.
func (d *Drivers) Load(environ []string, secrets *Redactor) (*Config, error) {
	var spaced []string
	for _, v := range d.globalVariables() {
		if v.spaces {
			spaced = append(spaced, v.Name)
		}
	}
	l := &loader{env: parseEnvironment(environ, spaced...), secrets: secrets, environ: environ, Drivers: d}
	names, all := l.streamNames()
	sources, allSources := l.sourceNames()
	l.refuseUnknown(names, all, allSources)
	l.readSecretFiles()
	// They are hidden also where nothing uses them, or a fault is found first.
	for _, name := range []string{HTTPTokenVariable, prefix + string(option.KafkaSASLPassword)} {
		l.secrets.add(l.env[name])
	}

	cfg, ends, tuning := new(Config), endSettings{}, Tuning{}
	for _, settings := range []any{&ends, &cfg.Process, &tuning} {
		l.parse(settings, prefix, false)
	}
	for _, one := range d.settings() {
		l.parse(one.Fields, prefix, false)
	}
	// The value is one of those allowed, or there is a fault already.
	_ = cfg.LogLevel.UnmarshalText([]byte(cfg.Process.LogLevel))
	l.checkProcess(cfg)
	cfg.HTTPToken = httpToken(l)
	cfg.HTTPTLS = l.tls(httpTLS, driver.TLS{CA: cfg.HTTPTLSCA, Cert: cfg.HTTPTLSCert, Key: cfg.HTTPTLSKey})
	if cfg.Process.Trace == "on" {
		cfg.Trace = traceOf(l)
	}
	l.serve = cfg.Serve
	cfg.Sources = l.sources(sources, tuning.TimeZone.Location, ends.SourceConnections)
	path, onBus := l.checkpoint(ends.CheckpointURL)
	cfg.CheckpointPath = path
	cfg.Sink = l.sink(driver.Input{DomainID: cfg.DomainID, ProgressOnBus: onBus, Checkpoint: path}, ends.Delivery)
	setProgress(cfg, l, onBus, cfg.Process.CheckpointTopic, names)
	setShare(cfg, l, cfg.Process.Share, onBus)
	for _, name := range names {
		one := &streamLoader{l, cfg, StreamPrefix(name), &Stream{Name: name, Tuning: tuning}}
		cfg.Streams = append(cfg.Streams, one.load())
	}
	hashes := func(item string) bool { _, form := splitMask(item); return form == "sha256" }
	if l.env[maskKeyVariable] != "" && !slices.ContainsFunc(cfg.Streams, func(s Stream) bool { return slices.ContainsFunc(s.Mask, hashes) }) {
		l.warn(maskKeyVariable, "has no effect without a MASK of the form sha256")
	}
	if allSources {
		l.checkSources(cfg)
	}
	l.checkTables(cfg)
	for i := range cfg.Streams {
		for j := range i {
			l.checkOverlap(cfg, &cfg.Streams[j], &cfg.Streams[i])
		}
	}
	if !l.has(sinkVariable) {
		checkTopics(l, cfg)
		checkBounds(l, cfg)
		checkDeadLetters(l, cfg)
	}
	cfg.Standby.check(l, cfg)
	for _, entry := range environ {
		if name, _, _ := strings.Cut(entry, "="); !strings.HasPrefix(name, prefix) && strings.HasPrefix(strings.ToUpper(name), prefix) {
			l.warn(name, "is ignored: names of variables begin with %s, in upper case", prefix)
		}
	}
	cfg.Warnings = l.warnings
	setFingerprints(cfg, l.env)
	if err, wrong := errors.AsType[*Error](l.err()); wrong {
		err.Unset = len(l.env) == 0
		return nil, err
	}
	return cfg, nil
}

// parse fills a settings struct, which settings points to, from the variables that begin with
// prefix, and checks each value on its own. With over, what settings holds already is the default.
func (l *loader) parse(settings any, prefix string, over bool) {
	variables, defaults := variablesOf(settings, prefix, ""), "envDefault"
	if over {
		defaults = "none" // a tag that no field has
	}
	err := env.ParseWithOptions(settings, env.Options{Prefix: prefix, Environment: l.env, FuncMap: parsers, DefaultValueTagName: defaults})
	if all, ok := errors.AsType[env.AggregateError](err); ok {
		for _, err := range all.Errors {
			l.parseFault(err, variables)
		}
	}
	for _, v := range variables {
		if _, set := l.env[v.Name]; set && !l.has(v.Name) {
			if err := v.check(); err != nil {
				l.add(v.Name, "%v", err)
			}
		}
	}
}

// parseFault turns an error of the env package into a fault, without the text of that package.
func (l *loader) parseFault(err error, variables []Variable) {
	parse, isParse := errors.AsType[env.ParseError](err)
	missing, _ := errors.AsType[env.VarIsNotSetError](err)
	for _, v := range variables {
		switch {
		case isParse && v.field == parse.Name:
			l.add(v.Name, "%v", parse.Err)
		case isParse || v.Name != missing.Key || l.has(v.Name, v.Name+fileSuffix):
		case v.Name == sourceVariable && l.env[sourcesVariable] != "":
			// The others are enough.
		case v.oneOf != nil:
			l.add(v.Name, "is not set and has no default: set it to one of %s", strings.Join(v.oneOf, ", "))
		default:
			l.add(v.Name, "is not set and has no default: set it, as in %s", v.example)
		}
	}
}

// streamNames returns the stream names that are fit for use, and whether those are all.
func (l *loader) streamNames() (names []string, all bool) {
	const variable = prefix + "STREAMS"
	var items list
	if err := items.UnmarshalText([]byte(l.env[variable])); err != nil {
		// parse reports it.
		return nil, false
	}
	all = true
	seen := map[string]bool{}
	for i, name := range items {
		switch upper := strings.ToUpper(name); {
		case !isStreamName(name):
			l.add(variable, "item %d is not a stream name: use letters, digits and _", i+1)
			all = false
		case seen[upper]:
			l.add(variable, "item %d has the name of another stream, whatever the letter case: rename it", i+1)
		default:
			seen[upper] = true
			names = append(names, name)
		}
	}
	for name := range seen {
		reconcile, rate, _ := strings.Cut(reconcileRate, "_")
		if both := StreamPrefix(name) + reconcileRate; seen[name+"_"+reconcile] && l.env[both] != "" {
			l.add(both, "is %s of one stream and %s of another: rename one of the two, or leave it out", reconcileRate, rate)
		}
	}
	return names, all
}

func isStreamName(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool { return !isAlpha(r) && r != '_' && (r < '0' || r > '9') })
}

func isAlpha(r rune) bool { return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' }

// checkProcess checks what the tags cannot.
func (l *loader) checkProcess(cfg *Config) {
	if _, port, err := net.SplitHostPort(cfg.HTTPAddr); err != nil || !driver.IsPort(port) {
		l.add(prefix+"HTTP_ADDR", "invalid address: write host:port, as in 127.0.0.1:8080, or :8080 for all interfaces")
	}
	switch id := cfg.DomainID; {
	case !utf8.ValidString(id):
		l.add(prefix+"DOMAIN_ID", "is not valid UTF-8: write it in UTF-8")
	case strings.ContainsFunc(id, unicode.IsControl):
		// It is a header of each message. Blanks at its ends, which NATS trims, are gone already.
		l.add(prefix+"DOMAIN_ID", "has control characters: leave them out")
	}
}

func (l *loader) warn(variable, format string, args ...any) {
	l.warnings = append(l.warnings, Warning{variable, fmt.Sprintf(format, args...)})
}

// Fault is one thing wrong with the configuration. It never quotes the value of a variable.
type Fault struct {
	Variable string
	// Text says what is wrong and what would be right.
	Text string
}

// Error carries everything that is wrong with the configuration.
type Error struct {
	Faults []Fault
	// Unset says that no variable of bridge is set.
	Unset bool
}

const unset = `No variable of bridge is set, so there is nothing to publish.

  bridge demo                shows events within seconds, without any variable
  bridge init <url> <table>  asks your database and writes a file for a table
  bridge help variables      lists the variables; config.example.env has them
                             all, and --env-file reads such a file

`

// Error returns one line a fault, in the order of the variables.
func (e *Error) Error() string {
	var b strings.Builder
	if e.Unset {
		b.WriteString(unset)
	}
	b.WriteString("the configuration is wrong:")
	for _, f := range e.Faults {
		// A name may have control characters.
		name := strconv.QuoteToASCII(f.Variable)
		fmt.Fprintf(&b, "\n  %s: %s", name[1:len(name)-1], strings.Join(strings.Fields(f.Text), " "))
	}
	return b.String()
}

type faults struct{ all []Fault }

func (f *faults) add(variable, format string, args ...any) {
	f.all = append(f.all, Fault{variable, fmt.Sprintf(format, args...)})
}

// has reports whether something is wrong with a variable already.
func (f *faults) has(variables ...string) bool {
	return slices.ContainsFunc(f.all, func(one Fault) bool { return slices.Contains(variables, one.Variable) })
}

// err returns the faults, sorted and each once, or nil when there is none.
func (f *faults) err() error {
	if len(f.all) == 0 {
		return nil
	}
	slices.SortFunc(f.all, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(a.Variable, b.Variable), cmp.Compare(a.Text, b.Text))
	})
	return &Error{Faults: slices.Compact(f.all)}
}

// Suggestion returns ": did you mean <before><candidate>?" for the candidate that takes the fewest
// edits to write instead of name, whatever the letter case; a full stop where they replace more
// than a third of what is not a prefix of both.
func Suggestion(name, before string, candidates []string) string {
	// Longer names are no typing mistakes, and the work grows with the length.
	name = strings.ToUpper(name[:min(len(name), 128)])
	best, bestEdits, shared := "", 0, 0
	for _, candidate := range candidates {
		upper := strings.ToUpper(candidate)
		n := edits(name, upper)
		if len(name) > 2 && strings.HasPrefix(upper, name) {
			// A name that stops short is a likely one.
			n = min(n, 2)
		}
		if best == "" || n < bestEdits {
			best, bestEdits, shared = candidate, n, 0
			for shared < min(len(name), len(upper)) && name[shared] == upper[shared] {
				shared++
			}
		}
	}
	if best == "" || bestEdits > max(2, (len(name)-strings.LastIndex(name[:shared], "_")-1)/3) {
		return "."
	}
	return ": did you mean " + before + best + "?"
}

// edits counts the bytes to insert, remove, replace or swap with their neighbour to turn a into b.
func edits(a, b string) int {
	before, last, now := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		now[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			now[j] = min(last[j]+1, now[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				now[j] = min(now[j], before[j-2]+1)
			}
		}
		before, last, now = last, now, before
	}
	return last[len(b)]
}

const envFileVariable = prefix + "ENV_FILE"

// WithFile returns the "NAME=value" entries of environ, and before them those of a file that
// environ does not set: the file at path, or if that is empty at BRIDGE_ENV_FILE. It warns of names
// that stand there twice, or are nearly of bridge. The error is an *Error with all lines that are
// wrong, by file and number. It never quotes a value.
func WithFile(environ []string, path string) ([]string, []Warning, error) {
	named := "--env-file"
	if path == "" {
		named, path = envFileVariable, parseEnvironment(environ)[envFileVariable]
	}
	if path == "" {
		return environ, nil, nil
	}
	var l loader
	text, err := os.ReadFile(path)
	if failed, ok := errors.AsType[*fs.PathError](err); ok {
		l.add(named, "names the file %s, which cannot be read: %v", path, failed.Err)
	}
	values, lines := map[string]string{}, map[string]int{}
	// Editors of Windows begin a file with U+FEFF.
	for i, line := range strings.Split(strings.TrimPrefix(string(text), "\ufeff"), "\n") {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		value, err := fileValue(strings.TrimSpace(value))
		switch {
		case !ok || !variableName.MatchString(name):
			err = errors.New("is not a variable: write NAME=value, or # before a comment")
		case name == envFileVariable:
			err = errors.New(envFileVariable + " has no effect in the file that it names: leave it out")
		}
		if err != nil {
			l.add(fmt.Sprintf("%s:%d", path, i+1), "%v", err)
		}
		if before := lines[name]; before > 0 {
			l.warn(name, "stands in lines %d and %d of %s, of which the last one counts: remove the other", before, i+1, path)
		}
		values[name], lines[name] = value, i+1
	}
	for _, entry := range environ {
		if name, value, _ := strings.Cut(entry, "="); strings.TrimSpace(value) != "" {
			delete(values, name)
		}
	}
	var all []string
	for _, name := range slices.Sorted(maps.Keys(values)) {
		all = append(all, name+"="+values[name])
		if begin, _, is := strings.Cut(name, "_"); is && edits(strings.ToUpper(begin)+"_", prefix) == 1 {
			l.warn(name, "is not of bridge, whose names begin with %s: correct it if it is to be", prefix)
		}
	}
	return append(all, environ...), l.warnings, l.err()
}

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// fileValue returns a value without the quotes around it. What systemd and a shell would change in
// it is an error, because Docker would not.
func fileValue(value string) (string, error) {
	quote := value[:min(1, len(value))]
	if quote != `'` && quote != `"` {
		quote = ""
	}
	inner, closed := strings.CutSuffix(strings.TrimPrefix(value, quote), quote)
	switch {
	case quote != "" && (!closed || len(value) == 1 || strings.Contains(inner, quote)):
		return "", errors.New("has a quote that does not end with the line: write both, or neither")
	case quote != `'` && strings.Contains(inner, `\`):
		return "", errors.New(`has a backslash: put the value into single quotes`)
	case strings.Contains(inner, "\x00"):
		return "", errors.New("has a zero byte: leave it out")
	}
	return inner, nil
}
