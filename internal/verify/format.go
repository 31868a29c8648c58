package verify

import (
	"encoding/json"
	"errors"
	"hash/maphash"
	"strconv"

	"bridge/event"
	"bridge/sink"
)

// format says how a message holds its event: a stream may have changed that.
func (m *Message) format() event.Format {
	switch {
	case m.Header.ContentType == sink.ContentTypeCloud:
		return event.FormatCloudEvents
	case m.Header.Time != "":
		return event.FormatRow
	default:
		return event.FormatEiffel
	}
}

// formOf returns the form of a message whose event is e. A message without bridge-state and
// eiffel-version, which old versions wrote, has the version of the configuration.
func (s *schema) formOf(m *Message, e *envelope) event.Form {
	f := event.Form{Format: m.format(), Version: s.plain.Version, Former: e.former}
	if (m.Header.Version != "" || m.Header.State != "") && string(e.version) != f.Version {
		if _, ok := event.ParseVersion(string(e.version)); ok {
			f.Version = string(e.version)
		}
	}
	return f
}

// manyForms is the number of forms that have no number of their own.
const manyForms = 1<<5 - 1

// form is how an event is written: of which members, and around them.
type form struct {
	event.Form
	variant *variant
}

// numberOf returns the number of a form.
func (s *schema) numberOf(f form) int64 {
	for n, known := range s.forms {
		if known == f {
			return int64(n)
		}
	}
	if len(s.forms) == manyForms {
		return manyForms
	}
	s.forms = append(s.forms, f)
	return int64(len(s.forms) - 1)
}

// write has the encoder write a form.
func (s *schema) write(f event.Form) { s.Encoder.As(f) }

// errUnnamed is the error of a row that is of no shard of the configuration.
var errUnnamed = errors.New("its headers name no table that is configured")

// read reads a message, in whichever format, into e. claimed is the shard that its headers name,
// nil for none. The errors are those of parse.
func (e *envelope) read(m *Message, claimed *shard) error {
	e.facts = claimed != nil && claimed.Kind == event.Release
	document := m.Value
	switch m.format() {
	case event.FormatCloudEvents:
		var err error
		if document, err = unwrap(m.Value); err != nil {
			e.clear()
			return err
		}
	case event.FormatRow:
		return e.readRow(m, claimed)
	}
	err := e.parse(document)
	if !e.former {
		e.uri = event.AppendURI(e.named[:0], string(e.domain), m.Header.Stream)
		e.named = e.uri
	}
	return err
}

// unwrap returns the data of a CloudEvent.
func unwrap(value []byte) (data []byte, err error) {
	if !json.Valid(value) {
		return nil, errNoJSON
	}
	eachMember(value, func(name, v []byte) bool {
		if string(name) == `"data"` {
			data = v
		}
		return true
	})
	if data == nil {
		return nil, errNoEnvelope
	}
	return data, nil
}

// readRow reads a message whose value is the row alone: the headers say the rest.
func (e *envelope) readRow(m *Message, claimed *shard) (err error) {
	e.clear()
	if claimed == nil {
		return errUnnamed
	}
	h := &m.Header
	e.uri, e.database, e.table = []byte(claimed.uri), []byte(claimed.database), []byte(claimed.table)
	e.id, e.kind, e.reason, e.version = []byte(h.ID), []byte(h.Type), h.Reason, []byte(h.Version)
	if !json.Valid(m.Value) || !eachMember(m.Value, func(name, v []byte) bool { e.members = append(e.members, member{name, v}); return true }) {
		return errNoJSON
	}
	if e.time, err = strconv.ParseInt(h.Time, 10, 64); err != nil {
		return errors.New("its header " + sink.HeaderTime + " does not hold milliseconds")
	}
	if e.row, err = strconv.ParseUint(h.RowID, 10, 64); err != nil {
		return errors.New("its header " + sink.HeaderRowID + " does not hold an id")
	}
	if h.Previous != "" {
		e.predecessor = []byte(h.Previous)
		if e.link, err = event.ParseID(h.Previous); err != nil {
			return err
		}
	}
	if h.ID == "" {
		return errors.New("it has no header " + sink.HeaderID)
	}
	e.uuid, err = event.ParseID(h.ID)
	return err
}

// bodyOf digests what a message in a format says of its event: of a row, its time is in a header.
func bodyOf(format event.Format, value []byte, millis int64) uint64 {
	sum := maphash.Bytes(seed1, value)
	if format == event.FormatRow {
		sum ^= uint64(millis) * 0x9e3779b97f4a7c15
	}
	return sum
}

// encodeAs encodes a row in a form, in s.spare. ok is false where the form does not tell how.
func (s *schema) encodeAs(f form, row event.Row) (ev event.Event, ok bool) {
	encoder := s.Encoder
	if f.variant != nil {
		if encoder = f.variant.encoder; encoder == nil {
			return ev, false
		}
		if row.Row, ok = f.variant.row(row.Row, s.columns); !ok {
			return ev, false
		}
	}
	encoder.As(f.Form)
	defer s.write(s.plain)
	buf, ev, err := encoder.Append(s.spare[:0], row)
	if err == nil {
		s.spare = buf
	}
	return ev, err == nil
}
