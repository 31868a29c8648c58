package source

import (
	"bytes"
	"cmp"
	"math"
	"slices"
	"strings"
	"time"
)

// Kind is the kind of a column's values and defines their normal form. Every source delivers this
// form, so the same row makes the same event with every driver. A nil value is NULL.
type Kind uint8

const (
	// Int is an integer of any size and sign (YEAR and BOOL too): its decimal digits.
	Int Kind = iota + 1
	// Decimal is an exact decimal: the server's text, all digits kept.
	Decimal
	// Float is an approximate number: shortest text that reads back as the same number, valid in
	// JSON.
	Float
	// Text is a character string: UTF-8, unless the row holds bytes that are not.
	Text
	// Binary is a byte string, as stored.
	Binary
	// Bit is a bit field of up to 64 bits: big-endian bytes.
	Bit
	// JSON is a JSON document: its text.
	JSON
	// Date is a calendar day: "2006-01-02".
	Date
	// Clock is a time of day or a span (SQL TIME): "15:04:05" with sign, more than 24 hours and a
	// fraction possible.
	Clock
	// DateTime is a date and time without a zone: "2006-01-02 15:04:05" and the fraction of the
	// column's precision.
	DateTime
	// Timestamp is a moment, in the form of DateTime, in UTC.
	Timestamp
)

type Column struct {
	Name string
	Kind Kind
	// Precision is the number of digits of the fraction: of a second, 0 to 6, for DateTime,
	// Timestamp and Clock; that of a Decimal, where the database tells it.
	Precision int
	// NotNull says that the table refuses NULL, and values that are not of Kind. False where the
	// database does not tell.
	NotNull bool
	// Mask tells the mask of the values from every other one; empty where they are as they are.
	Mask string
	// Format is that of the id where it is the time of the second cursor, see Columns.Cursor.
	Format IDFormat
}

// Resolution returns the smallest step of a time column: 1 s for second precision. It is 0 if the
// column is not a time.
func (c Column) Resolution() time.Duration {
	if c.Format != "" {
		return c.Format.resolution()
	}
	switch c.Kind {
	case DateTime, Timestamp:
		return time.Duration(math.Pow10(9 - c.Precision))
	case Date:
		return 24 * time.Hour
	default:
		return 0
	}
}

// NameCase says how a database compares the names of columns.
type NameCase uint8

const (
	// AnyCase: letter case does not count.
	AnyCase NameCase = iota
	// ASCIICase: the letter case of ASCII does not count, that of other letters does.
	ASCIICase
)

// Same reports whether two names are those of one column.
func (n NameCase) Same(a, b string) bool {
	if n == AnyCase || len(a) != len(b) {
		return n == AnyCase && strings.EqualFold(a, b)
	}
	for i := range len(a) {
		// Of ASCII letters the lower case differs by one bit.
		if a[i] != b[i] && (a[i]|0x20 != b[i]|0x20 || a[i]|0x20 < 'a' || a[i]|0x20 > 'z') {
			return false
		}
	}
	return true
}

// Columns is the shape of a shard's rows. It is immutable: all pages of a shard carry the same
// pointer until columns are added, dropped or altered.
type Columns struct {
	// List holds the columns in the order of Row.Values.
	List []Column
	NameCase
	ID int
	// Key holds the indexes of the key columns, in the order of Spec.Key. It is the id's index if
	// the spec names none.
	Key []int
	// NullKey holds the indexes of key columns in which a NULL makes rows that are equal: one that
	// has it there is no entity. Those that are NOT NULL are among them, as they may be altered at
	// any moment. It is empty unless Spec.UniqueKey.
	NullKey []int
	// Created, Modified and Deleted are indexes into List, -1 if the spec names no such column.
	Created, Modified, Deleted int
	// CreatedMoves says that the database changes CREATED when a row is updated.
	CreatedMoves bool
	// IDFormat is that of the spec. ByID says that the second cursor goes by the id: it holds a
	// time, and no index begins with MODIFIED. Indexed says that ByID is set or that there is such
	// an index, so that ReadChanges works.
	IDFormat      IDFormat
	ByID, Indexed bool
}

// Cursor returns the column that the second cursor goes by, false where there is none.
func (c *Columns) Cursor() (column Column, ok bool) {
	if c.ByID {
		column = c.List[c.ID]
		column.Format = c.IDFormat
		return column, true
	}
	if c.Modified < 0 {
		return Column{}, false
	}
	return c.List[c.Modified], true
}

// Keyless returns the index of a column of NullKey that is NULL in a row, -1 if there is none.
func (c *Columns) Keyless(values [][]byte) int {
	for _, i := range c.NullKey {
		if values[i] == nil {
			return i
		}
	}
	return -1
}

type Row struct {
	ID uint64
	// Values are in the order of Columns.List and in the normal form of the column's Kind; nil is
	// NULL. They belong to the page and are valid until its next Reset.
	Values [][]byte
	// Filtered says that the row does not match Spec.Filter, Stale that it was not touched for
	// Spec.StaleAfter.
	Filtered, Stale bool
	StaleFor        time.Duration
}

// Page is the result of one Read. The zero value is ready for use; reuse a page to save its memory.
type Page struct {
	Columns *Columns
	// Rows are in ascending order of their ids. Several have the same id only where
	// Columns.IDFormat is set: then the page has all rows of an id or none, and may go beyond Limit
	// and MaxBytes for that.
	Rows []Row
	// Expired are the stale rows that a read by key has left out.
	Expired []Row
	// Now is the database's clock at the start of the statement, in UTC. A row that was asked for
	// and that the page lacks, though the page was not cut before it, was not committed then.
	Now time.Time
	// MaxID is the highest id of the table in the snapshot of the page, 0 if the table is empty.
	MaxID uint64
	// Server identifies the server that answered. A different text means a different server.
	Server string
	// More says that Limit or MaxBytes ended the page: there may be more rows to read at once.
	More  bool
	Bytes int

	// arena holds the values, cells the slices of them.
	arena slab[byte]
	cells slab[[]byte]
}

const (
	// chunkBytes and chunkRows are the capacities of the first arrays of a page; further ones have
	// the large capacities.
	chunkBytes, largeChunkBytes = 64 << 10, 256 << 10
	chunkRows, largeChunkRows   = 64, 512
	// keepBytes and keepCells bound the memory that a page keeps for the next read.
	keepBytes, keepCells = 4 << 20, 256 << 10
)

// Reset empties p for the next read and keeps memory of ordinary size.
func (p *Page) Reset() {
	clear(p.Rows)
	clear(p.Expired)
	p.arena.reset(keepBytes, false)
	p.cells.reset(keepCells, true)
	*p = Page{Rows: p.Rows[:0], cells: p.cells, arena: p.arena}
}

// Append adds a row of width columns whose values are all NULL; fill it with Set. Rows must be
// appended in ascending order of their ids.
func (p *Page) Append(id uint64, width int) {
	rows := largeChunkRows
	if p.cells.empty() {
		rows = chunkRows
	}
	p.Rows = append(p.Rows, Row{ID: id, Values: p.cells.alloc(width, rows*width)})
}

// Set copies v into column i of the last row. A nil v is NULL, an empty one is not.
func (p *Page) Set(i int, v []byte) {
	values := p.Rows[len(p.Rows)-1].Values
	if len(v) == 0 {
		values[i] = v[:0:0]
		return
	}
	size := largeChunkBytes
	if p.arena.empty() {
		size = chunkBytes
	}
	values[i] = p.arena.alloc(len(v), size)
	copy(values[i], v)
	p.Bytes += len(v)
}

// Filter notes that the last row does not match Spec.Filter.
func (p *Page) Filter() { p.Rows[len(p.Rows)-1].Filtered = true }

// Sort sorts the rows by id, for a server that does not.
func (p *Page) Sort() {
	slices.SortFunc(p.Rows, func(a, b Row) int {
		if a.ID == b.ID && p.Columns != nil && p.Columns.IDFormat != "" {
			return bytes.Compare(a.Values[p.Columns.ID], b.Values[p.Columns.ID])
		}
		return cmp.Compare(a.ID, b.ID)
	})
}

// Cut ends the page before the rows of the last id, of which there may be more, and reports whether
// rows are left. It is for ids with a format.
func (p *Page) Cut() bool {
	n := len(p.Rows)
	for n > 0 && p.Rows[n-1].ID == p.Rows[len(p.Rows)-1].ID {
		n--
	}
	for _, row := range p.Rows[n:] {
		for _, v := range row.Values {
			p.Bytes -= len(v)
		}
	}
	p.Rows = p.Rows[:n]
	return n > 0
}

// slab allocates slices that do not move, and frees all at once. The zero value is ready for use.
type slab[T any] struct {
	// arrays hold the values, in the first used ones; none of them moves.
	arrays [][]T
	used   int
	// high is roughly the largest recent use.
	high int
}

const (
	// highFalls is the divisor by which high falls with each reset: to a half within a dozen.
	highFalls = 16
	// leastKept is the divisor of what is kept at least, however little is used.
	leastKept = 8
)

// alloc returns n values. They are zero, or what they held before if reset did not wipe them. A new
// array has room for size values.
func (s *slab[T]) alloc(n, size int) []T {
	for {
		if s.used > 0 {
			array := &s.arrays[s.used-1]
			if start := len(*array); cap(*array)-start >= n {
				*array = (*array)[:start+n]
				return (*array)[start : start+n : start+n]
			}
		}
		if s.used == len(s.arrays) {
			s.arrays = append(s.arrays, make([]T, 0, max(n, size)))
		}
		s.used++
	}
}

// reset keeps arrays of up to keep values, and no more than twice the recent use or keep/leastKept.
func (s *slab[T]) reset(keep int, wipe bool) {
	used := 0
	for _, array := range s.arrays[:s.used] {
		used += len(array)
	}
	s.high = max(used, s.high-s.high/highFalls)
	keep = min(keep, max(2*s.high, keep/leastKept))
	kept := s.arrays[:0]
	for _, array := range s.arrays {
		if cap(array) > keep {
			continue
		}
		keep -= cap(array)
		if wipe {
			clear(array)
		}
		kept = append(kept, array[:0])
	}
	clear(s.arrays[len(kept):])
	s.arrays, s.used = kept, 0
}

func (s *slab[T]) empty() bool { return len(s.arrays) == 0 }
