package source

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"example.org/bridge/internal/option"
)

// Errors of a shard that a retry does not resolve: a person has to change the database or the
// configuration. They stop the shard, which tries again now and then, not the process. Test with
// errors.Is; the wrapping error names the object and the remedy.
var (
	// ErrMissing is returned when the database, the table or a column does not exist.
	ErrMissing = errors.New("missing in the source")
	// ErrDenied is returned when the login may not SELECT from the table or the column.
	ErrDenied = errors.New("access to the source denied")
	// ErrUnfit is returned when the table cannot be tailed as configured: the id is not an integer
	// or not unique, or CREATED is not a time, for example.
	ErrUnfit = errors.New("table unfit for the stream")
)

// Stops reports whether err is one of these.
func Stops(err error) bool {
	return errors.Is(err, ErrMissing) || errors.Is(err, ErrDenied) || errors.Is(err, ErrUnfit)
}

// Source is a database with shards. It is safe for concurrent use.
type Source interface {
	// Shard returns the reader of one table. It does not use the network: the first Read
	// reports a missing table.
	Shard(spec Spec) Shard
	// Ready returns nil when the server can be reached and accepts the login.
	Ready(ctx context.Context) error
	// Close releases all connections. No Shard may be used afterwards.
	Close() error
}

// Shard reads one physical table. It serves one goroutine at a time.
type Shard interface {
	IDReader
	ChangeReader
	// Read fills p with the rows that q asks for, in ascending order of their ids, each id once
	// unless ids have a format.
	// It overwrites p, which must not be used after an error. Errors other than ErrMissing,
	// ErrDenied and ErrUnfit are transient: the caller retries with backoff, for ever.
	Read(ctx context.Context, q Query, p *Page) error
	// NextID returns the lowest id that the server may give to the next row (AUTO_INCREMENT), 0 if
	// it is unknown. If it is not above the position, ids are used again: the table was truncated
	// or restored, or its counter was reset.
	NextID(ctx context.Context) (uint64, error)
}

// Conns is how many connections a Source may have.
type Conns struct {
	// Readers is how many statements about rows run at the same time.
	Readers int
	// Most bounds all connections; 0 does not.
	Most int
}

// Resizer is a Source whose connections can be changed while it is read.
type Resizer interface {
	// Resize does not wait: connections above the bound are closed as their statements end.
	Resize(c Conns)
}

// HeadReader is a Shard with a cheap way to find out that a table has no new rows.
type HeadReader interface {
	// ReadHead fills p as a Read of no rows would: Columns, Now, MaxID and Server. It overwrites p.
	// It may begin up to wait later, to share a statement with other shards. seen is false if a
	// Read is needed, also when the source is away; the error is the cause of ctx.
	ReadHead(ctx context.Context, wait time.Duration, p *Page) (seen bool, err error)
}

// Uptimer is a Shard that knows when its server was started. A server that was restarted after a
// crash may have lost its newest rows.
type Uptimer interface {
	// Started returns when the server of the last connection was started, by this host's clock, to
	// about two seconds; the zero time if that is unknown. It does not use the network.
	Started() time.Time
}

// StartedOf returns when the server of a shard was started, in Unix seconds, 0 where that is
// unknown.
func StartedOf(s Shard) int64 {
	if uptimer, able := s.(Uptimer); able {
		if started := uptimer.Started(); !started.IsZero() {
			return started.Unix()
		}
	}
	return 0
}

// Spec names a table and the columns that play a role. Names are as the server knows them,
// unquoted.
type Spec struct {
	// Table is the physical table, "table" or "database.table".
	Table string
	// ID is the column of the increasing id: unique, indexed, and an integer unless IDFormat says
	// what else.
	ID       string
	IDFormat IDFormat
	// Key names the columns that identify the entity. Empty means the id.
	Key []string
	// UniqueKey says that an entity must be a single row. A table without a unique index over
	// columns of Key that are NOT NULL is unfit.
	UniqueKey bool
	// Created, Modified and Deleted are optional; empty means that the table has no such column.
	Created, Modified, Deleted string
	// Fields names the columns to read besides those above. Nil means all columns of the table.
	Fields []string
	// Exclude names columns that are read only where another setting names them. Masks has columns
	// whose values are replaced as they are read; none of those that are named above. A column of
	// either that the table does not have makes it unfit.
	Exclude []string
	Masks   map[string]Mask
	// Filter is an SQL condition that CheckFilter accepts: rows that do not match it are read all
	// the same, and have Row.Filtered. Empty: all match. It sees the columns of the table as they
	// are, before Masks.
	Filter string
	// StaleAfter is how long Modified may lie back by the database's clock before a row counts as
	// one that is not there; 0 is for ever. Zone is that of DateTime values.
	StaleAfter time.Duration
	Zone       *time.Location
}

// Mask makes the columns that have a mask texts, and returns the masks by column, nil for those
// without one. It is nil if there is none.
func (s *Spec) Mask(c *Columns) (masks Masks) {
	for name, m := range s.Masks {
		for i := range c.List {
			if !c.Same(name, c.List[i].Name) {
				continue
			}
			if masks == nil {
				masks = make(Masks, len(c.List))
			}
			masks[i], c.List[i].Kind, c.List[i].Precision, c.List[i].Mask = m.Fresh(), Text, 0, m.Name()
		}
	}
	return masks
}

// Reads reports whether a column is among those that are read because no setting leaves it out.
func (s *Spec) Reads(column string, names NameCase) bool {
	return s.Fields == nil && !slices.ContainsFunc(s.Exclude, func(name string) bool { return names.Same(name, column) })
}

// Range is a closed range of ids. It is empty if First is above Last.
type Range struct{ First, Last uint64 }

func (r Range) Empty() bool { return r.First > r.Last }

func (r Range) Has(id uint64) bool { return r.First <= id && id <= r.Last }

// Intersect returns the ids that r and o have in common.
func (r Range) Intersect(o Range) Range {
	return Range{First: max(r.First, o.First), Last: min(r.Last, o.Last)}
}

// MaxKeys is the highest number of tuples in Query.Keys.
const MaxKeys = 1000

// InParts calls read with keys, in their order, at most MaxKeys at once. Where the page did not
// hold all of their rows, which of them were not read is not known, and read returns false: it is
// called again with half of them. What it returns of a single one does not matter.
func InParts[K any](keys []K, read func(part []K) (whole bool, err error)) error {
	for size := MaxKeys; len(keys) > 0; {
		part := keys[:min(len(keys), size)]
		whole, err := read(part)
		switch {
		case err != nil:
			return err
		case !whole && len(part) > 1:
			size = len(part) / 2
		default:
			keys = keys[len(part):]
		}
	}
	return nil
}

// Query asks for one page: ids in (After, Through], or in Ranges, or rows by their Keys, at most
// Limit rows, about MaxBytes of values.
type Query struct {
	// After is the id below the first one wanted; 0 reads from the beginning.
	After uint64
	// Through is the last id wanted; 0 means no bound.
	Through uint64
	// Ranges, when not nil, are the ids wanted, in place of After and Through: ascending and
	// disjoint.
	Ranges []Range
	// Keys, when not nil, are the keys of the rows wanted, in place of After, Through and Ranges:
	// at most MaxKeys tuples of values in the order of Columns.Key and in the normal form of their
	// columns, nil for NULL. Every row whose key equals one of them byte for byte is returned. The
	// server may compare more loosely (case, trailing spaces), so rows with similar keys may come
	// too, and the caller compares. A tuple that no row of the table can have finds nothing.
	//
	// The rows are found by the unique index that proves that an entity is a single row; without
	// one the table is unfit. A page that Limit or MaxBytes ends (Page.More) proves nothing about
	// the tuples that it has no row of: query those again. The statement may be split into parts,
	// which see different moments; Page.Now is before all of them.
	Keys [][][]byte
	// Limit is the highest number of rows, at least 1.
	Limit int
	// MaxBytes ends the page after the row that brings its values to this size, so that one row
	// always fits, however big. 0 means no bound.
	MaxBytes int
}

// ReadOnly ends the Server of a page from a server that is read-only, behind a blank: one that
// becomes so counts as another.
const ReadOnly = "read-only"

// UID begins the word of the Server of a page that tells servers of the same names apart: digits
// follow. Not every server has one, and former versions did not ask for it.
const UID = "uid="

// NamesAlone reports whether the Server of a page tells servers apart by host name, port and
// server_id alone, as one of MariaDB without @@server_uid does: two servers may share all three.
func NamesAlone(server string) bool {
	return strings.Count(WithoutRole(server), " ") == 2 && !strings.Contains(server, " "+UID)
}

// WithoutRole returns the Server of a page whether it is read-only or not.
func WithoutRole(server string) string { return strings.TrimSuffix(server, " "+ReadOnly) }

// Role is a column that a spec names, with the setting that names it.
type Role struct {
	Setting option.Name
	Column  string
}

// Roles returns the columns that the spec names, in the order of its settings. A column may have
// several roles.
func (s Spec) Roles() []Role {
	roles := []Role{{option.ID, s.ID}}
	for _, key := range s.Key {
		roles = append(roles, Role{option.Key, key})
	}
	for _, r := range []Role{{option.Created, s.Created}, {option.Modified, s.Modified}, {option.Deleted, s.Deleted}} {
		if r.Column != "" {
			roles = append(roles, r)
		}
	}
	for _, field := range s.Fields {
		roles = append(roles, Role{option.Fields, field})
	}
	return roles
}

// Named returns the columns that the spec names, with those of Exclude and Masks: all that the
// table must have.
func (s Spec) Named() []Role {
	roles := s.Roles()
	for _, column := range s.Exclude {
		roles = append(roles, Role{option.Exclude, column})
	}
	for _, column := range slices.Sorted(maps.Keys(s.Masks)) {
		roles = append(roles, Role{option.Mask, column})
	}
	return roles
}
