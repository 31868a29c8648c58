package sink

import (
	"fmt"
	"slices"
	"strings"

	"example.org/bridge/client/bus"
)

// ParseTopic reads a template of Kafka topics. Neither {type} nor {key} is allowed: topics are not
// made on the fly, and a message's key already tells entities apart. Whether values make a legal
// topic shows only with the values: see CheckTopic.
func ParseTopic(text string) (*Template, error) {
	t, err := ParseTemplate(text, "stream", "source", "table", "family", "tag", "domain", anyColumn)
	if err != nil {
		return nil, err
	}
	for _, p := range t.parts {
		if i := bus.BadTopicByte(p.literal); i >= 0 {
			return nil, fmt.Errorf("destination %q has %q, a Kafka topic has only letters, digits and . _ -", text, p.literal[i:i+1])
		}
	}
	return t, nil
}

// ParseSubject reads a template of NATS subjects. All placeholders are allowed; each makes a part
// of one token, escaped by EscapeToken, so that every event gets a legal subject. Only {domain} may
// make several: its dots separate tokens.
func ParseSubject(text string) (*Template, error) {
	t, err := ParseTemplate(text)
	if err != nil {
		return nil, err
	}
	t.dotted = true
	filled := t.Append(nil, Vars{}, EscapeToken)
	if err := CheckSubject(string(filled)); err != nil {
		return nil, fmt.Errorf("destination %q: %w", text, err)
	}
	return t, nil
}

// CheckSubject returns nil if name is a NATS subject that can be published to: tokens joined by
// dots, none empty, no wildcard, no white space, nothing that belongs to the server ("$").
func CheckSubject(name string) error {
	if name == "" {
		return fmt.Errorf("the NATS subject is empty, give it a name")
	}
	if strings.HasPrefix(name, "$") {
		return fmt.Errorf("the NATS subject %q begins with '$', which the server keeps for itself", name)
	}
	for token := range strings.SplitSeq(name, ".") {
		if token == "" {
			return fmt.Errorf("the NATS subject %q has an empty token: a dot at its beginning or end, or two in a row", name)
		}
	}
	for i := range len(name) {
		switch c := name[i]; {
		case c == '*' || c == '>':
			return fmt.Errorf("the NATS subject %q has the wildcard %q, events need one subject", name, string(c))
		case c <= ' ' || c == 0x7f:
			return fmt.Errorf("the NATS subject %q has white space or a control character", name)
		}
	}
	return nil
}

// Vars are the values of a template's placeholders for one event.
type Vars struct {
	// Stream, Source, Table, Family, Tag and Domain are the same for all events of a shard.
	Stream, Source, Table, Family, Tag, Domain string
	// Type is the event's meta.type.
	Type string
	// Key is the event's entity key.
	Key []byte
	// Columns are the values of the columns that [Template.Columns] names.
	Columns [][]byte
}

// placeholders are in the order in which errors list them.
var placeholders = []string{"stream", "source", "table", "type", "family", "tag", "domain", "key", anyColumn}

// anyColumn stands for the placeholders of columns, which begin with column.
const anyColumn, column = "column:name", "column:"

// Template makes destinations. It is immutable.
type Template struct {
	text  string
	parts []part
	// dotted: the dots of {domain} stand as they are, and each part between them goes through the
	// escape.
	dotted bool
	// columns are named by the parts with the placeholder column, each once.
	columns []string
}

// part is literal text or, where that is not empty, a placeholder: column is the index of its
// column.
type part struct {
	literal, placeholder string
	column               int
}

// ParseTemplate reads a template over {stream}, {source}, {table}, {type}, {family}, {tag},
// {domain}, {key} and {column:name}, or over those that are allowed, in the order of errors. There
// is no way to write a literal brace: no bus that bridge knows has use for one in a destination.
func ParseTemplate(text string, allowed ...string) (*Template, error) {
	if len(allowed) == 0 {
		allowed = placeholders
	}
	list := "{" + strings.Join(allowed, "} {") + "}"
	t := &Template{text: text}
	if text == "" {
		return nil, fmt.Errorf("the destination is empty, write a name or %s", list)
	}
	for rest := text; rest != ""; {
		literal, after, found := strings.Cut(rest, "{")
		if strings.Contains(literal, "}") {
			return nil, fmt.Errorf("destination %q has a '}' without a '{' before it", text)
		}
		if literal != "" {
			t.parts = append(t.parts, part{literal: literal})
		}
		if !found {
			break
		}
		name, after, closed := strings.Cut(after, "}")
		if !closed {
			return nil, fmt.Errorf("destination %q has a '{' that is not closed, allowed are %s", text, list)
		}
		rest = after
		if of, is := strings.CutPrefix(name, column); is && of != "" && slices.Contains(allowed, anyColumn) {
			at := slices.Index(t.columns, of)
			if at < 0 {
				at, t.columns = len(t.columns), append(t.columns, of)
			}
			t.parts = append(t.parts, part{placeholder: column, column: at})
			continue
		}
		if !slices.Contains(allowed, name) {
			return nil, fmt.Errorf("destination %q has the placeholder {%s}, allowed are %s", text, name, list)
		}
		t.parts = append(t.parts, part{placeholder: name})
	}
	return t, nil
}

// Columns returns the columns that the destination depends on, each once.
func (t *Template) Columns() []string { return t.columns }

// String returns the text that was parsed.
func (t *Template) String() string { return t.text }

// Uses reports whether the template has the placeholder with this name, written without braces.
func (t *Template) Uses(name string) bool {
	return slices.ContainsFunc(t.parts, func(p part) bool { return name != "" && p.placeholder == name })
}

// ConstantPerType reports whether all events of one shard that have the same type go to the same
// destination, so that the destination can be made once a type.
func (t *Template) ConstantPerType() bool { return !t.Uses("key") && len(t.columns) == 0 }

// An Escape appends value to dst in the form in which a bus takes it in a destination, and returns
// the extended dst. It must not keep value.
type Escape func(dst []byte, value string) []byte

// Append appends the destination of an event to dst and returns the extended dst. Values go through
// escape, literal text does not. It allocates nothing but a larger dst.
func (t *Template) Append(dst []byte, v Vars, escape Escape) []byte {
	for _, p := range t.parts {
		switch p.placeholder {
		case "":
			dst = append(dst, p.literal...)
		case "stream":
			dst = escape(dst, v.Stream)
		case "source":
			dst = escape(dst, v.Source)
		case "table":
			dst = escape(dst, v.Table)
		case "type":
			dst = escape(dst, v.Type)
		case "family":
			dst = escape(dst, v.Family)
		case "tag":
			dst = escape(dst, v.Tag)
		case "domain":
			dst = t.appendDomain(dst, v.Domain, escape)
		case "key":
			if t.dotted && string(v.Key) == "_" {
				// That is what an empty key makes.
				dst = append(dst, "%5F"...)
				break
			}
			// A conversion would allocate for each event; escape keeps nothing.
			dst = escape(dst, textOf(v.Key))
		case column:
			value := ""
			if p.column < len(v.Columns) {
				value = textOf(v.Columns[p.column])
			}
			dst = escape(dst, value)
		}
	}
	return dst
}

func (t *Template) appendDomain(dst []byte, domain string, escape Escape) []byte {
	for t.dotted {
		part, rest, more := strings.Cut(domain, ".")
		if !more {
			break
		}
		dst, domain = append(escape(dst, part), '.'), rest
	}
	return escape(dst, domain)
}

// OneTokenDomain returns the template as versions before dotted domains filled it in: the whole
// domain is one token.
func (t *Template) OneTokenDomain() *Template {
	former := *t
	former.dotted = false
	return &former
}

// EscapeNone appends value as it is: Kafka topics know no escaping. CheckTopic tells whether the
// result is a topic.
func EscapeNone(dst []byte, value string) []byte { return append(dst, value...) }

// EscapeToken appends value as one token of a NATS subject: every byte outside [A-Za-z0-9_-] as %XX
// in upper case, and nothing at all as "_".
func EscapeToken(dst []byte, value string) []byte {
	const hex = "0123456789ABCDEF"
	if value == "" {
		return append(dst, '_')
	}
	for i := range len(value) {
		if c := value[i]; bus.IsTokenByte(c) {
			dst = append(dst, c)
		} else {
			dst = append(dst, '%', hex[c>>4], hex[c&15])
		}
	}
	return dst
}
