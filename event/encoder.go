package event

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"example.org/bridge/source"
)

// Errors of a caller that does not keep to the rules of Append.
var (
	errUnbound     = errors.New("encoder is not bound to columns: call Bind first")
	errNoTime      = errors.New("it has no time of its own and no time of its read")
	errPredecessor = errors.New("its predecessor is not a meta.id")
	errOp          = errors.New("its operation is not for the caller to say: leave it empty, or say added or modified in a capability stream")
)

// Encoder encodes the rows of one shard as events. It serves one goroutine at a time.
type Encoder struct {
	options Options
	plan    *plan
	types   eventTypes
	// origin is the JSON between meta.time and the members, row that between them and the row's id.
	origin, row []byte

	identity *identity
	values   *values
	// digested is the memory of a digest.
	digested []byte
	// plans are shared with other encoders, nil where they are not.
	plans *Plans
	// key is the buffer of Digest, keys and absent are that of AppendAbsent.
	key          []byte
	keys, absent [][]byte
	texts        keyTexts
	beside       beside
}

// NewEncoder returns an encoder of events under o; call Bind before Append. The error names every
// text of o that no event can carry.
func NewEncoder(o Options) (*Encoder, error) {
	o.Domain = cmp.Or(o.Domain, defaultDomain)
	o.Stem = cmp.Or(o.Stem, camel(words(o.Stream)))
	o.Version = cmp.Or(o.Version, Version)
	o.Format = cmp.Or(o.Format, FormatEiffel)
	o.BadValue = cmp.Or(o.BadValue, NullBad)
	o.Zone = cmp.Or(o.Zone, time.UTC)
	if o.Payload != nil {
		o.Format, o.Fields = FormatPayload, nil
		for _, name := range o.Payload.published() {
			o.Fields = append(o.Fields, Field{name, name})
		}
	}
	if err := o.validate(); err != nil {
		return nil, err
	}
	e := &Encoder{
		options:  o,
		identity: newIdentity(o.Stream, o.Shard),
		values:   &values{zone: o.Zone},
	}
	e.origin, _ = appendString([]byte(`,"source":{"domainId":`), []byte(o.Domain))
	e.origin = append(e.origin, `}},"data":{`...)
	e.row, _ = appendString([]byte(`"row":{"source":`), []byte(o.Source))
	e.row, _ = appendString(append(e.row, `,"table":`...), []byte(o.Table))
	e.row = append(e.row, `,"id":`...)
	e.types = typesOf(&o)
	return e, nil
}

type eventTypes struct {
	kind Kind
	// live is the type of a row that is there, changed that of one whose entity was there before,
	// dead that of one whose DELETED column says that it is not, or that is gone.
	live, changed, dead eventType
}

func typesOf(o *Options) eventTypes {
	if o.Kind == Release {
		return eventTypes{kind: o.Kind, live: o.typeOf(Published)}
	}
	return eventTypes{kind: o.Kind, live: o.typeOf(Added), changed: o.typeOf(Modified), dead: o.typeOf(Deleted)}
}

func (t *eventTypes) of(row *Row, deleted bool) (*eventType, error) {
	switch {
	case row.Op != "" && !(t.kind == Capability && (row.Op == Added || row.Op == Modified)):
		return nil, errOp
	case row.Filtered && t.kind == Capability, deleted:
		return &t.dead, nil
	case row.Op == Modified:
		return &t.changed, nil
	default:
		return &t.live, nil
	}
}

// Type returns the event type of an operation, empty if the kind of stream does not have it.
func (e *Encoder) Type(op Op) string {
	if !slices.Contains(opsOf(e.options.Kind), op) {
		return ""
	}
	return e.options.typeOf(op).name
}

// Version returns meta.version of the events.
func (e *Encoder) Version() string { return e.options.Version }

// Types returns the types of the events that Append and AppendAbsent make, each once.
func (e *Encoder) Types() []string {
	var types []string
	for _, op := range opsOf(e.options.Kind) {
		if name := e.Type(op); !slices.Contains(types, name) {
			types = append(types, name)
		}
	}
	return types
}

// Bind prepares the encoder for rows of this shape. Call it before the first Append and whenever
// the shape changes; for the shape it is bound to already it does nothing. The error names every
// fault at once; until a Bind succeeds, Append fails.
func (e *Encoder) Bind(columns *source.Columns) error {
	if e.plan != nil && e.plan.columns == columns {
		return nil
	}
	plan, err := e.plans.planFor(&e.options, columns)
	if err != nil {
		e.plan = nil
		return fmt.Errorf("map the columns of table %s: %w", e.options.Table, err)
	}
	e.plan = plan
	return nil
}

// Append appends the event of row to buf and returns the longer buffer and the event, whose byte
// slices lie in it; they stay valid when buf grows further, until it is overwritten. The row must
// have the shape of the last Bind; its values are not kept.
//
// On an error, a *BadValueError under StopOnBad, buf comes back as long as it was.
func (e *Encoder) Append(buf []byte, row Row) ([]byte, Event, error) {
	if err := e.checkShape(row.Row); err != nil {
		return buf, Event{}, err
	}
	deleted := e.plan.isDeleted(row.Values, &e.options)
	kind, err := e.types.of(&row, deleted)
	if err != nil {
		return buf, Event{}, fmt.Errorf("encode row %d of table %s: %w", row.ID, e.options.Table, err)
	}
	state := row.State
	if state == ([16]byte{}) {
		state, e.digested = e.plan.digest(e.digested, row.Values)
	}
	reason := tombstone
	if row.Filtered && !deleted {
		reason = filtered
	}
	return e.encode(buf, finding{row: row, kind: kind, time: e.plan.time(row.Values, e.options.Zone), state: state, reason: reason})
}

func (e *Encoder) checkShape(row source.Row) error {
	if e.plan == nil {
		return errUnbound
	}
	if got, want := len(row.Values), len(e.plan.columns.List); got != want {
		return fmt.Errorf("row %d of table %s has %d values for %d columns", row.ID, e.options.Table, got, want)
	}
	return nil
}

// isDeleted reports whether a row says that its entity is deleted. A fact in a log is never undone.
func (p *plan) isDeleted(values [][]byte, o *Options) bool {
	i := p.columns.Deleted
	return i >= 0 && o.Kind == Capability && o.Deletion.Says(p.columns.List[i], values[i])
}

// time returns MODIFIED, else CREATED, else the zero time. The first moment of the year 1, which
// some programs write for "never", is no time either.
func (p *plan) time(values [][]byte, zone *time.Location) time.Time {
	for _, i := range [...]int{p.columns.Modified, p.columns.Created} {
		if i < 0 {
			continue
		}
		if t, ok := p.columns.List[i].Time(values[i], zone); ok {
			return t
		}
	}
	return time.Time{}
}

// Source returns data.row.source of the events: the database.
func (e *Encoder) Source() string { return e.options.Source }

// Table returns the name of the table, as events have it.
func (e *Encoder) Table() string { return e.options.Table }

// Kind returns the kind of the stream.
func (e *Encoder) Kind() Kind { return e.options.Kind }

const defaultDomain = "bridge"

// validate checks the texts that every event carries, without which it would be no JSON or would
// not say whose it is. What else options may be is for the configuration to check.
func (o Options) validate() error {
	var faults []error
	for _, text := range []struct{ name, value string }{
		{"the stream's name", o.Stream}, {"the shard's name", o.Shard}, {"the name of the source", o.Source},
		{"TABLE", o.Table}, {"DOMAIN_ID", o.Domain},
	} {
		switch {
		case text.value == "":
			faults = append(faults, fmt.Errorf("%s is empty: give it a name", text.name))
		case !utf8.ValidString(text.value):
			faults = append(faults, fmt.Errorf("%s %q is not valid UTF-8: spell it in UTF-8", text.name, text.value))
		}
	}
	return errors.Join(faults...)
}

// digest returns the first 16 bytes of the SHA-256 over name and value of the columns that the plan
// hashes, each led by its length, in the order of the names, and the memory of that text, which was
// text. A NULL is left out, so that a new column without values changes nothing.
func (p *plan) digest(text []byte, row [][]byte) (digest [16]byte, memory []byte) {
	text = text[:0]
	for i := range p.hashed {
		if v := row[p.hashed[i].index]; v != nil {
			text = appendSized(append(text, p.hashed[i].name...), v)
		}
	}
	sum := sha256.Sum256(text)
	const keepBytes = 64 << 10
	if cap(text) > keepBytes {
		text = nil
	}
	return [16]byte(sum[:16]), text
}

// NamedValue is the value of a column, nil for NULL.
type NamedValue struct {
	Column string
	Value  []byte
}

// DigestOf returns the digest of these columns, which it sorts.
func DigestOf(list []NamedValue) [16]byte {
	slices.SortFunc(list, func(a, b NamedValue) int { return strings.Compare(a.Column, b.Column) })
	var text []byte
	for _, one := range list {
		if one.Value != nil {
			text = appendSized(appendSized(text, one.Column), one.Value)
		}
	}
	sum := sha256.Sum256(text)
	return [16]byte(sum[:16])
}

// errNoEntities is the error of an absent fact: a log may lose its old rows.
var errNoEntities = errors.New("a release stream has no deleted events")

// Absent is an entity whose row is gone.
type Absent struct {
	// Key is the Key of its last event.
	Key []byte
	// ID is the id of its last known row.
	ID uint64
	// Read is the database's clock of the read that did not find the row. It becomes meta.time.
	Read time.Time
	// Predecessor is the meta.id of the entity's last event, empty if it is not known. It tells two
	// disappearances of one row apart.
	Predecessor string
	// Stale says that the row is there, and was not touched for too long.
	Stale bool
}

// AppendAbsent appends the deleted event of an entity whose row is gone, like Append for a row. Its
// Digest is zero and FromClock is true. The table must have as many key columns as when the entity
// was last seen; the members of those that were of another kind then are null.
func (e *Encoder) AppendAbsent(buf []byte, a Absent) ([]byte, Event, error) {
	if e.options.Kind != Capability {
		return buf, Event{}, errNoEntities
	}
	keys, err := e.KeyValues(a.Key, e.keys[:0])
	if len(keys) == 0 {
		return buf, Event{}, fmt.Errorf("encode the absent row %d of table %s: %w", a.ID, e.options.Table, err)
	}
	// A deleted event has no other columns.
	n := len(e.plan.columns.List)
	e.keys, e.absent = keys, slices.Grow(e.absent[:0], n)[:n]
	clear(e.absent)
	for i, column := range e.plan.columns.Key {
		e.absent[column] = keys[i]
	}
	reason := absentInSnapshot
	if a.Stale {
		reason = stale
	}
	return e.encode(buf, finding{
		row:    Row{Row: source.Row{ID: a.ID, Values: e.absent}, Read: a.Read, Predecessor: a.Predecessor},
		kind:   &e.types.dead,
		reason: reason,
		key:    a.Key,
	})
}
