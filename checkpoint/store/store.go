package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"time"

	"example.org/bridge/internal/form"
	"example.org/bridge/internal/inspect"
	"example.org/bridge/source"
)

// Errors of a store. Test with errors.Is; the wrapping error names the folder and the remedy.
var (
	// ErrDamaged is returned when a store cannot be read. The next Open sets it aside.
	ErrDamaged = errors.New("store is damaged")
	// ErrSetAside is returned by Open when it has moved a store away that was damaged or has an
	// older format: another Open makes an empty one, which catches up from the bus.
	ErrSetAside = errors.New("store was set aside")
	// ErrOlder is returned when an older version of bridge wrote the store. Open
	// sets it aside.
	ErrOlder = errors.New("store was written by an older version")
	// ErrNewer is returned when a newer version of bridge wrote the store.
	ErrNewer = errors.New("store was written by a newer version")
	// ErrForeign is returned when the store's path has files that are not bridge's.
	ErrForeign = errors.New("not a store of bridge")
	// ErrLocked is returned when another process uses the store.
	ErrLocked = errors.New("store is in use by another process")
	// ErrOutage is returned while the disk takes no writes. The store retries by itself; apply the
	// batch again later.
	ErrOutage = errors.New("store cannot write")
	// ErrClosed is returned by a store that is closed.
	ErrClosed = errors.New("store is closed")
)

// Key names a shard.
type Key struct {
	// Stream is the stream's name, Shard the physical table as the configuration spells it.
	Stream, Shard string
}

// Compare orders keys by stream and shard.
func (k Key) Compare(other Key) int {
	return cmp.Or(cmp.Compare(k.Stream, other.Stream), cmp.Compare(k.Shard, other.Shard))
}

// Store is the local cache of what the bus holds. It is safe for concurrent use.
type Store interface {
	// Load returns the epoch, the registrations and the progress of all shards, as one image.
	Load(ctx context.Context) (Image, error)
	// Progress returns that of one shard, and false if there is none.
	Progress(ctx context.Context, key Key) (p Progress, found bool, err error)
	// Parts returns the parts of one kind of a shard in the order of their numbers, beginning with
	// the last one at or below from, else with the first. They are of one image and are copies. An
	// error ends them.
	Parts(ctx context.Context, key Key, kind Kind, from uint64) iter.Seq2[Part, error]
	// Lookup appends to dst the entry of each entity in a stream's view that asks name, in their
	// order; the zero Entry where there is none. It is fastest in the order of rows.
	Lookup(ctx context.Context, stream string, asks []Ask, dst []Entry) ([]Entry, error)
	// ByRow appends to dst up to limit entries of a shard that have a row above after, in ascending
	// order of their rows and then of their entities: those that are live, tombstones or recorded.
	// An entity whose key was changed in place shares its row with its successor: those of the last
	// row are all there, beyond limit if need be. The entities are copies.
	ByRow(ctx context.Context, key Key, after uint64, limit int, dst []Change) ([]Change, error)
	// Scan returns the entries of a stream's view in any order. They are of one image, however
	// long it takes, and memory is constant. The disk keeps what is replaced meanwhile until the
	// scan ends. An entity is valid until the next one. An error ends them.
	Scan(ctx context.Context, stream string) iter.Seq2[Change, error]
	// Apply makes all changes of a batch or, when it returns an error, none. It keeps no reference
	// to the batch. It may block until the disk has taken what was applied before. The changes are
	// not durable until Sync. Of many changes, batches of about 2,000 cost least, in any order.
	Apply(ctx context.Context, batch *Batch) error
	// ForgetAbsent removes up to limit entities of a shard, or without one of a stream's view, that
	// were found absent before the given time, oldest first, and returns how many: below limit when
	// no more are left. It is applied like a batch.
	ForgetAbsent(ctx context.Context, of Key, before time.Time, limit int) (int, error)
	// Sync makes the applied batches durable. When ctx ends first it returns the cause; what was
	// applied becomes durable all the same, later. While the disk takes no writes it returns
	// ErrOutage.
	Sync(ctx context.Context) error
	// Damaged is closed once damage was seen, also beside all calls; from then on they return
	// ErrDamaged. It is nil where a store cannot be damaged.
	Damaged() <-chan struct{}
	// Close makes the applied batches durable and releases the store. No other method may be
	// running.
	Close() error
}

// Inspection is the result of looking at a store without changing it.
type Inspection struct {
	inspect.Report
	// Shards are the shards whose START was decided, in the order of stream and shard.
	Shards []ShardState
	// Known says that Shards is complete. It is false if the store is damaged or in use.
	Known bool
}

// ShardState is what a store holds of a shard.
type ShardState struct {
	Key      Key
	Progress Progress
	// Meaning is nil where the store does not know it.
	Meaning *Meaning
	// Schema is nil where the store does not know it.
	Schema *Schema
}

// Meaning is the part of a shard's configuration that its progress depends on. With another one,
// the ids of the position or the entities of the view would mean something else.
type Meaning struct {
	// Kind is the kind of the stream: a release shard has no view.
	Kind string
	// Table is the physical table with its database, "database.table"; empty for any.
	Table string
	// ID is the column of the ids.
	ID string
	// Key names the columns that identify an entity, in the order in which they are encoded; the id
	// alone where KEY is not set. None stands for any.
	Key []string
}

// Differences returns the settings by which now differs from m; none where the progress still
// holds. The case of ASCII letters does not count in names of columns. That of others does, as they
// are two columns in SQLite.
func (m *Meaning) Differences(now *Meaning) Differences {
	var list Differences
	add := func(setting, was, is string) { list = append(list, Difference{setting, was, is}) }
	if m.Kind != now.Kind {
		add("KIND", m.Kind, now.Kind)
	}
	if m.Table != "" && m.Table != now.Table {
		add("TABLE", m.Table, now.Table)
	}
	if !source.ASCIICase.Same(m.ID, now.ID) {
		add("ID", m.ID, now.ID)
	}
	if len(m.Key) > 0 && !slices.EqualFunc(m.Key, now.Key, source.ASCIICase.Same) {
		add("KEY", strings.Join(m.Key, ","), strings.Join(now.Key, ","))
	}
	return list
}

// Difference is one setting that has changed since progress was made.
type Difference struct{ Setting, Was, Is string }

// Differences are the settings that have changed since progress was made.
type Differences []Difference

func (d Differences) String() string {
	texts := make([]string, len(d))
	for i, one := range d {
		texts[i] = one.Setting + " was " + one.Was + " and is " + one.Is
	}
	return strings.Join(texts, ", ")
}

// Has reports whether a setting has changed.
func (d Differences) Has(setting string) bool {
	return slices.ContainsFunc(d, func(one Difference) bool { return one.Setting == setting })
}

const (
	meaningVersion = 1
	schemaVersion  = 1
)

// AppendMeaning appends the bytes of the part MeaningPart to dst, in the words of [form]: version,
// kind, table, id, the number of key columns and each of them, and the seal.
func AppendMeaning(dst []byte, m *Meaning) []byte {
	b := []byte{meaningVersion}
	for _, text := range []string{m.Kind, m.Table, m.ID} {
		b = form.AppendText(b, text)
	}
	b = form.AppendUints(b, uint64(len(m.Key)))
	for _, column := range m.Key {
		b = form.AppendText(b, column)
	}
	return append(dst, form.Seal(b)...)
}

// parseMeaning reads what AppendMeaning wrote. The error wraps ErrDamaged.
func parseMeaning(b []byte) (*Meaning, error) {
	f := form.Open(b, meaningVersion)
	m := &Meaning{Kind: f.Text(), Table: f.Text(), ID: f.Text()}
	for range f.Count() {
		m.Key = append(m.Key, f.Text())
	}
	if err := f.End(); err != nil {
		return nil, fmt.Errorf("%w: a meaning: %w", ErrDamaged, err)
	}
	return m, nil
}

// LoadMeaning returns the meaning of a shard's progress, nil where it has none.
func LoadMeaning(ctx context.Context, s Store, key Key) (*Meaning, error) {
	return loadPart(ctx, s, key, MeaningPart, parseMeaning)
}

// loadPart returns the only part of a kind, nil if there is none.
func loadPart[T any](ctx context.Context, s Store, key Key, kind Kind, parse func([]byte) (*T, error)) (*T, error) {
	for part, err := range s.Parts(ctx, key, kind, 0) {
		if err != nil {
			return nil, err
		}
		v, err := parse(part.Bytes)
		if err != nil {
			return nil, fmt.Errorf("shard %s of %s: %w", key.Shard, key.Stream, err)
		}
		return v, nil
	}
	return nil, nil
}

// Schema is what the events of a shard looked like when it published last: those that the bus has
// acknowledged, or that were read there.
type Schema struct {
	// Version holds the numbers of their meta.version.
	Version [3]uint32
	// Hash tells their members and types from others.
	Hash [6]byte
	// Members are these, in the order of their names; none where the bus alone told the hash.
	Members []SchemaMember
	// Epoch and Seq are the stamp of a message that is so: what older ones say does not count.
	Epoch, Seq uint64
}

// SchemaMember is a member of events and the type of its values.
type SchemaMember struct{ Name, Type string }

// AppendSchema appends the bytes of the part SchemaPart to dst, in the words of [form]: version,
// the numbers of meta.version, the hash (6 bytes), epoch, seq, the number of members, their names
// and types, and the seal.
func AppendSchema(dst []byte, s *Schema) []byte {
	b := []byte{schemaVersion}
	for _, n := range s.Version {
		b = form.AppendUints(b, uint64(n))
	}
	b = form.AppendUints(append(b, s.Hash[:]...), s.Epoch, s.Seq, uint64(len(s.Members)))
	for _, m := range s.Members {
		b = form.AppendText(form.AppendText(b, m.Name), m.Type)
	}
	return append(dst, form.Seal(b)...)
}

// parseSchema reads what AppendSchema wrote. The error wraps ErrDamaged.
func parseSchema(b []byte) (*Schema, error) {
	f, s := form.Open(b, schemaVersion), &Schema{}
	for i := range s.Version {
		n := f.Uint()
		if s.Version[i] = uint32(n); n > math.MaxUint32 {
			f.Fail("a number out of bounds")
		}
	}
	copy(s.Hash[:], f.Bytes(uint64(len(s.Hash))))
	s.Epoch, s.Seq = f.Uint(), f.Uint()
	for range f.Count() {
		s.Members = append(s.Members, SchemaMember{f.Text(), f.Text()})
	}
	if err := f.End(); err != nil {
		return nil, fmt.Errorf("%w: a schema: %w", ErrDamaged, err)
	}
	return s, nil
}

// LoadSchema returns what the events of a shard looked like, nil where the store does not know it.
func LoadSchema(ctx context.Context, s Store, key Key) (*Schema, error) {
	return loadPart(ctx, s, key, SchemaPart, parseSchema)
}
