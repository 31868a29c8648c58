package stream

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/fnv"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/event"
	"example.org/bridge/sink"
)

// Message is what catch-up reads of a stored message of ours, by its headers and key alone.
type Message struct {
	// State is the header. Its Key is empty: see Key.
	State sink.State
	// Stream, Shard and Row say which row the message is about, Origin why it was published.
	Stream, Shard string
	Row           uint64
	Origin        sink.Origin
	// Key is the key of the entity, from the header where it has one. It is valid until
	// [Feed.Apply] returns.
	Key []byte
	// Event is the meta.id of the message.
	Event [16]byte
	// Time is when the message was published, by its header.
	Time time.Time
	At   store.At
	// Schema is zero where the message does not tell it, as a dead letter does not.
	Schema Schema
	// Late says that the entity is to be nominated: what the message says may be old (rule 7).
	Late bool
	// Dead says that this is the dead letter of an event that the bus refused (rule 19).
	Dead bool
}

// ParseMessage returns what a stored message of ours says by its headers and key. Stream, Shard and
// At are the caller's to set. Its Key is a part of m.
func ParseMessage(m *sink.Stored) (Message, error) {
	var f sink.Fields
	var message Message
	f.Read(m)
	err := message.parse(&f, m)
	return message, err
}

// errStateless is wrapped where a message of ours has no state: a version before catch-up wrote it.
var errStateless = errors.New("the message has no header " + sink.HeaderState)

// parse sets m to what the headers and the key of a stored message say, but for Stream, Shard and
// At. Its Key is a part of that one. It allocates nothing but an error.
func (m *Message) parse(f *sink.Fields, stored *sink.Stored) (err error) {
	if f.State == nil {
		return errStateless
	}
	*m = Message{Origin: originOf(f.Origin), Dead: string(f.Type) == sink.DeadLetterType}
	if m.State, m.Key, err = f.ParseState(stored); err != nil {
		return err
	}
	if m.Event, err = f.ParseID(); err != nil {
		return err
	}
	if len(f.RowID) == 0 {
		return errors.New("the message has no header " + sink.HeaderRowID)
	}
	if m.Row, err = f.ParseRowID(); err != nil {
		return err
	}
	if published := f.Published(stored); published != 0 {
		m.Time = time.UnixMilli(published).UTC()
	}
	if !m.Dead {
		m.Schema = parseSchema(f.Version, f.Schema)
	}
	return nil
}

// check returns an error where the store would refuse what it is to keep of the message.
func (m *Message) check(release bool) error {
	if m.Shard == "" {
		return errors.New("the message has no header " + sink.HeaderShard)
	}
	if release {
		return nil
	}
	change := store.Change{Entity: m.Key, Entry: entryOf(m)}
	if len(m.Key) == 0 {
		change.Entity = []byte{emptyKey}
	}
	return change.Check()
}

// originOf returns the origin without a copy of its text. One that is not known, of a newer
// version, is empty.
func originOf(text []byte) sink.Origin {
	for _, o := range [...]sink.Origin{sink.FromTail, sink.FromLate, sink.FromModified, sink.FromReconcile, sink.FromSnapshot, sink.FromRepublish} {
		if string(text) == string(o) {
			return o
		}
	}
	return ""
}

// Schema is what a message says of its members by its headers: the numbers of its version and the
// hash of members and types.
type Schema struct {
	Version [3]uint32
	Hash    [6]byte
}

// parseSchema returns what the headers say, zero where they say nothing that this version reads.
// The schema is not needed to tell what is published.
func parseSchema(version, hash []byte) (s Schema) {
	if len(hash) != hex.EncodedLen(len(s.Hash)) {
		return Schema{}
	}
	if _, err := hex.Decode(s.Hash[:], hash); err != nil || !parseVersion(&s.Version, version) {
		return Schema{}
	}
	return s
}

// parseVersion reads three numbers of up to nine digits with dots between.
func parseVersion(dst *[3]uint32, text []byte) bool {
	at, digits := 0, 0
	for _, c := range text {
		switch {
		case c == '.' && digits > 0 && at < len(dst)-1:
			at, digits = at+1, 0
		case c >= '0' && c <= '9' && digits < 9:
			dst[at], digits = dst[at]*10+uint32(c-'0'), digits+1
		default:
			return false
		}
	}
	return at == len(dst)-1 && digits > 0
}

// Scope says which rows with one key are one entity.
type Scope string

// The scopes: all tables of a stream share their entities, or each table has its own.
const (
	ScopeStream Scope = "stream"
	ScopeTable  Scope = "table"
)

// MeaningHash returns what a message says of the meaning of its key (rule 12): FNV-1a of 32 bits
// over the kind of the stream, the key columns in their order and the scope, each but the last
// with a byte 0 behind it. Case does not matter in names of columns.
func MeaningHash(kind string, key []string, scope Scope) uint32 {
	h := fnv.New32a()
	h.Write(append([]byte(kind), 0))
	for _, column := range key {
		h.Write(append([]byte(strings.ToLower(column)), 0))
	}
	h.Write([]byte(scope))
	return h.Sum32()
}

// Apply returns the entry of an entity after a message of it, and whether the message took effect.
// Entry and message stay as they are.
//
// It is rule 6: within a TP the higher offset wins, across TPs the higher stamp. A message with a
// lower stamp than the entry's, behind it in the same TP, takes effect and leaves the entry
// disputed; the entry keeps the higher stamp. A newer message, or that stamp again, ends the
// dispute. Of a message and its dead letter, which have one stamp, the message counts: an older one
// may come behind it. An entry without a TP is taken for one in the TP of the message, before it.
// Messages of one TP are to be applied in their order, and then the order in which TPs are read
// does not matter. To apply a message twice changes nothing.
func Apply(e store.Entry, m *Message) (next store.Entry, applied bool) {
	known, sameTP := e.State != store.Unknown, e.At.TP == m.At.TP
	goesBack := m.State.Epoch < e.Epoch || m.State.Epoch == e.Epoch && m.State.Seq < e.Seq
	same := m.State.Epoch == e.Epoch && m.State.Seq == e.Seq
	switch {
	case !known:
		return entryOf(m), true
	case e.At.TP == 0:
	case sameTP && m.At.Offset+1 <= e.At.Offset+1: // BeforeFirst wraps to 0.
		return e, false
	case !sameTP && (goesBack || same && m.Dead):
		return e, false
	}
	next = entryOf(m)
	if goesBack {
		next.Epoch, next.Seq, next.Disputed = e.Epoch, e.Seq, true
	}
	return next, true
}

// Renewed returns an entry as it is once its TP has been registered again as tp, to be read from
// the beginning (rule 21). It is disputed until a message with its stamp, or a newer one, is read
// there. An entry is to be renewed before Apply and before a decision.
func Renewed(e store.Entry, tp uint32) store.Entry {
	e.At, e.Disputed = store.At{TP: tp, Offset: store.BeforeFirst}, true
	return e
}

func entryOf(m *Message) store.Entry {
	e := store.Entry{Shard: m.Shard, Row: m.Row, Event: m.Event, At: m.At, Epoch: m.State.Epoch, Seq: m.State.Seq}
	if m.State.Event != [16]byte{} {
		// Rule 19: the next event links to the refused one, not to its dead letter.
		e.Event = m.State.Event
	}
	switch m.State.Kind {
	case sink.StateTombstone:
		e.State = store.Tombstone
	case sink.StateAbsent:
		e.State, e.Since = store.Absent, m.Time.UTC().Truncate(time.Second)
	default:
		e.State, e.Digest = store.Live, m.State.Digest
	}
	return e
}

// HashMessage returns the hash of an anchor at a message of ours (rule 20): of what its publisher
// knows. key is that of the entity, event the meta.id of the message, so that of the dead letter
// and not of the refused event.
func HashMessage(key []byte, event [16]byte, epoch, seq uint64) uint64 {
	var d xxhash.Digest
	d.Reset()
	var fixed [32]byte
	copy(fixed[:16], event[:])
	binary.LittleEndian.PutUint64(fixed[16:], epoch)
	binary.LittleEndian.PutUint64(fixed[24:], seq)
	// A digest never fails to write.
	_, _ = d.Write(fixed[:])
	_, _ = d.Write(key)
	return max(d.Sum64(), 1)
}

// hashOther returns the hash of an anchor at any other message: of its key, value and headers, in
// whichever order these come.
func hashOther(m *sink.Stored) uint64 {
	h := xxhash.Sum64(m.Value)*31 + xxhash.Sum64(m.Key)
	for i := range m.Headers {
		h += xxhash.Sum64String(m.Headers[i].Name)*31 ^ xxhash.Sum64(m.Headers[i].Value)
	}
	return max(h, 1)
}

func hashStored(m *sink.Stored) uint64 {
	message, err := ParseMessage(m)
	return hashOf(m, &message, err)
}

// hashOf returns the hash of an anchor at m, of which message and err are what ParseMessage says.
func hashOf(m *sink.Stored, message *Message, err error) uint64 {
	if err != nil {
		return hashOther(m)
	}
	return HashMessage(message.Key, message.Event, message.State.Epoch, message.State.Seq)
}

// SchemaOf returns the schema of the events that an encoder makes, which is bound.
func SchemaOf(e *event.Encoder) *store.Schema {
	// The encoder has checked it.
	version, _ := event.ParseVersion(e.Version())
	shape := e.Shape()
	s := &store.Schema{Version: version, Hash: shape.Hash(), Members: make([]store.SchemaMember, len(shape))}
	for i, m := range shape {
		s.Members[i] = store.SchemaMember(m)
	}
	return s
}

// SchemaBreak is a change of events that consumers of their version have to be told of.
type SchemaBreak struct {
	// Version is the meta.version that was published with other members, Was and Is are the hashes.
	Version  event.VersionNumbers
	Was, Is  event.ShapeHash
	Members  []event.Difference
	nameless bool
}

// BreakOf compares the schema published last, nil for none, with that of the events to come. It
// returns nil where these have another version, or lack nothing. Where the store does not know the
// members, every other schema is a break.
func BreakOf(was, now *store.Schema) *SchemaBreak {
	if was == nil || was.Version != now.Version || was.Hash == now.Hash {
		return nil
	}
	b := &SchemaBreak{Version: was.Version, Was: was.Hash, Is: now.Hash}
	b.nameless = len(was.Members) == 0 && was.Hash != event.Shape{}.Hash()
	b.Members = shapeOf(now).Broken(shapeOf(was))
	if len(b.Members) == 0 && !b.nameless {
		return nil
	}
	return b
}

func shapeOf(s *store.Schema) event.Shape {
	shape := make(event.Shape, len(s.Members))
	for i, m := range s.Members {
		shape[i] = event.ShapeMember(m)
	}
	return shape
}

// String says what has changed.
func (b *SchemaBreak) String() string {
	if b.nameless {
		return "their members or types are others than those published last, and the checkpoint does not know which these were"
	}
	texts := make([]string, len(b.Members))
	for i, d := range b.Members {
		texts[i] = "member " + d.Name + " was " + d.Was + " and is "
		if d.Is == "" {
			texts[i] += "gone"
		} else {
			texts[i] += d.Is
		}
	}
	return strings.Join(texts, ", ")
}

// MeaningCommands returns the commands that resolve a progress that was made with another
// configuration, which was: the one that has the stream begin again, and the one that has the shard
// go on where it is. That is empty where the position says nothing under the present configuration:
// its ids are of another column, or a view belongs to it, which holds entities by their keys.
func MeaningCommands(key store.Key, was *store.Meaning, position uint64, differences store.Differences) (reset, goOn string) {
	reset = "bridge checkpoint reset " + key.Stream
	if was.Kind == string(event.Release) && !differences.Has("KIND") && !differences.Has("ID") {
		goOn = fmt.Sprintf("bridge checkpoint set %s %s %d", key.Stream, key.Shard, position)
	}
	return reset, goOn
}
