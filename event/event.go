package event

import (
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"example.org/bridge/source"
)

// Kind says what a row of a stream stands for.
type Kind string

// The kinds of streams.
const (
	// Capability: a row is the state of an entity.
	Capability Kind = "capability"
	// Release: a row is a fact in a log.
	Release Kind = "release"
)

// Op is the operation that an event reports.
type Op string

// The operations. Published belongs to release streams, the others to capability streams.
const (
	// Added: the entity is there, and was not before, as far as was published.
	Added Op = "added"
	// Modified: the entity has another state.
	Modified Op = "modified"
	// Deleted: the row says that the entity is deleted, or does not match the stream's condition,
	// or is gone.
	Deleted Op = "deleted"
	// Published: a row was added to a log.
	Published Op = "published"
)

// BadValue says how to treat a value that JSON or RFC 3339 cannot hold: a zero date, invalid UTF-8,
// a JSON column without JSON.
type BadValue string

// The ways to treat bad values.
const (
	// NullBad publishes null and counts the value.
	NullBad BadValue = "null"
	// StopOnBad refuses the row with a *BadValueError.
	StopOnBad BadValue = "stop"
)

// Field maps a column to a member of data.
type Field struct {
	Column, Member string
}

// Options describe the events of one shard.
type Options struct {
	// Stream and Shard are part of every meta.id.
	Stream, Shard string
	// Kind selects the event types.
	Kind Kind
	// Stem begins the event types: "StpCapability" makes StpCapabilityAddedEvent. Defaults to the
	// stream's name in upper camel case. It must not begin with "Eiffel".
	Stem string
	// Version is meta.version, three numbers with dots. Defaults to the version of the schemas.
	Version string
	// Format is how events are written. Defaults to FormatEiffel.
	Format Format
	// Names replaces the type of an operation by a name of its own; two operations may share one.
	Names map[Op]string
	// Fields is a whitelist of columns with their members, in the order of the members. Nil maps
	// every column to its name in camel case; so does an empty Member.
	Fields []Field
	// Payload, where it is not nil, has each event's value be a column: Fields and Format are of no
	// account.
	Payload *Payload
	// Exclude names columns that are no members, where Fields is nil.
	Exclude []string
	// Domain is meta.source.domainId. Defaults to "bridge".
	Domain string
	// Source and Table are data.row.source and data.row.table: the database and the physical table.
	Source, Table string
	// Zone is the zone of DATETIME columns. Defaults to UTC.
	Zone *time.Location
	// BadValue defaults to NullBad.
	BadValue BadValue
	// Deletion says which values of the DELETED column say that their row is deleted.
	Deletion Deletion
}

// Event is one encoded event. Its byte slices lie in the buffer that Append was given.
type Event struct {
	// ID is meta.id, a lower-case UUID of version 5, UUID the same in its binary form.
	ID   string
	UUID [16]byte
	// Type is meta.type, Version meta.version.
	Type, Version string
	// Schema is the hash of the Shape of the table's events, in text.
	Schema string
	// Op is the operation. Reason is data.reason of a deleted event, empty in others.
	Op     Op
	Reason string
	// Key names the entity: the text of its key columns, see AppendKeyText. Two rows of a shape are
	// about the same entity exactly when it is equal.
	Key []byte
	// Body is the event in the format of the options.
	Body []byte
	// Time is the age-relevant time of the row, MODIFIED else CREATED; zero when the row has none
	// or is gone.
	Time time.Time
	// FromClock says that meta.time is the clock given to Append, because the row has no time of
	// its own or is gone.
	FromClock bool
	// BadValues counts the values that were published as null because they could not be encoded.
	BadValues int
	// Digest is the first 16 bytes of a SHA-256 over the mapped columns without id,
	// CREATED, MODIFIED and NULLs. It is zero where the row is gone.
	Digest [16]byte
	// Born is the hash of CREATED, 0 where the row is gone.
	Born Born
	// Headers and Routed are those of a Payload: the headers of the row, and the values of the
	// columns of its destination. They are valid until the next call. Content is the content type,
	// empty for none. Unfit says why the row cannot be published, empty where it can.
	Headers []Header
	Routed  [][]byte
	Content string
	Unfit   string
}

// Row is a row to encode.
type Row struct {
	source.Row
	// Op is what the row means for its entity, where the caller knows: Modified for a row of a
	// capability stream whose entity is there already. Empty means Added, or Published in a release
	// stream. A row that says that it is deleted, or that is Filtered, is Deleted in any case.
	Op Op
	// State is the Digest of the row; zero when none was made.
	State [16]byte
	// Read is the database's clock when the row was read. It becomes meta.time if the row has no
	// time of its own.
	Read time.Time
	// Predecessor is the meta.id of the entity's last event, empty if there is none or it is not
	// known. It goes into meta.id, so that a state that comes back is another fact, and becomes a
	// PREVIOUS_VERSION link.
	Predecessor string
}

var suffixes = map[Op]string{
	Added:     "AddedEvent",
	Modified:  "ModifiedEvent",
	Deleted:   "DeletedEvent",
	Published: "PublishedEvent",
}

func opsOf(kind Kind) []Op {
	if kind == Release {
		return []Op{Published}
	}
	return []Op{Added, Modified, Deleted}
}

type eventType struct {
	op   Op
	name string
	// head is the JSON between meta.id and the value of meta.time.
	head []byte
	// cloud is the JSON between id and the value of time of a CloudEvent.
	cloud []byte
}

// typeOf returns the event type of an operation under o, which is valid.
func (o Options) typeOf(op Op) eventType {
	name, ok := o.Names[op]
	if !ok {
		name = o.Stem + suffixes[op]
	}
	head := append([]byte(nil), `","type":`...)
	head, _ = appendString(head, []byte(name))
	head = append(head, `,"version":"`+o.Version+`","time":`...)
	cloud := append(AppendURI([]byte(`","source":"`), o.Domain, o.Stream), `","type":`...)
	cloud, _ = appendString(cloud, []byte(name))
	cloud = append(cloud, `,"time":"`...)
	return eventType{op: op, name: name, head: head, cloud: cloud}
}

// VersionNumbers are the numbers of a meta.version: major, minor and patch.
type VersionNumbers [3]uint32

// ParseVersion reads a semantic version of three numbers below a billion, without pre-release and
// build. It is false for any other text.
func ParseVersion(text string) (v VersionNumbers, ok bool) {
	parts := strings.Split(text, ".")
	if len(parts) != len(v) {
		return v, false
	}
	for i, part := range parts {
		n, err := strconv.ParseUint(part, 10, 32)
		if err != nil || n >= 1_000_000_000 || strconv.FormatUint(n, 10) != part {
			return VersionNumbers{}, false
		}
		v[i] = uint32(n)
	}
	return v, true
}

// Compare orders versions by major, minor and patch.
func (v VersionNumbers) Compare(other VersionNumbers) int { return slices.Compare(v[:], other[:]) }

// String is the inverse of ParseVersion.
func (v VersionNumbers) String() string {
	return strconv.Itoa(int(v[0])) + "." + strconv.Itoa(int(v[1])) + "." + strconv.Itoa(int(v[2]))
}

// MemberName returns the member of a column without a name of its own: the words of the column's
// name in lower camel case ("app_name" makes appName, "DataChange_CreatedTime"
// dataChangeCreatedTime, "URL_path" urlPath). A name without a letter or digit stays as it is.
func MemberName(column string) string {
	list := words(column)
	if len(list) == 0 {
		return column
	}
	return strings.ToLower(list[0]) + camel(list[1:])
}

func camel(words []string) string {
	var b strings.Builder
	for _, word := range words {
		first, size := utf8.DecodeRuneInString(word)
		b.WriteRune(unicode.ToUpper(first))
		b.WriteString(strings.ToLower(word[size:]))
	}
	return b.String()
}

// words splits a name at everything but letters and digits with their accents, and where the case
// of letters says that a word begins. Digits belong to the word before them.
func words(name string) []string {
	var list []string
	runes := []rune(name)
	start := -1
	flush := func(end int) {
		if start >= 0 {
			list = append(list, string(runes[start:end]))
		}
	}
	for i, r := range runes {
		switch {
		case !unicode.In(r, unicode.Letter, unicode.Mark, unicode.Number):
			flush(i)
			start = -1
		case start < 0 || beginsWord(runes, i):
			flush(i)
			start = i
		}
	}
	flush(len(runes))
	return list
}

// beginsWord reports whether the upper-case letter at i, not the first, begins a word: after
// anything but one ("appId", "v2Id"), or as the last before a lower-case letter ("URLPath").
func beginsWord(runes []rune, i int) bool {
	if !unicode.IsUpper(runes[i]) {
		return false
	}
	return !unicode.IsUpper(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1])
}
