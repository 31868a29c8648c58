package verify

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"example.org/bridge/event"
	"example.org/bridge/sink"
)

// envelope is an event as a message has it, in whichever format. Its byte slices lie in the
// message.
type envelope struct {
	id, kind, version []byte
	// time is meta.time in milliseconds.
	time int64
	// uri names the stream: meta.source.uri of a former version, else it is made of
	// meta.source.domainId and the header.
	uri    []byte
	former bool
	// members are the columns in data; reason says why it is a deleted event.
	members []event.RawMember
	reason  string
	// database, table and row are data.row.
	database, table []byte
	row             uint64
	// predecessor is the target of the link, nil where there is none.
	predecessor []byte
	uuid, link  [16]byte
}

// textOf returns the text of a string in JSON, or what stands there.
func textOf(v []byte) string {
	if text, ok := unquote(v); ok {
		return string(text)
	}
	return string(v)
}

var (
	errNoJSON     = errors.New("it is no JSON")
	errNoEnvelope = errors.New("it has no meta with a source")
	errUnnamed    = errors.New("its headers name no table that is configured")
)

// format says how a message holds its event: a stream may have changed that.
func (m *Message) format() event.Format {
	switch {
	case m.Header[sink.HeaderContentType] == sink.ContentTypeCloud:
		return event.FormatCloudEvents
	case m.Header[sink.HeaderTime] != "":
		return event.FormatRow
	default:
		return event.FormatEiffel
	}
}

// read reads a message. claimed is the shard that its headers name, nil for none. After errNoJSON
// and errNoEnvelope nothing is known of the event; after another error the source, the database and
// the table are, where the message has them.
func (e *envelope) read(m *Message, claimed *table) error {
	*e = envelope{members: e.members[:0]}
	format := m.format()
	switch {
	case format == event.FormatRow && claimed == nil:
		return errUnnamed
	case format == event.FormatRow:
		return e.readRow(m, claimed)
	case !json.Valid(m.Value):
		return errNoJSON
	}
	document := m.Value
	if format == event.FormatCloudEvents {
		document = get(document, "data")
	}
	// In events of a release stream, reason is a column.
	return e.readDocument(document, m.Header[sink.HeaderStream], claimed != nil && claimed.Kind == event.Release)
}

// readDocument reads a valid document {meta, data, links}.
func (e *envelope) readDocument(document []byte, stream string, release bool) error {
	meta := get(document, "meta")
	origin := get(meta, "source")
	e.id, e.kind, e.version, e.uri = getText(meta, "id"), getText(meta, "type"), getText(meta, "version"), getText(origin, "uri")
	// What is not a number is seen when the event is encoded again.
	e.time, _ = strconv.ParseInt(string(get(meta, "time")), 10, 64)
	if e.former = len(e.uri) > 0; !e.former {
		domain := getText(origin, "domainId")
		if len(domain) == 0 {
			return errNoEnvelope
		}
		e.uri = event.AppendURI(nil, string(domain), stream)
	}
	var row []byte
	eachMember(get(document, "data"), func(name, value []byte) {
		switch {
		case string(name) == `"row"`:
			row = value
		case string(name) == `"reason"` && !release:
			reason, _ := unquote(value)
			e.reason = string(reason)
		default:
			e.members = append(e.members, event.RawMember{Name: name, Value: value})
		}
	})
	e.database, e.table = getText(row, "source"), getText(row, "table")
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
func (e *envelope) readRow(m *Message, claimed *table) (err error) {
	h := m.Header
	e.uri, e.database, e.table = []byte(claimed.uri), []byte(claimed.database), []byte(claimed.table)
	e.id, e.kind, e.version = []byte(h[sink.HeaderID]), []byte(h[sink.HeaderType]), []byte(h[sink.HeaderVersion])
	e.reason, e.predecessor = h[sink.HeaderReason], []byte(h[sink.HeaderPrevious])
	if !json.Valid(m.Value) || m.Value[skipBlank(m.Value, 0)] != '{' {
		return errNoJSON
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

// membersOf appends the members of an object to list.
func membersOf(list []event.RawMember, object []byte) []event.RawMember {
	eachMember(object, func(name, value []byte) { list = append(list, event.RawMember{Name: name, Value: value}) })
	return list
}

// get returns the value of a member of an object, nil where there is none.
func get(object []byte, name string) (value []byte) {
	eachMember(object, func(n, v []byte) {
		if len(n) == len(name)+2 && string(n[1:len(n)-1]) == name {
			value = v
		}
	})
	return value
}

// getText returns the text of a member that is a string.
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

// skipValue returns the end of the value that begins at i.
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
