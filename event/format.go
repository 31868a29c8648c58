package event

import (
	"fmt"
	"strconv"
	"time"
)

// Format says how an event is written as the value of a message. Its identity does not depend on
// it.
type Format string

// The formats.
const (
	// FormatEiffel is the JSON document {meta, data, links}.
	FormatEiffel Format = "eiffel"
	// FormatCloudEvents is a CloudEvent 1.0 in structured mode whose data is that document.
	FormatCloudEvents Format = "cloudevents"
	// FormatRow is a JSON object of the members of data that are columns, and nothing else.
	FormatRow Format = "row"
)

// layout is the number of a format. A function for each would cost a copy of the finding, or an
// allocation.
type layout uint8

const (
	noLayout layout = iota
	eiffelLayout
	cloudLayout
	rowLayout
)

// layouts are those of the formats.
var layouts = map[Format]layout{FormatEiffel: eiffelLayout, FormatCloudEvents: cloudLayout, FormatRow: rowLayout}

// written is what is known of an event once its value is written.
type written struct {
	// id is the text of meta.id, bad counts the values that became null.
	id  string
	bad int
}

// formatFault returns an error unless the format is known.
func (o Options) formatFault() error {
	if layouts[o.Format] == noLayout {
		return fmt.Errorf("EVENT_FORMAT: %q is not known: use %q, %q or %q", o.Format, FormatEiffel, FormatCloudEvents, FormatRow)
	}
	return nil
}

// Format returns the format that the encoder writes.
func (e *Encoder) Format() Format { return e.options.Format }

// Form is how an event is written. Its identity does not depend on it.
type Form struct {
	// Format is one of the constants, Version is meta.version.
	Format  Format
	Version string
	// Former says that meta.source has name, serializer and uri, as former versions wrote them.
	Former bool
}

// As has the encoder write another form from now on.
func (e *Encoder) As(form Form) {
	if form.Format != e.options.Format {
		e.options.Format, e.layout = form.Format, layouts[form.Format]
	}
	if form.Version != e.options.Version {
		e.options.Version = form.Version
		e.setTypes()
	}
	if form.Former != e.former {
		e.former = form.Former
		e.origin = e.options.appendOrigin(e.origin[:0], form.Former)
	}
}

// moment is meta.time.
func (f *finding) moment() time.Time {
	if f.time.IsZero() {
		return f.row.Read
	}
	return f.time
}

// write appends the value of a message, which is an event.
func (e *Encoder) write(dst []byte, f *finding, id [16]byte) ([]byte, written, error) {
	switch e.layout {
	case cloudLayout:
		return e.writeCloudEvent(dst, f, id)
	case rowLayout:
		return e.writeRow(dst, f, id)
	default:
		return e.writeEiffel(dst, f, id)
	}
}

// writeEiffel appends the JSON document.
func (e *Encoder) writeEiffel(dst []byte, f *finding, id [16]byte) ([]byte, written, error) {
	dst = append(dst, `{"meta":{"id":"`...)
	at := len(dst)
	dst = appendUUID(dst, id)
	w := written{id: e.identity.texts.Of(dst[at:])}
	dst = append(dst, f.kind.head...)
	dst = strconv.AppendInt(dst, f.moment().UnixMilli(), 10)
	dst = append(dst, e.origin...)
	dst, err := e.appendMembers(dst, &w.bad, f.kind.op, f.row)
	if err != nil {
		return dst, w, err
	}
	if f.kind.op == Deleted {
		dst = append(append(append(dst, `"reason":"`...), f.reason...), `",`...)
	}
	dst = append(dst, e.row...)
	dst = strconv.AppendUint(dst, f.row.ID, 10)
	dst = append(dst, `}},"links":[`...)
	if f.row.Predecessor != "" {
		dst = append(dst, `{"type":"PREVIOUS_VERSION","target":"`...)
		dst = append(dst, f.row.Predecessor...)
		dst = append(dst, `"}`...)
	}
	return append(dst, `]}`...), w, nil
}

// cloudTime is the layout of the attribute time: RFC 3339 in UTC, to the millisecond as meta.time.
const cloudTime = `2006-01-02T15:04:05.000Z`

// writeCloudEvent appends a CloudEvent by Eiffel's binding: its attributes are taken from meta, and
// its data is the document. A subject must not be empty.
func (e *Encoder) writeCloudEvent(dst []byte, f *finding, id [16]byte) ([]byte, written, error) {
	dst = append(dst, `{"specversion":"1.0","id":"`...)
	dst = appendUUID(dst, id)
	dst = append(dst, f.kind.cloud...)
	dst = f.moment().UTC().AppendFormat(dst, cloudTime)
	dst = append(dst, '"')
	if len(f.key) > 0 {
		// A key is printable UTF-8.
		dst, _ = appendString(append(dst, `,"subject":`...), f.key)
	}
	dst = append(dst, `,"datacontenttype":"application/json","data":`...)
	dst, w, err := e.writeEiffel(dst, f, id)
	return append(dst, '}'), w, err
}

// writeRow appends the members alone.
func (e *Encoder) writeRow(dst []byte, f *finding, id [16]byte) ([]byte, written, error) {
	at := len(dst)
	dst = appendUUID(dst, id)
	w := written{id: e.identity.texts.Of(dst[at:])}
	dst = append(dst[:at], '{')
	dst, err := e.appendMembers(dst, &w.bad, f.kind.op, f.row)
	if err != nil {
		return dst, w, err
	}
	if dst[len(dst)-1] == ',' {
		dst = dst[:len(dst)-1]
	}
	return append(dst, '}'), w, nil
}
