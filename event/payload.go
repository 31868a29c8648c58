package event

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"example.org/bridge/internal/option"
	"example.org/bridge/source"
)

// Payload describes events whose value is a column as it is, as in an outbox: what else they say is
// in headers.
type Payload struct {
	// Column has the value: JSON, text or bytes.
	Column string
	// Headers are columns that become headers; Member is the name of the header.
	Headers []Field
	// Routed are the columns that the destination depends on.
	Routed []string
}

// Columns returns the columns to read, each once.
func (p *Payload) Columns() []string {
	return distinct(append(p.published(), p.Routed...))
}

// published returns the columns of the digest: where a row goes is no part of what it says.
func (p *Payload) published() []string {
	list := []string{p.Column}
	for _, h := range p.Headers {
		list = append(list, h.Column)
	}
	return distinct(list)
}

func distinct(names []string) (list []string) {
	for _, name := range names {
		if !slices.ContainsFunc(list, func(other string) bool { return strings.EqualFold(other, name) }) {
			list = append(list, name)
		}
	}
	return list
}

// Header is a header that a row has beside those of every event.
type Header struct {
	Name  string
	Value []byte
}

// payload is where a plan finds what Payload names: indexes of columns, and the content type.
type payload struct {
	value           int
	headers, routed []int
	content         string
}

func (o Options) payloadOf(columns *source.Columns) (p payload, faults []error) {
	find := func(setting option.Name, name string) int {
		i := slices.IndexFunc(columns.List, func(c source.Column) bool { return columns.Same(c.Name, name) })
		if i < 0 {
			faults = append(faults, option.Errorf("%s names the column %q, which table %s does not have: correct it to one of %s", setting, name, o.Table, names(columns)))
		}
		return i
	}
	p.value, p.content = find(option.Payload, o.Payload.Column), o.Payload.ContentType(columns)
	for _, h := range o.Payload.Headers {
		p.headers = append(p.headers, find(option.Headers, h.Column))
	}
	for _, name := range o.Payload.Routed {
		p.routed = append(p.routed, find(option.Destination, name))
	}
	if p.value >= 0 && !slices.Contains([]source.Kind{source.JSON, source.Text, source.Binary}, columns.List[p.value].Kind) {
		faults = append(faults, option.Errorf("%s names the column %q, which is neither JSON nor text nor bytes: name the column that has the message", option.Payload, o.Payload.Column))
	}
	return p, faults
}

// ContentType returns the content type of the values, which columns has; empty where the column
// does not tell it.
func (p *Payload) ContentType(columns *source.Columns) string {
	for i := range columns.List {
		if c := &columns.List[i]; columns.Same(c.Name, p.Column) && c.Kind == source.JSON {
			return "application/json"
		}
	}
	return ""
}

// badHeader is refused for every bus: NATS trims blanks, and ends a header at a line break.
const badHeader = "has a control character, or a blank at its beginning or end"

// beside is the memory of what events say beside their payload.
type beside struct {
	headers []Header
	routed  [][]byte
}

// fill sets that of a row to ev, and appends its headers to dst.
func (b *beside) fill(dst []byte, of *plan, o *Payload, s *values, row [][]byte, ev *Event) []byte {
	p := &of.payload
	if row[p.value] == nil {
		ev.Unfit = fmt.Sprintf("its column %s is NULL, and a message needs a value", o.Column)
	}
	b.headers, b.routed = b.headers[:0], b.routed[:0]
	for _, i := range p.routed {
		b.routed = append(b.routed, row[i])
	}
	for n, i := range p.headers {
		if row[i] == nil {
			continue
		}
		start := len(dst)
		var fault string
		dst, fault = s.appendPlain(dst, &of.columns.List[i], row[i])
		value := dst[start:len(dst):len(dst)]
		if fault == "" && (bytes.IndexFunc(value, isControl) >= 0 || len(bytes.Trim(value, " ")) < len(value)) {
			fault = badHeader
		}
		if h := o.Headers[n]; fault != "" {
			ev.Unfit = fmt.Sprintf("its column %s %s, so it makes no header %s", h.Column, fault, h.Member)
		} else {
			b.headers = append(b.headers, Header{h.Member, value})
		}
	}
	ev.Headers, ev.Routed, ev.Content = b.headers, b.routed, p.content
	return dst
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f }

// appendPlain appends a value as append does, and a string without its quotes and escapes.
func (s *values) appendPlain(dst []byte, c *source.Column, v []byte) (out []byte, fault string) {
	start := len(dst)
	out, fault = s.append(dst, c, v)
	switch {
	case fault != "" || c.Kind == source.JSON || out[start] != '"':
		return out, fault
	case bytes.IndexByte(out[start:], '\\') >= 0:
		// A text: nothing else is escaped.
		return append(out[:start], v...), ""
	}
	n := copy(out[start:], out[start+1:len(out)-1])
	return out[:start+n], ""
}

// AppendHeader is the inverse of the header of a column: it appends the member of data that the
// column would be.
func AppendHeader(dst []byte, c *source.Column, header string) []byte {
	switch c.Kind {
	case source.Int, source.Float, source.Bit, source.JSON:
		return append(dst, header...)
	}
	dst, _ = appendString(dst, []byte(header))
	return dst
}

// Payload returns what the options say, nil for a stream of other events.
func (e *Encoder) Payload() *Payload { return e.options.Payload }
