package ledger

import (
	"encoding/binary"
	"fmt"
	"iter"
	"slices"

	"example.org/bridge/internal/form"
	"example.org/bridge/source"
)

// Chunk is one part of a saved ledger, of a few KiB at most. A store keeps each under its own key,
// so that saving a large ledger writes only what changed. Together they are all of the ledger; a
// store must save the changes of one Changed, and the position that goes with them, in one
// transaction.
type Chunk struct {
	// Key identifies the part. 0 is the head, which every saved ledger has.
	Key uint64
	// Bytes are the part's new form, with a checksum; nil says that the part is gone. They must not
	// be modified.
	Bytes []byte
}

// Changed returns the parts that differ from those that the last Changed returned, or that the
// ledger was restored from, in the order of their keys. Its cost depends on the changes alone.
func (l *Ledger) Changed() []Chunk {
	l.state.missing.seal()
	l.state.unsaved = false
	chunks := make([]Chunk, 0, 1+len(l.state.missing.changed))
	return l.state.missing.appendChanged(append(chunks, Chunk{Bytes: appendHead(nil, &l.state, &l.clock)}))
}

// Saved notes that the store has applied all that Changed returned and can give it back, so that it
// need not stay in memory.
func (l *Ledger) Saved() { l.state.missing.saved(l.opts.MaxBytes) }

// Err returns why a part of the ledger could not be loaded, nil while there is no such fault. After
// one the ledger must not be used, nor what it said since be saved.
func (l *Ledger) Err() error { return l.state.missing.err }

// RestoreParts returns the ledger with a saved head, and parts in the order of their keys, of which
// it keeps as many in memory as MaxBytes allows. It returns the errors of parts as they are; others
// wrap ErrDamaged when the parts are damaged, not all of one ledger, or do not belong to position.
func RestoreParts(opts Options, position uint64, head []byte, parts iter.Seq2[Chunk, error]) (*Ledger, error) {
	l, err := New(opts, position)
	if err != nil {
		return nil, err
	}
	s := &l.state
	c, saved, err := parseHead(head, s)
	if err != nil {
		return nil, fmt.Errorf("head: %w", err)
	}
	if s.position != position {
		return nil, fmt.Errorf("%w: it belongs to position %d, not %d", ErrDamaged, s.position, position)
	}
	l.clock, l.clock.away = c, l.opts.Away.Microseconds()
	if err := s.missing.restore(parts, s.noticed, l.opts.MaxBytes); err != nil {
		return nil, err
	}
	if n := len(s.missing.list) - s.missing.top(); saved != uint64(n) {
		return nil, fmt.Errorf("%w: %d parts are there, %d were saved", ErrDamaged, n, saved)
	}
	return l, nil
}

// Saved is what a saved head says of a ledger, for readers of its parts beside its owner.
type Saved struct {
	missing *set
	pending []source.Range
}

// ReadSaved reads the head of a saved ledger, the part with the key 0. The error wraps ErrDamaged.
func ReadSaved(head []byte) (*Saved, error) {
	s := state{missing: newSet(nil)}
	if _, _, err := parseHead(head, &s); err != nil {
		return nil, fmt.Errorf("head: %w", err)
	}
	saved := &Saved{missing: s.missing}
	for _, one := range s.pending.list {
		saved.pending = append(saved.pending, one.Range)
	}
	return saved, nil
}

// Unpolled appends to dst the ranges of missing ids in part that were no longer polled when it was
// saved, ascending. The error wraps ErrDamaged.
func (s *Saved) Unpolled(dst []source.Range, part Chunk) ([]source.Range, error) {
	f := reader{form.Open(part.Bytes, formVersion)}
	err := f.gaps(func(g gap) bool {
		dst = s.unpolled(dst, g.Range, s.missing.segmentOf(g.First))
		return true
	})
	if err != nil {
		err = fmt.Errorf("part %d: %w", part.Key, err)
	}
	return dst, err
}

// Wide appends to dst the ranges of missing ids in wide gaps that were no longer polled, ascending:
// all but their fronts.
func (s *Saved) Wide(dst []source.Range) []source.Range {
	for k, w := range s.missing.wide() {
		if last := front(w).Last; last < w.Last {
			dst = s.unpolled(dst, source.Range{First: last + 1, Last: w.Last}, k+1)
		}
	}
	return dst
}

func (s *Saved) unpolled(dst []source.Range, r source.Range, k int) []source.Range {
	if r.Last = min(r.Last, s.missing.segments[k].expired); r.Empty() {
		return dst
	}
	return outside(dst, []source.Range{r}, s.pending)
}

// head writes the head of a ledger, all that is not in blocks, or reads one:
//
//	version    1 byte, 2
//	numbers    as code has them, as varints of encoding/binary
//	checksum   CRC-32C over all before, 4 bytes, little endian
type head struct {
	reader
	parse bool
	out   []byte
}

// from codes v, which is at or above base, as an unsigned number.
func (h *head) from(base uint64, v *uint64) {
	if !h.parse {
		h.out = binary.AppendUvarint(h.out, *v-base)
	} else if *v = base + h.Uint(); *v < base {
		h.Fail("a number out of bounds")
	}
}

func (h *head) times(times ...*int64) {
	for _, v := range times {
		if h.parse {
			*v = h.time()
		} else {
			h.out = binary.AppendVarint(h.out, *v)
		}
	}
}

// listOf codes the length of list, which has most elements at most, and returns one of this length.
func listOf[T any](h *head, list []T, most uint64) []T {
	n := uint64(len(list))
	if h.from(0, &n); n > most {
		h.Fail("more elements than there can be")
		return nil
	}
	return slices.Grow(list, int(n)-len(list))[:n]
}

// code writes s, c and the number of blocks, or reads them; s is new then.
func (h *head) code(s *state, c *clock, blocks *uint64) {
	h.from(0, &s.position)
	h.from(s.position, &s.noticed)
	h.times(&c.now, &c.given)
	h.from(0, blocks)
	wide := listOf(h, s.missing.wide(), maxWide)
	s.missing.segments = slices.Grow(s.missing.segments, len(wide))[:len(wide)+1]
	for k := range s.missing.segments {
		at := &s.missing.segments[k]
		h.from(0, &at.observed)
		h.from(0, &at.expired)
		if k < len(wide) {
			h.from(0, &wide[k].First)
			h.from(wide[k].First, &wide[k].Last)
			h.times(&wide[k].missed)
		}
	}
	s.highs = listOf(h, s.highs, maxHighs)
	base := uint64(0)
	for i := range s.highs {
		h.from(base, &s.highs[i].id)
		h.times(&s.highs[i].at)
		base = s.highs[i].id
	}
	s.pending.list = listOf(h, s.pending.list, maxPending)
	base = 0
	for i := range s.pending.list {
		p, bits := &s.pending.list[i], uint64(0)
		h.from(base, &p.First)
		h.from(p.First, &p.Last)
		h.times(&p.since, &p.seen)
		if p.shown {
			bits |= 1
		}
		if p.block {
			bits |= 2
		}
		h.from(0, &bits)
		p.shown, p.block, base = bits&1 != 0, bits&2 != 0, p.Last
		// Which evidence has shown the ids is not saved.
		p.whole = p.whole || h.parse
	}
	if h.parse {
		h.check(s, wide)
	}
}

// check takes the wide gaps that were read into s, and fails where what was read does not fit.
func (h *head) check(s *state, wide []gap) {
	last := uint64(0)
	fits := func(r source.Range) {
		if r.First <= last || r.Last > s.noticed {
			h.Fail("ids that do not ascend or go beyond the position")
		}
		last = r.Last
	}
	for k, w := range wide {
		fits(w.Range)
		s.missing.list = append(s.missing.list, wideBlock(w))
		s.missing.segments[k+1].from = w.First
	}
	for k := range s.missing.segments {
		if at := &s.missing.segments[k]; at.observed > s.noticed || at.expired > at.observed {
			// Ids are polled once more than they need.
			at.observed, at.expired = 0, 0
		}
	}
	last = 0
	for _, p := range s.pending.list {
		fits(p.Range)
	}
	for i, one := range s.highs {
		if one.id <= s.noticed || i > 0 && (one.id == s.highs[i-1].id || one.at < s.highs[i-1].at) {
			h.Fail("times of ids that do not ascend")
		}
	}
}

func appendHead(b []byte, s *state, c *clock) []byte {
	h, blocks := head{out: append(b, formVersion)}, uint64(len(s.missing.list)-s.missing.top())
	h.code(s, c, &blocks)
	return form.Seal(h.out)
}

// parseHead reads a head into s, which is new. The error wraps ErrDamaged.
func parseHead(b []byte, s *state) (c clock, blocks uint64, err error) {
	c = clock{restored: true, started: true}
	h := head{parse: true, reader: reader{form.Open(b, formVersion)}}
	if h.Err == nil {
		h.code(s, &c, &blocks)
	}
	s.sure = s.position
	return c, blocks, damaged(h.End())
}
