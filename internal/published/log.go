package published

import (
	"cmp"
	"encoding/binary"
	"regexp"
	"slices"
	"strings"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/event"
	"example.org/bridge/source"
)

// DefaultRows is how many of the rows published last a shard keeps, unless it is told otherwise.
const DefaultRows = 1000

// Row is a row as it was published.
type Row struct {
	ID uint64
	// Content digests the published columns without id, CREATED and MODIFIED.
	Content uint64
	// Identity says what tells the row from another one under its id, see IdentityOf; 0 where
	// nothing does.
	Identity uint64
	// Current says that a row has the state that was published last of its entity. It is
	// not saved.
	Current bool
}

// coarse is in an Identity that other rows may share.
const coarse = 1 << 32

// IdentityOf returns the Identity of a row by its CREATED and, where it has a key that is not its
// id, by its key: CREATED where that is finer than a second, else the key, else CREATED. key is nil
// where it does not count.
func IdentityOf(b event.Born, key []byte) uint64 {
	switch {
	case b.Exact():
		return uint64(b)
	case key != nil:
		return uint64(event.BornOf(key))
	case b != 0:
		return coarse | uint64(b)
	}
	return 0
}

// RowOf returns a row as its table has it, by the digest of its content and the key of its entity.
// The encoder has the shape of columns.
func RowOf(e *event.Encoder, columns *source.Columns, row source.Row, content [16]byte, key []byte) Row {
	if e.Kind() == event.Release || len(columns.Key) == 1 && columns.Key[0] == columns.ID {
		key = nil
	}
	return Row{ID: row.ID, Content: ContentOf(content), Identity: IdentityOf(e.Born(row), key)}
}

// ContentOf returns the Content of a row by its digest.
func ContentOf(digest [16]byte) uint64 { return binary.BigEndian.Uint64(digest[:8]) }

// Origin is what the rows were read from.
type Origin struct {
	// Shape is the form of their digests: rows of two shapes cannot be compared.
	Shape uint64
	// Server names the server and its database, see ServerAndDatabase; Started is when the server
	// was started, in Unix seconds; 0 where it does not tell.
	Server  string
	Started int64
}

// startedWithin is how far two accounts of when a server was started may differ.
const startedWithin = 2 * time.Second

// SameServer reports whether both are of one server that was not started in between.
func (o Origin) SameServer(other Origin) bool {
	apart := time.Duration(o.Started-other.Started) * time.Second
	return SameName(o.Server, other.Server) && (o.Started == 0 || other.Started == 0 || apart.Abs() <= startedWithin)
}

// uid is the word of a server that source.UID begins.
var uid = regexp.MustCompile(" " + source.UID + "[0-9]+")

// SameName reports whether a server has the name of another one, whatever their roles. One that was
// saved by a former version has no uid.
func SameName(a, b string) bool {
	a, b = source.WithoutRole(a), source.WithoutRole(b)
	u, v := uid.FindString(a), uid.FindString(b)
	return a == b || (u == "") != (v == "") && strings.Replace(a, u, "", 1) == strings.Replace(b, v, "", 1)
}

// ServerAndDatabase names where rows are read: by the Server of a page, whatever its role, and the
// database.
func ServerAndDatabase(server, database string) string {
	return strings.ReplaceAll(source.WithoutRole(server)+"/"+database, stopSeparator, " ")
}

// Fits reports whether rows of o compare with rows that are read now.
func (o Origin) Fits(now Origin) bool { return o.Shape == now.Shape }

// partsOf is how many parts a log has: each save writes the changed parts.
const partsOf = 16

// Log holds the rows with the highest ids that the tail of a shard has published, in parts that are
// saved when they change. It serves one goroutine.
type Log struct {
	origin Origin
	// stop is why the shard must not go on, empty where it may.
	stop string
	lost *Lost
	// headSaved says that the saved head has this origin, stop and these lost rows.
	headSaved bool
	// rows are in ascending order, size of them a part; the last part may have fewer.
	rows []Row
	size int
	// saved is how many rows each saved part has, by its key, the id of its first row; 0 where one
	// of them is another by now.
	saved map[uint64]int
}

// NewLog returns an empty log of about the given number of rows, at least partsOf.
func NewLog(rows int) *Log { return &Log{size: max(1, rows/partsOf), saved: make(map[uint64]int)} }

// Limit is the most rows that the log holds.
func (l *Log) Limit() int { return partsOf * l.size }

// Rows are those of the log, ascending, which must not be altered, until the next call of Add.
func (l *Log) Rows() []Row { return l.rows }

// Origin is what the rows were read from, zero where that is not known.
func (l *Log) Origin() Origin { return l.origin }

// SetOrigin says what the rows were read from. Rows of another shape are dropped.
func (l *Log) SetOrigin(o Origin) {
	if !l.origin.Fits(o) {
		l.Clear()
	}
	if o != l.origin {
		l.origin, l.headSaved = o, false
	}
}

// Stop has the shard not go on, for a reason that outlives it; empty: it may again.
func (l *Log) Stop(reason string) { l.stop, l.headSaved = reason, false }

// Stopped returns why the shard must not go on, empty where it may.
func (l *Log) Stopped() string { return l.stop }

// Clear drops all rows, the lost ones included.
func (l *Log) Clear() {
	l.rows = nil
	for key := range l.saved {
		l.saved[key] = 0
	}
	if l.lost != nil {
		l.Forget()
	}
}

// Add takes in rows that were handed on to be published: those above all others are added, and the
// lowest dropped for them. Of rows that the log holds already the new content holds; others are
// left out.
func (l *Log) Add(rows []Row) {
	for i, row := range rows {
		switch at, found := search(l.rows, row.ID); {
		case found && l.rows[at] != row:
			l.rows[at] = row
			l.saved[l.rows[at-at%l.size].ID] = 0
		case !found && at == len(l.rows) && len(rows)-i <= l.Limit():
			if at == l.Limit() {
				l.rows = l.rows[l.size:]
			}
			l.rows = append(l.rows, row)
		}
	}
}

func search(rows []Row, id uint64) (at int, found bool) {
	return slices.BinarySearchFunc(rows, id, func(r Row, id uint64) int { return cmp.Compare(r.ID, id) })
}

// Find returns the row with an id, if the log holds it.
func (l *Log) Find(id uint64) (row Row, found bool) {
	at, found := search(l.rows, id)
	if found {
		row = l.rows[at]
	}
	return row, found
}

// Changed returns the parts that have changed since it was called last, in the order of their
// numbers; removed parts have no bytes.
func (l *Log) Changed() (changed []store.Part) {
	add := func(number uint64, bytes []byte) {
		changed = append(changed, store.Part{Kind: store.Published, Number: number, Bytes: bytes})
	}
	if !l.headSaved && (l.origin != (Origin{}) || l.stop != "") {
		add(headKey, l.appendHead(nil))
		l.headSaved = true
	}
	saved := make(map[uint64]int, len(l.saved))
	for part := range slices.Chunk(l.rows, l.size) {
		key := part[0].ID
		if saved[key] = len(part); l.saved[key] != len(part) {
			add(key, appendRows([]byte{partVersion}, part))
		}
	}
	for key := range l.saved {
		if saved[key] == 0 {
			add(key, nil)
		}
	}
	l.saved = saved
	slices.SortFunc(changed, func(a, b store.Part) int { return cmp.Compare(a.Number, b.Number) })
	return changed
}

// Lost holds published rows that are gone from a server that took over. A transaction that is open
// there may hold their ids.
type Lost struct {
	// Survivor is the highest row below them that is still as it was published, 0 where none is
	// known.
	Survivor uint64
	// Until is when they need no longer be compared.
	Until time.Time
	// Rows are in ascending order.
	Rows []Row
}

// Lost returns the rows that servers have lost and that are still to be compared, nil where there
// are none.
func (l *Log) Lost() *Lost { return l.lost }

// Lose adds the rows that c found gone to the lost ones, the newest of which are kept up to the
// limit of the log. It returns how many were not among them. They stay when the log drops them.
func (l *Log) Lose(c *Check, until time.Time) (added int) {
	lost := Lost{Survivor: c.Survivor(), Until: until.Truncate(time.Millisecond)}
	if l.lost != nil {
		// An earlier loss had its own survivor. What is published again from the lower one on has
		// its former event ids.
		lost.Rows, lost.Survivor = l.lost.Rows, min(lost.Survivor, l.lost.Survivor)
	}
	before := len(lost.Rows)
	for _, row := range c.Gone {
		if at, found := search(lost.Rows, row.ID); found {
			lost.Rows[at] = row
		} else {
			lost.Rows = slices.Insert(lost.Rows, at, row)
		}
	}
	added = len(lost.Rows) - before
	lost.Rows = slices.Clone(lost.Rows[max(0, len(lost.Rows)-l.Limit()):])
	l.lost, l.headSaved = &lost, false
	return added
}

// Found takes rows out of the lost ones, whose ids are in use again.
func (l *Log) Found(ids []uint64) {
	if len(ids) == 0 {
		return
	}
	l.lost.Rows = slices.DeleteFunc(l.lost.Rows, func(r Row) bool { return slices.Contains(ids, r.ID) })
	if l.headSaved = false; len(l.lost.Rows) == 0 {
		l.lost = nil
	}
}

// Forget drops the lost rows.
func (l *Log) Forget() { l.lost, l.headSaved = nil, false }
