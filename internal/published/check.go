package published

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/internal/form"
)

// Outcome is what a second read of the rows that were published last says.
type Outcome uint8

// The outcomes, from harmless to decisive.
const (
	// Intact: nothing says that an id is used again.
	Intact Outcome = iota
	// Doubtful: rows have changed that nothing but their ids identifies, or a whole table was
	// written again.
	Doubtful
	// Reused: ids that were published belong to other rows now.
	Reused
)

const (
	// alikeRows are as many rows with the content that was published as prove, in an unbroken run,
	// that they are those rows. Fewer may be other rows that look alike by chance.
	alikeRows = 16
	// newestRows are compared first; mostly one of them is as it was published, which is all that
	// is wanted. compareRows are compared at once below them.
	newestRows, compareRows = 16, 200
)

// Check compares rows with what the log holds of them, from the newest down.
type Check struct {
	// Release says that the rows are facts in a log. Rows of a capability stream are states:
	// whatever an id belongs to now can be published, so that more is wanted to call its ids used
	// again.
	Release bool
	// Moved says that another server answers than the one that the rows were read from, or that it
	// was started again since.
	Moved bool
	// Floor is a row below those compared that is still the one that was published, 0 where none is
	// known.
	Floor uint64

	// Others are ids above the survivor that belong to other rows, Doubted those of which that is
	// not known, Gone the rows that are not there, all newest first.
	Others, Doubted []uint64
	Gone            []Row

	// alike are the rows of an unbroken run of the same content, newest first; above is how many of
	// Gone lie above it.
	alike []uint64
	above int
	// proven is the survivor that needs no run.
	proven uint64
}

// Survivor is the highest row that is still the one that was published, 0 where none is known.
func (c *Check) Survivor() uint64 {
	highest := max(c.proven, c.Floor)
	if len(c.alike) > 0 {
		return max(highest, c.alike[0])
	}
	return highest
}

// Compare compares rows of a log, from the newest down, with those that read finds under the ids of
// some of them, both in ascending order, until a survivor is proven: what lies below is of no
// account. A run that the end of the log cuts short counts as well.
func (c *Check) Compare(rows []Row, read func(logged []Row) (found []Row, err error)) error {
	for n := newestRows; len(rows) > 0; n = compareRows {
		logged := rows[max(0, len(rows)-n):]
		rows = rows[:len(rows)-len(logged)]
		found, err := read(logged)
		if err != nil || c.Add(logged, found) {
			return err
		}
	}
	return nil
}

// Add compares rows of the log with those found under their ids, both in ascending order, and
// reports whether a survivor is proven. Call it with the newest rows first.
func (c *Check) Add(logged, found []Row) (done bool) {
	for i := len(logged) - 1; i >= 0; i-- {
		was := logged[i]
		for len(found) > 0 && found[len(found)-1].ID > was.ID {
			found = found[:len(found)-1]
		}
		if len(found) == 0 || found[len(found)-1].ID != was.ID {
			c.Gone = append(c.Gone, was)
			continue
		}
		switch c.compare(was, found[len(found)-1]) {
		case same:
			c.proven = was.ID
			c.endRun()
			return true
		case alike:
			if len(c.alike) == 0 {
				c.above = len(c.Gone)
			}
			if c.alike = append(c.alike, was.ID); len(c.alike) == alikeRows {
				c.endRun()
				return true
			}
		case other:
			c.breakRun()
			c.Others = append(c.Others, was.ID)
		default:
			c.breakRun()
			c.Doubted = append(c.Doubted, was.ID)
		}
	}
	return false
}

// endRun leaves out the rows that are gone from a run that proves a survivor above them: they were
// deleted.
func (c *Check) endRun() {
	if len(c.alike) > 0 {
		c.Gone = c.Gone[:c.above]
	}
}

func (c *Check) breakRun() { c.Doubted, c.alike = append(c.Doubted, c.alike...), nil }

type likeness uint8

const (
	doubtful likeness = iota
	// alike: of the same content, and nothing else tells whose the row is.
	alike
	same
	other
)

func (c *Check) compare(was, is Row) likeness {
	identified := was.Identity != 0 && is.Identity != 0
	differ := identified && was.Identity != is.Identity
	switch {
	case is.Current, identified && was.Identity == is.Identity && was.Identity&coarse == 0:
		return same
	case was.Content == is.Content && !(differ && c.Release):
		// A state may be written again as it was, with another identity.
		return alike
	case differ:
		return other
	}
	return doubtful
}

// Outcome returns what follows once Add has returned true or has seen all rows.
func (c *Check) Outcome() Outcome {
	// Some rows survived a change of servers, and those above them are no longer what they were.
	cut := c.Moved && c.Survivor() > 0
	switch {
	case len(c.Others) == 0 && len(c.Doubted) == 0:
		return Intact
	case len(c.Others) > 0 && (c.Release || cut), len(c.Doubted) > 0 && c.Release && cut:
		return Reused
	}
	return Doubtful
}

// Unsure returns the newest few rows that are compared better by their columns before they stop a
// shard.
func (c *Check) Unsure() []uint64 {
	if c.Outcome() != Reused && !(c.Release && c.Moved && len(c.Doubted) > 0) {
		return nil
	}
	ids := slices.Concat(c.Others, c.Doubted)
	slices.SortFunc(ids, func(a, b uint64) int { return cmp.Compare(b, a) })
	return ids[:min(newestRows, len(ids))]
}

// Resolve takes in what the columns of unsure rows say: which are the rows that were published, and
// which are others.
func (c *Check) Resolve(rows map[uint64]bool) {
	for id, same := range rows {
		switch {
		case same:
			c.proven = max(c.proven, id)
		case !slices.Contains(c.Others, id):
			c.Others = append(c.Others, id)
		}
	}
	below := func(id uint64) bool { return id <= c.Survivor() }
	decided := func(id uint64) bool { _, ok := rows[id]; return ok || below(id) }
	c.Others, c.Doubted = slices.DeleteFunc(c.Others, below), slices.DeleteFunc(c.Doubted, decided)
	c.Gone = slices.DeleteFunc(c.Gone, func(r Row) bool { return below(r.ID) })
	slices.SortFunc(c.Others, func(a, b uint64) int { return cmp.Compare(b, a) })
}

// Lost reports whether the newest rows are gone from a server that is not the one they were read
// from: their ids may come into use again.
func (c *Check) Lost() bool { return c.Moved && len(c.Gone) > 0 }

// First is the lowest id above the survivor that belongs, or may belong, to another row; 0 where
// there is none.
func (c *Check) First() (first uint64) {
	for _, list := range [...][]uint64{c.Others, c.Doubted} {
		if n := len(list); n > 0 && (first == 0 || list[n-1] < first) {
			first = list[n-1]
		}
	}
	return first
}

// ErrBadLog is returned when saved parts are no log.
var ErrBadLog = errors.New("the saved list of published rows cannot be read")

const (
	// headKey is the key of the part with the origin and the lost rows: no row has the id 0.
	headKey = 0
	// partVersion begins every part of rows, in one byte, and headVersion the head. Both are as in
	// the former version, which reads what this one writes: it drops rows of a shape that it does
	// not know.
	partVersion = 1
	headVersion = 2
	// stopSeparator ends the server in the head, and the stop follows. The former version wrote
	// none: its rows do not compare.
	stopSeparator = "\n"
)

// appendHead appends the form of the head: version 1 byte, shape 8 bytes big endian, started as
// varint, the length of server and stop with stopSeparator between them as uvarint, these; where
// rows are lost: their end in Unix milliseconds as varint, survivor as uvarint, rows.
func (l *Log) appendHead(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint64(append(dst, headVersion), l.origin.Shape)
	dst = binary.AppendVarint(dst, l.origin.Started)
	dst = form.AppendText(dst, l.origin.Server+stopSeparator+l.stop)
	if l.lost == nil {
		return dst
	}
	dst = binary.AppendVarint(dst, l.lost.Until.UnixMilli())
	return appendRows(binary.AppendUvarint(dst, l.lost.Survivor), l.lost.Rows)
}

// appendRows appends the form of rows, each: id as uvarint (from the one before), content and
// identity 8 bytes big endian each.
func appendRows(dst []byte, rows []Row) []byte {
	before := uint64(0)
	for _, r := range rows {
		dst = binary.AppendUvarint(dst, r.ID-before)
		dst = binary.BigEndian.AppendUint64(dst, r.Content)
		dst = binary.BigEndian.AppendUint64(dst, r.Identity)
		before = r.ID
	}
	return dst
}

// Restore returns a log of about so many rows with what the saved parts hold, which were saved in
// whatever size. The error wraps ErrBadLog, or is that of saved.
func Restore(rows int, saved iter.Seq2[store.Part, error]) (*Log, error) {
	l := NewLog(rows)
	highest := uint64(0)
	for part, err := range saved {
		if err != nil {
			return nil, err
		}
		if part.Number == headKey {
			if err := l.decodeHead(part.Bytes); err != nil {
				return nil, err
			}
			continue
		}
		if len(part.Bytes) == 0 {
			return nil, fmt.Errorf("part %d: %w", part.Number, ErrBadLog)
		}
		if version := part.Bytes[0]; version != partVersion {
			return nil, fmt.Errorf("part %d: %w: version %d, this program knows %d", part.Number, ErrBadLog, version, partVersion)
		}
		list, ok := decodeRows(form.Reader{Rest: part.Bytes[1:]})
		if !ok || list[0].ID != part.Number || list[0].ID <= highest {
			return nil, fmt.Errorf("part %d: %w", part.Number, ErrBadLog)
		}
		highest = list[len(list)-1].ID
		l.rows, l.saved[part.Number] = append(l.rows, list...), len(list)
	}
	l.rows = l.rows[max(0, len(l.rows)-l.Limit()):]
	return l, nil
}

// decodeHead reads what appendHead wrote. Where the former version did, the origin is not known.
func (l *Log) decodeHead(b []byte) error {
	bad := fmt.Errorf("head: %w", ErrBadLog)
	if len(b) < 9 {
		return bad
	}
	if version := b[0]; version != headVersion {
		return fmt.Errorf("%w: version %d, this program knows %d", bad, b[0], headVersion)
	}
	l.origin.Shape = binary.BigEndian.Uint64(b[1:])
	r := form.Reader{Rest: b[9:]}
	l.origin.Started = r.Int()
	text, marked := r.Text(), false
	if r.Err != nil {
		return bad
	}
	if l.origin.Server, l.stop, marked = strings.Cut(text, stopSeparator); !marked {
		l.origin = Origin{}
		return nil
	}
	l.headSaved = true
	if len(r.Rest) == 0 {
		return nil
	}
	l.lost = &Lost{Until: time.UnixMilli(r.Int()), Survivor: r.Uint()}
	ok := false
	if l.lost.Rows, ok = decodeRows(r); !ok {
		return bad
	}
	return nil
}

// decodeRows reads what appendRows wrote: at least one row, ids ascending.
func decodeRows(r form.Reader) (rows []Row, ok bool) {
	for id := uint64(0); len(r.Rest) > 0; {
		step, b := r.Uint(), r.Bytes(16)
		if r.Err != nil || step == 0 || id+step < id {
			return nil, false
		}
		id += step
		rows = append(rows, Row{ID: id, Content: binary.BigEndian.Uint64(b), Identity: binary.BigEndian.Uint64(b[8:])})
	}
	return rows, r.Err == nil && len(rows) > 0
}
