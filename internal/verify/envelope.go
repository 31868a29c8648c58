package verify

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"example.org/bridge/event"
	"example.org/bridge/sink"
	"example.org/bridge/source"
)

// envelope is an event as a message has it, in whichever format. Its byte slices lie in the
// message.
type envelope struct {
	id, kind, version []byte
	// time is meta.time in milliseconds.
	time int64
	// members are the columns in data; reason says why it is a deleted event.
	members []event.RawMember
	reason  string
	row     uint64
	// predecessor is the target of the link, nil if there is none.
	predecessor []byte
	uuid, link  [16]byte
	// shard is the name of its table then, empty for that of now.
	shard string
}

// textOf returns the text of a string in JSON, or what stands there.
func textOf(v []byte) string {
	if text, ok := unquote(v); ok {
		return string(text)
	}
	return string(v)
}

const (
	notJSON    = "it is no JSON"
	noEnvelope = "it has no meta with a source"
)

// format says how a message holds its event: a stream may have changed that.
func (m *Message) format() event.Format {
	switch {
	case m.header[sink.HeaderContentType] == sink.ContentTypeCloud:
		return event.FormatCloudEvents
	case m.header[sink.HeaderTime] != "":
		return event.FormatRow
	default:
		return event.FormatEiffel
	}
}

func (m *Message) document() []byte {
	if m.format() == event.FormatCloudEvents {
		return get(m.Value, "data")
	}
	return m.Value
}

// asRow has a message whose value is a column say its row as one of the format row does: value and
// headers tell the columns of the digest.
func (s *schema) asRow(m *Message) {
	p := s.Encoder.Payload()
	if m.header[sink.HeaderFormat] != sink.PayloadFormat || p == nil {
		return
	}
	row, former := []byte{'{'}, s.formerForm(m) != 0
	for _, member := range s.Encoder.Members(false) {
		c := &s.columns.List[member.Column]
		at := slices.IndexFunc(p.Headers, func(h event.Field) bool { return s.columns.Same(h.Column, c.Name) })
		isPayload := s.columns.Same(p.Column, c.Name)
		if _, there := m.header[headerAt(p, at)]; former && !there && !isPayload {
			// It may not have been one then.
			continue
		}
		row = s.Encoder.AppendValue(row, &source.Column{Kind: source.Text}, []byte(member.Name))
		row = append(row, ':')
		if isPayload {
			// NATS does not tell an empty message from none.
			row = s.Encoder.AppendValue(row, c, append([]byte{}, m.Value...))
		} else if value, there := m.header[headerAt(p, at)]; there {
			row = event.AppendHeader(row, c, value)
		} else {
			row = append(row, "null"...)
		}
		row = append(row, ',')
	}
	row[len(row)-1] = '}'
	m.Value = row
	delete(m.header, sink.HeaderFormat)
}

// headerAt returns the name of a header of p, empty where it has none.
func headerAt(p *event.Payload, at int) string {
	if at < 0 {
		return ""
	}
	return p.Headers[at].Member
}

// formerForm returns the form of digests by which a message was made, where that is not the one of
// now: columns or MASK have changed, or PAYLOAD or HEADERS, and nothing says what they were.
func (s *schema) formerForm(m *Message) uint32 {
	form, _ := sink.ParseForm([]byte(m.header[sink.HeaderForm]))
	p := s.Encoder.Payload()
	for name := range m.header {
		if p != nil && !sink.IsReserved(name) && !slices.ContainsFunc(p.Headers, func(h event.Field) bool { return h.Member == name }) {
			return max(form, 1)
		}
	}
	switch {
	case form == s.Encoder.Form():
		return 0
	case p != nil:
		return max(form, 1)
	}
	return form
}

type origin struct{ source, table string }

// notAnEvent says why a message whose headers name the stream, or none, is neither an event of
// another table nor a tombstone.
func notAnEvent(m *Message, stream string) string {
	if stream != "" && (m.Value == nil || m.header[sink.HeaderFormat] == sink.PayloadFormat) {
		return ""
	}
	if !json.Valid(m.Value) {
		return notJSON
	}
	switch origin := get(get(m.document(), "meta"), "source"); {
	case len(getText(origin, "uri")) > 0, stream != "" && m.format() == event.FormatRow:
		return ""
	case len(getText(origin, "domainId")) == 0:
		return noEnvelope
	case stream != "":
		return ""
	}
	return "nothing says its stream: neither a header bridge-stream nor meta.source.uri"
}

// read reads a message of a shard of a kind. After an error the row and the id are there where the
// message has them.
func (e *envelope) read(m *Message, kind event.Kind) error {
	*e = envelope{members: e.members[:0]}
	if m.header[sink.HeaderFormat] != "" {
		return errors.New("its value is a column, and the stream has no PAYLOAD")
	}
	if !json.Valid(m.Value) {
		return errors.New(notJSON)
	}
	if m.format() == event.FormatRow {
		return e.readRow(m)
	}
	return e.readDocument(m.document(), kind)
}

// readDocument reads a valid document {meta, data, links}. In events of a release stream, reason is
// a column.
func (e *envelope) readDocument(document []byte, kind event.Kind) error {
	meta := get(document, "meta")
	e.id, e.kind, e.version = getText(meta, "id"), getText(meta, "type"), getText(meta, "version")
	// What is not a number is seen when the event is encoded again.
	e.time, _ = strconv.ParseInt(string(get(meta, "time")), 10, 64)
	if len(getText(get(meta, "source"), "domainId")) == 0 {
		return errors.New(noEnvelope)
	}
	var row []byte
	eachMember(get(document, "data"), func(name, value []byte) {
		switch {
		case string(name) == `"row"`:
			row = value
		case string(name) == `"reason"` && kind != event.Release:
			reason, _ := unquote(value)
			e.reason = string(reason)
		default:
			e.members = append(e.members, event.RawMember{Name: name, Value: value})
		}
	})
	var err error
	if e.row, err = strconv.ParseUint(string(get(row, "id")), 10, 64); err != nil {
		return errors.New("data.row has no id")
	}
	if links := get(document, "links"); string(links) != "[]" {
		var list []struct{ Target string }
		switch err := json.Unmarshal(links, &list); {
		case err != nil:
			return errors.New("it has no links")
		case len(list) != 1:
			return fmt.Errorf("it has %d links", len(list))
		case list[0].Target == "":
			return errors.New("its link leads nowhere")
		}
		e.predecessor = []byte(list[0].Target)
	}
	if len(e.id) == 0 {
		return errors.New("it has no meta.id")
	}
	return e.parseIDs()
}

// readRow reads a message whose value is the row alone: the headers say the rest.
func (e *envelope) readRow(m *Message) (err error) {
	h := m.header
	e.id, e.kind, e.version = []byte(h[sink.HeaderID]), []byte(h[sink.HeaderType]), []byte(h[sink.HeaderVersion])
	e.reason, e.predecessor = h[sink.HeaderReason], []byte(h[sink.HeaderPrevious])
	if m.Value[skipBlank(m.Value, 0)] != '{' {
		return errors.New("its value is not an object")
	}
	e.members = membersOf(e.members, m.Value)
	if e.time, err = strconv.ParseInt(h[sink.HeaderTime], 10, 64); err != nil {
		return errors.New("its header " + sink.HeaderTime + " does not hold milliseconds")
	}
	if e.row, err = strconv.ParseUint(h[sink.HeaderRowID], 10, 64); err != nil {
		return errors.New("its header " + sink.HeaderRowID + " does not hold an id")
	}
	if len(e.id) == 0 {
		return errors.New("it has no header " + sink.HeaderID)
	}
	return e.parseIDs()
}

func (e *envelope) parseIDs() (err error) {
	if e.link, err = event.ParseID(string(e.predecessor)); err != nil {
		return err
	}
	e.uuid, err = event.ParseID(string(e.id))
	return err
}

func membersOf(list []event.RawMember, object []byte) []event.RawMember {
	eachMember(object, func(name, value []byte) { list = append(list, event.RawMember{Name: name, Value: value}) })
	return list
}

func get(object []byte, name string) (value []byte) {
	eachMember(object, func(n, v []byte) {
		if len(n) == len(name)+2 && string(n[1:len(n)-1]) == name {
			value = v
		}
	})
	return value
}

func getText(object []byte, name string) []byte {
	text, _ := unquote(get(object, name))
	return text
}

// eachMember calls each with the name and the value of every member of an object, as they stand; a
// value that is none has no members. The document must be valid JSON. encoding/json would take
// about as long as all else that is done for an event.
func eachMember(object []byte, each func(name, value []byte)) {
	i := skipBlank(object, 0)
	if i >= len(object) || object[i] != '{' {
		return
	}
	for i = skipBlank(object, i+1); object[i] == '"'; {
		end := skipValue(object, i)
		name := object[i:end]
		i = skipBlank(object, skipBlank(object, end)+1)
		end = skipValue(object, i)
		each(name, object[i:end])
		if i = skipBlank(object, end); object[i] == ',' {
			i = skipBlank(object, i+1)
		}
	}
}

func skipBlank(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\t' || b[i] == '\n' || b[i] == '\r') {
		i++
	}
	return i
}

func skipValue(b []byte, i int) int {
	for depth := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			for i++; b[i] != '"'; i++ {
				if b[i] == '\\' {
					i++
				}
			}
			if depth == 0 {
				return i + 1
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
			if depth < 0 {
				return i
			}
		case ',', ' ', '\t', '\n', '\r':
			if depth == 0 {
				return i
			}
		}
	}
	return i
}

// unquote returns the text of a JSON string; ok is false for another value.
func unquote(v []byte) (text []byte, ok bool) {
	if len(v) < 2 || v[0] != '"' {
		return nil, false
	}
	if inner := v[1 : len(v)-1]; bytes.IndexByte(inner, '\\') < 0 {
		return inner, true
	}
	var s string
	err := json.Unmarshal(v, &s)
	return []byte(s), err == nil
}
