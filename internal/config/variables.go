package config

import (
	"context"
	"encoding"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caarlos0/env/v11"
)

const (
	prefix       = "BRIDGE_"
	sourcePrefix = prefix + "SOURCE_"
	streamPrefix = prefix + "STREAM_"
	fileSuffix   = "_FILE"
)

// Variable is one variable as the tags of settings.go describe it.
type Variable struct {
	// Name is the full name, field that of the Go field.
	Name     string
	field    string
	group    string
	def      string
	doc      string
	example  string
	oneOf    []string
	min, max string
	// off is a value below min that is allowed, too, empty for none.
	off      string
	required bool
	secret   bool
	spaces   bool
	// value is the field.
	value reflect.Value
}

// variablesOf lists the variables of a group, a struct of settings that settings points to.
func variablesOf(settings any, prefix, group string) (all []Variable) {
	fields := reflect.ValueOf(settings).Elem()
	for i := range fields.NumField() {
		field := fields.Type().Field(i)
		tag := field.Tag
		name, option, _ := strings.Cut(tag.Get("env"), ",")
		v := Variable{
			Name: prefix + name, field: field.Name, group: group, value: fields.Field(i),
			def: tag.Get("envDefault"), doc: tag.Get("doc"), example: tag.Get("example"), min: tag.Get("min"), max: tag.Get("max"), off: tag.Get("off"),
			required: option == "required", secret: tag.Get("secret") == "true", spaces: tag.Get("spaces") == "kept",
		}
		if allowed := tag.Get("oneof"); allowed != "" {
			v.oneOf = strings.Split(allowed, ",")
		}
		all = append(all, v)
	}
	return all
}

// check checks the value against oneof, min and max. It brings one of the values allowed into its
// proper letter case.
func (v *Variable) check() error {
	if v.oneOf != nil {
		at := slices.IndexFunc(v.oneOf, func(allowed string) bool { return strings.EqualFold(v.value.String(), allowed) })
		if at < 0 {
			return fmt.Errorf("is not allowed: write one of %s", strings.Join(v.oneOf, ", "))
		}
		v.value.SetString(v.oneOf[at])
	}
	if v.min == "" {
		return nil
	}
	if n := v.value.Int(); (n < v.bound(v.min) || n > v.bound(v.max)) && (v.off == "" || n != v.bound(v.off)) {
		return fmt.Errorf("is out of range: write a value from %s", v.bounds())
	}
	return nil
}

func (v *Variable) bounds() string {
	text := v.min + " to " + v.max
	if v.off != "" {
		text += ", or " + v.off
	}
	return text
}

// bound parses a bound of the tags; the tests hold that all of them can be parsed.
func (v *Variable) bound(text string) int64 {
	n := reflect.New(v.value.Type()).Elem()
	_ = parse(n, text)
	return n.Int()
}

// The reference of all variables is made from the tags of settings.go, for people and for the tests
// that hold the files against it.

const (
	// referenceStream stands for the name of a stream in the reference.
	referenceStream = "<NAME>"
	endGroup        = "Source and sink"
	processGroup    = "The process"
	tuningGroup     = "Defaults for all streams"
	sourceGroup     = "One of several sources"
	streamGroup     = "One stream"
	overrideGroup   = "Overrides for one stream"
)

// Variables lists all variables, those of a stream with <NAME> in their names.
func Variables() []Variable { return allVariables(referenceStream, referenceStream) }

// allVariables lists all variables with those of one source and one stream, grouped. The variable
// that names the file of a secret comes behind it.
func allVariables(source, stream string) (all []Variable) {
	for _, v := range slices.Concat(globalVariables(), sourceVariables(source), streamVariables(stream)) {
		if v.group == overrideGroup {
			v.doc, v.def = "As "+prefix+strings.TrimPrefix(v.Name, StreamPrefix(stream))+", for this stream.", ""
		}
		if all = append(all, v); v.secret {
			when := "every connect"
			if v.Name == maskKeyVariable {
				when = "a reload"
			}
			all = append(all, Variable{
				Name: v.Name + fileSuffix, group: v.group, doc: "File that holds " + v.Name + ", read again at " + when + ". Set one of the two.",
				example: "/run/secrets/" + strings.ToLower(strings.TrimPrefix(v.Name, prefix)),
			})
		}
	}
	return all
}

// Group is the title of the variables that it is one of.
func (v *Variable) Group() string { return v.group }

// Fallback says what holds when the variable is not set.
func (v *Variable) Fallback() string {
	switch {
	case v.required:
		return "required"
	case v.group == overrideGroup:
		return "the global one"
	case v.def == "" && strings.Contains(strings.ToLower(v.doc), "default"):
		return "see text"
	case v.def == "":
		return "none"
	}
	return v.def
}

// Meaning is the doc with the values that are allowed.
func (v *Variable) Meaning() string {
	switch {
	case v.group == overrideGroup:
		return v.doc
	case v.oneOf != nil:
		return v.doc + " One of " + strings.Join(v.oneOf, ", ") + "."
	case v.min != "":
		return fmt.Sprintf("%s From %s.", v.doc, v.bounds())
	}
	return v.doc
}

// environment holds the BRIDGE_ variables that are set. One that is empty counts as not set.
type environment map[string]string

// parseEnvironment picks the variables of bridge out of "NAME=value" entries. White space around a
// value is dropped, save for variables that are spaced.
func parseEnvironment(environ []string, spaced ...string) environment {
	env := environment{}
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		ours, is := strings.CutPrefix(name, prefix)
		// Kubernetes sets SERVICE_* and PORT* for a Service named bridge, and the tests have
		// variables of their own.
		if !is || slices.ContainsFunc([]string{"TEST_", "SERVICE_", "PORT"}, func(begin string) bool { return strings.HasPrefix(ours, begin) }) {
			continue
		}
		if !slices.Contains(spaced, name) {
			value = strings.TrimSpace(value)
		}
		if value != "" {
			env[name] = value
		}
	}
	return env
}

func (d *Drivers) known(streams []string) []string {
	var all []string
	for _, v := range d.globalVariables() {
		all = append(all, v.names()...)
	}
	for _, stream := range streams {
		for _, v := range streamVariables(stream) {
			all = append(all, v.names()...)
		}
	}
	return all
}

func globalVariables() []Variable { return NewDrivers().globalVariables() }

func (d *Drivers) globalVariables() []Variable {
	if d.globals == nil {
		d.globals = slices.Concat(variablesOf(&endSettings{}, prefix, endGroup), variablesOf(&Process{}, prefix, processGroup), variablesOf(&Tuning{}, prefix, tuningGroup))
		for _, s := range d.settings() {
			d.globals = append(d.globals, variablesOf(s.Fields, prefix, s.Title)...)
		}
	}
	return d.globals
}

func streamVariables(stream string) []Variable {
	begin := StreamPrefix(stream)
	return append(variablesOf(&streamSettings{}, begin, streamGroup), variablesOf(&Tuning{}, begin, overrideGroup)...)
}

// StreamPrefix begins the names of a stream's variables.
func StreamPrefix(stream string) string { return streamPrefix + strings.ToUpper(stream) + "_" }

// defaultOf returns the default of a variable of the process, "" where it has none.
func defaultOf(name string) string {
	all := globalVariables()
	if i := slices.IndexFunc(all, func(v Variable) bool { return v.Name == name }); i >= 0 {
		return all[i].def
	}
	return ""
}

func (v *Variable) names() []string {
	if v.secret {
		return []string{v.Name, v.Name + fileSuffix}
	}
	return []string{v.Name}
}

// serviceLink matches what Kubernetes may have set for a Service whose name begins with "bridge-".
var serviceLink = regexp.MustCompile(`_SERVICE_(HOST|PORT)|_PORT(_|$)`)

// refuseUnknown adds a fault for every variable that nobody reads. Without knowing all streams,
// those that may belong to one are let pass, and so are those of sources without knowing all of
// these.
func (l *loader) refuseUnknown(streams []string, allStreams, allSources bool) {
	names := l.known(streams)
	for name := range l.env {
		ofSource := strings.HasPrefix(name, sourcePrefix)
		ofNoStream := strings.HasPrefix(name, streamPrefix) && !slices.ContainsFunc(streams, func(stream string) bool { return strings.HasPrefix(name, StreamPrefix(stream)) })
		if slices.Contains(names, name) || ofNoStream && !allStreams || ofSource && !allSources {
			continue
		}
		text := "is unknown" + Suggestion(name, "", names)
		switch {
		case ofNoStream:
			text += " It belongs to no stream of " + prefix + "STREAMS"
		case ofSource:
			text += " It belongs to no source of " + sourcesVariable
		case serviceLink.MatchString(name):
			text += " If Kubernetes sets it for a Service, put enableServiceLinks: false into the pod"
		default:
			text += " See bridge help variables"
		}
		l.add(name, "%s", text)
	}
}

// parsers replace those of the env package, whose errors quote the value.
var parsers = map[reflect.Type]env.ParserFunc{
	reflect.TypeFor[time.Duration](): parserOf[time.Duration], reflect.TypeFor[bool](): parserOf[bool],
	reflect.TypeFor[int](): parserOf[int], reflect.TypeFor[int64](): parserOf[int64],
}

func parserOf[T any](text string) (any, error) {
	var value T
	err := parse(reflect.ValueOf(&value).Elem(), text)
	return value, err
}

// parse sets a field to what text says. No error of a parser quotes the text: a password that was
// pasted into the wrong variable must not reach a log.
func parse(field reflect.Value, text string) error {
	switch to := field.Addr().Interface().(type) {
	case encoding.TextUnmarshaler:
		return to.UnmarshalText([]byte(text))
	case *time.Duration:
		d, err := time.ParseDuration(text)
		if err != nil {
			return errors.New("invalid duration: use a number with a unit, such as 200ms, 10s, 30m or 24h")
		}
		*to = d
	case *int, *int64:
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return errors.New("invalid number: use digits only, such as 2000")
		}
		field.SetInt(n)
	case *bool:
		b, err := strconv.ParseBool(strings.ToLower(text))
		if err != nil {
			return errors.New("must be true or false")
		}
		*to = b
	default:
		field.SetString(text)
	}
	return nil
}

// list is a comma-separated list: items are trimmed, empty ones dropped.
type list []string

func (l *list) UnmarshalText(text []byte) error {
	*l = nil
	for item := range strings.SplitSeq(string(text), ",") {
		if item = strings.TrimSpace(item); item != "" {
			*l = append(*l, item)
		}
	}
	if len(*l) == 0 {
		return errors.New("is a list without an item: write them with commas, or unset it")
	}
	return nil
}

// Percent is a share between 0 and 1.
type Percent float64

func (p *Percent) UnmarshalText(text []byte) error {
	number, ok := strings.CutSuffix(string(text), "%")
	f, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	// Not within, rather than outside: NaN is neither.
	if !ok || err != nil || !(f >= 0 && f <= 100) {
		return errors.New("invalid percentage: use a number from 0 to 100 with the sign, as in 10%")
	}
	*p = Percent(f / 100)
	return nil
}

// Zone is a time zone.
type Zone struct{ Location *time.Location }

func (z *Zone) UnmarshalText(text []byte) error {
	name := string(text)
	location, err := time.LoadLocation(name)
	// The host's zone would make other events on another host.
	if err != nil || name == "Local" {
		return errors.New("invalid time zone: use its name in the IANA database, as in UTC or Asia/Shanghai")
	}
	z.Location = location
	return nil
}

// Start says where a shard without a checkpoint begins.
type Start struct {
	// Latest takes the table as it stands for published.
	Latest bool
	// After is the id below the first one to publish, when latest is false; 0 is the beginning.
	After uint64
}

func (s *Start) UnmarshalText(text []byte) error {
	switch strings.ToLower(string(text)) {
	case "beginning":
		*s = Start{}
		return nil
	case "latest":
		*s = Start{Latest: true}
		return nil
	}
	id, err := strconv.ParseUint(string(text), 10, 64)
	if err != nil {
		return fmt.Errorf("invalid start: use beginning, latest, or an id from 0 to %d", uint64(math.MaxUint64))
	}
	*s = Start{After: id}
	return nil
}

// StreamLogger returns logger for the lines of one stream: their errors name settings by the
// stream's variables.
func StreamLogger(logger *slog.Logger, stream string) *slog.Logger {
	return slog.New(streamHandler{logger.Handler(), StreamText(stream)}).With("stream", stream)
}

type streamHandler struct {
	slog.Handler
	text func(error) string
}

func (h streamHandler) Handle(ctx context.Context, line slog.Record) error {
	named := slog.NewRecord(line.Time, line.Level, line.Message, line.PC)
	line.Attrs(func(a slog.Attr) bool {
		if err, ok := a.Value.Any().(error); ok {
			a.Value = slog.StringValue(h.text(err))
		}
		named.AddAttrs(a)
		return true
	})
	return h.Handler.Handle(ctx, named)
}

func (h streamHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	h.Handler = h.Handler.WithAttrs(attrs)
	return h
}

func (h streamHandler) WithGroup(name string) slog.Handler {
	h.Handler = h.Handler.WithGroup(name)
	return h
}
