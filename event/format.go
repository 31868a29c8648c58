package event

import (
	"bytes"
	"fmt"
	"hash/fnv"
	"strconv"
	"time"

	"example.org/bridge/source"
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
	// FormatPayload is a column as it is: that of Options.Payload, and of no other stream.
	FormatPayload Format = "payload"
)

// Format returns the format that the encoder writes.
func (e *Encoder) Format() Format { return e.options.Format }

// Form is how an event is written. Its identity does not depend on it.
type Form struct {
	// Format is one of the constants, Version is meta.version.
	Format  Format
	Version string
}

// As has the encoder write another form from now on.
func (e *Encoder) As(form Form) {
	e.options.Format = form.Format
	if form.Version != e.options.Version {
		e.options.Version = form.Version
		e.types = typesOf(&e.options)
	}
}

// moment is meta.time.
func (f *finding) moment() time.Time {
	if f.time.IsZero() {
		return f.row.Read
	}
	return f.time
}

// write adds the values that became null to bad.
func (e *Encoder) write(dst []byte, f *finding, bad *int) ([]byte, error) {
	switch e.options.Format {
	case FormatCloudEvents:
		return e.writeCloudEvent(dst, f, bad)
	case FormatRow:
		dst, err := e.appendMembers(append(dst, '{'), f, bad)
		if err == nil && dst[len(dst)-1] == ',' {
			dst = dst[:len(dst)-1]
		}
		return append(dst, '}'), err
	case FormatPayload:
		return append(dst, f.row.Values[e.plan.payload.value]...), nil
	default:
		return e.writeEiffel(dst, f, bad)
	}
}

func (e *Encoder) writeEiffel(dst []byte, f *finding, bad *int) ([]byte, error) {
	dst = append(append(dst, `{"meta":{"id":"`...), f.id...)
	dst = append(dst, f.kind.head...)
	dst = strconv.AppendInt(dst, f.moment().UnixMilli(), 10)
	dst = append(dst, e.origin...)
	dst, err := e.appendMembers(dst, f, bad)
	if err != nil {
		return dst, err
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
	return append(dst, `]}`...), nil
}

// cloudTime is the layout of the attribute time: RFC 3339 in UTC, to the millisecond as meta.time.
const cloudTime = `2006-01-02T15:04:05.000Z`

// writeCloudEvent appends a CloudEvent by Eiffel's binding: its attributes are taken from meta, and
// its data is the document. A subject must not be empty.
func (e *Encoder) writeCloudEvent(dst []byte, f *finding, bad *int) ([]byte, error) {
	dst = append(append(dst, `{"specversion":"1.0","id":"`...), f.id...)
	dst = append(dst, f.kind.cloud...)
	dst = f.moment().UTC().AppendFormat(dst, cloudTime)
	dst = append(dst, '"')
	if len(f.key) > 0 {
		// A key is printable UTF-8.
		dst, _ = appendString(append(dst, `,"subject":`...), f.key)
	}
	dst = append(dst, `,"datacontenttype":"application/json","data":`...)
	dst, err := e.writeEiffel(dst, f, bad)
	return append(dst, '}'), err
}

const (
	// Version is the version of the schemas, and meta.version of events whose options name no
	// other; see the Eiffel protocol's rules of versioning before changing it.
	Version = "1.0.0"
	// tombstone is data.reason of a row that is there and marked as deleted.
	tombstone        = "TOMBSTONE"
	filtered         = "FILTERED"
	absentInSnapshot = "ABSENT_IN_SNAPSHOT"
	// stale is data.reason of a row that was not touched for too long, and counts as gone.
	stale = "STALE"
)

// AppendURI appends the URI of a stream: source of a CloudEvent.
func AppendURI[T string | []byte](dst []byte, domain, stream T) []byte {
	dst = appendPercent(append(dst, `bridge://`...), domain)
	return appendPercent(append(dst, '/'), stream)
}

// appendPercent encodes each byte that is not unreserved in a URI (RFC 3986, section 2.3).
func appendPercent[T string | []byte](dst []byte, text T) []byte {
	for i := range len(text) {
		b := text[i]
		switch {
		case b >= 'a' && b <= 'z', b >= 'A' && b <= 'Z', b >= '0' && b <= '9', b == '-', b == '.', b == '_', b == '~':
			dst = append(dst, b)
		default:
			dst = append(dst, '%', upperHex[b>>4], upperHex[b&0xf])
		}
	}
	return dst
}

// finding is what an event is made of: a row, and what it says.
type finding struct {
	row  Row
	kind *eventType
	// time is the time of the row, zero where it has none.
	time  time.Time
	state [16]byte
	// reason is data.reason of a deleted event.
	reason string
	// key is the key of the event, nil for that of row; id is the text of its meta.id.
	key []byte
	id  string
	// said are the members of an event that is written again, nil for those of the row.
	said []RawMember
}

// encode appends the event of a finding, whose row has the shape of the plan, to buf.
func (e *Encoder) encode(buf []byte, f finding) ([]byte, Event, error) {
	ev := Event{Type: f.kind.name, Version: e.options.Version, Schema: e.plan.schema, Op: f.kind.op, Time: f.time, FromClock: f.time.IsZero(), Digest: f.state}
	if f.state != ([16]byte{}) {
		ev.Born = e.plan.born(f.row.Values)
	}
	_, err := ParseID(f.row.Predecessor)
	switch {
	case ev.FromClock && f.row.Read.IsZero():
		err = errNoTime
	case err != nil:
		err = errPredecessor
	}
	if err != nil {
		return buf, Event{}, fmt.Errorf("encode row %d of table %s: %w", f.row.ID, e.options.Table, err)
	}
	start := len(buf)
	out := append(buf, f.key...)
	if f.key == nil {
		out = e.texts.append(buf, e.plan.columns, f.row.Values)
	}
	key := len(out)
	if f.kind.op == Deleted {
		ev.Reason = f.reason
	}
	id := e.identity.id(e.plan.columns.Key, &f)
	f.key = out[start:key:key]
	f.id = e.identity.texts.Of(appendUUID(make([]byte, 0, uuidLen), id))
	out, err = e.write(out, &f, &ev.BadValues)
	if err != nil {
		return out[:start], Event{}, err
	}
	end := len(out)
	if e.options.Format == FormatPayload {
		if out == nil {
			// Empty is not null, which would be a tombstone.
			out = []byte{}
		}
		out = e.beside.fill(out, e.plan, e.options.Payload, e.values, f.row.Values, &ev)
	}
	ev.ID, ev.UUID, ev.Key, ev.Body = f.id, id, out[start:key:key], out[key:end:end]
	return out, ev, nil
}

// appendMembers puts a comma after each member, and adds the values that became null to bad.
func (e *Encoder) appendMembers(dst []byte, f *finding, bad *int) ([]byte, error) {
	for _, m := range f.said {
		dst = append(append(append(append(dst, m.Name...), ':'), m.Value...), ',')
	}
	members, row := e.plan.members, &f.row
	switch {
	case f.said != nil:
		return dst, nil
	case f.kind.op == Deleted:
		members = e.plan.keys
	}
	for i := range members {
		m := &members[i]
		dst = append(dst, m.name...)
		var fault string
		dst, fault = e.values.append(dst, &m.column, row.Values[m.index])
		if fault != "" {
			if e.options.BadValue == StopOnBad {
				return dst, &BadValueError{Table: e.options.Table, Row: row.ID, Column: m.column.Name, Fault: fault}
			}
			*bad++
		}
		dst = append(dst, ',')
	}
	return dst, nil
}

// RawMember is a member of data that is a column: its name and its value as they stand in JSON.
type RawMember struct{ Name, Value []byte }

// Said is what an event on a bus says.
type Said struct {
	ID [16]byte
	Op Op
	// Reason is data.reason of a deleted event, Time is meta.time.
	Reason string
	Time   time.Time
	// Key is the text of the key, Row data.row.id, Predecessor the meta.id that the link leads to.
	Key         []byte
	Row         uint64
	Predecessor string
	Members     []RawMember
	// Shard is the name of the shard that published it; empty for that of the encoder.
	Shard string
}

// finding returns what s is made of, without its id and its members.
func (s *Said) finding(e *Encoder) finding {
	kind := &e.types.live
	switch s.Op {
	case Modified:
		kind = &e.types.changed
	case Deleted:
		kind = &e.types.dead
	}
	return finding{row: Row{Row: source.Row{ID: s.Row}, Predecessor: s.Predecessor}, kind: kind, time: s.Time, reason: s.Reason, key: s.Key}
}

// Rewrite appends the value of a message that says s, in the form that the encoder writes.
func (e *Encoder) Rewrite(dst []byte, s *Said) []byte {
	f := s.finding(e)
	if f.id, f.said = FormatID(s.ID), s.Members; f.said == nil {
		f.said = []RawMember{}
	}
	dst, _ = e.write(dst, &f, nil) // values that stand there cannot be bad
	return dst
}

// IDOf returns the meta.id of s, of a row with these values and the digest. Of the values those of
// the key count. The encoder must be bound.
func (e *Encoder) IDOf(s *Said, values [][]byte, digest [16]byte) [16]byte {
	f, of := s.finding(e), e.identity
	f.row.Values, f.state = values, digest
	if s.Shard != "" {
		of = newIdentity(e.options.Stream, s.Shard)
	}
	return of.id(e.plan.columns.Key, &f)
}

// AppendValue appends a value of a column as the member that events have of it: null where it has
// no form in JSON.
func (e *Encoder) AppendValue(dst []byte, c *source.Column, v []byte) []byte {
	dst, _ = e.values.append(dst, c, v)
	return dst
}

// formVersion is that of the digest. Increase it where the same row has another one.
const formVersion = 1

// formOf returns a hash of all that digests, and hashes of CREATED, depend on besides the values of
// a row, never 0: those of two rows compare only where it is equal. It does not depend on the order
// of the columns, nor on the names of members.
func formOf(columns *source.Columns, list []hashed) uint32 {
	h := fnv.New32a()
	add := func(c *source.Column) {
		// It takes every write.
		_, _ = fmt.Fprintf(h, "%q %d %d %q;", c.Name, c.Kind, c.Precision, c.Mask)
	}
	_, _ = fmt.Fprint(h, formVersion)
	for i := range list {
		add(&columns.List[list[i].index])
	}
	if i := createdAt(columns); i >= 0 {
		_, _ = h.Write([]byte("created"))
		add(&columns.List[i])
	}
	return max(1, h.Sum32())
}

// createdAt returns the column of CREATED, -1 if there is none or updates change it.
func createdAt(columns *source.Columns) int {
	if columns.CreatedMoves {
		return -1
	}
	return columns.Created
}

// Form returns the hash of all that Digest and Born depend on besides the values of a row. The
// encoder must be bound.
func (e *Encoder) Form() uint32 { return e.plan.form }

// Born is a hash of a row's CREATED. Two rows of one id with different ones are two rows, but for a
// program that writes CREATED again. 0: no CREATED, or one that updates change.
type Born uint32

// Exact reports whether hardly two rows have the same: CREATED is finer than a second.
func (b Born) Exact() bool { return b&1 != 0 }

// BornOf returns the hash of a text that tells a row from others.
func BornOf(text []byte) Born { return born(text) | 1 }

// Born returns the hash of the CREATED of a row, which has the shape of the last Bind.
func (e *Encoder) Born(row source.Row) Born { return e.plan.born(row.Values) }

func (p *plan) born(row [][]byte) Born {
	i := createdAt(p.columns)
	if i < 0 || row[i] == nil || bytes.HasPrefix(row[i], []byte("0000-")) {
		return 0
	}
	if p.columns.List[i].Precision > 0 {
		return BornOf(row[i])
	}
	return max(2, born(row[i])&^1)
}

func born(text []byte) Born {
	h := fnv.New64a()
	_, _ = h.Write(text)
	return Born(h.Sum64()>>32 ^ h.Sum64())
}

// Telling returns the members of data that may tell a row from another one: not its id, MODIFIED
// and approximate numbers. The encoder must be bound.
func (e *Encoder) Telling() (names []string) {
	for _, m := range e.plan.members {
		if m.index != e.plan.columns.ID && m.index != e.plan.columns.Modified && m.column.Kind != source.Float {
			names = append(names, m.text)
		}
	}
	return names
}
