package checkpoint

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"bridge/sink"
	"bridge/source"
	"bridge/source/ledger"
)

// stateVersion is the version that AppendState writes, oldestState the oldest that DecodeState
// reads. Every version begins with its number and ends with the checksum.
const (
	stateVersion = 3
	oldestState  = 1
)

// The least bytes of one offset and of one gap: they bound what a count may claim before memory is
// set aside for it.
const (
	minOffset = 3
	minGap    = 3
)

// Check returns an error when s is no state: gaps that are not ascending, not disjoint or beyond
// the position, a range of ids that ends before it begins, a time outside the years 1 to 9999, or a
// part that does not pass Change.Check or Journal.Check.
func (s *State) Check() error {
	for _, t := range []time.Time{s.Saved, s.Position.Reading.At} {
		if !plausible(t) {
			return fmt.Errorf("the time %v is outside the years 1 to 9999", t)
		}
	}
	for i, g := range s.Position.Gaps {
		switch {
		case g.First > g.Last || g.Last > s.Position.ID:
			return fmt.Errorf("gap %d-%d does not fit below position %d", g.First, g.Last, s.Position.ID)
		case i > 0 && g.First <= s.Position.Gaps[i-1].Last:
			return fmt.Errorf("gap %d-%d does not come after the gap that ends at %d", g.First, g.Last, s.Position.Gaps[i-1].Last)
		case !plausible(g.Missed):
			return fmt.Errorf("the time %v of gap %d-%d is outside the years 1 to 9999", g.Missed, g.First, g.Last)
		}
	}
	for _, ranges := range [][]source.Range{{s.Snapshot}, s.Given, s.Found} {
		for _, r := range ranges {
			if r.First > r.Last {
				return fmt.Errorf("the ids %d-%d are no range", r.First, r.Last)
			}
		}
	}
	for i := range s.View {
		if err := s.View[i].Check(); err != nil {
			return err
		}
	}
	for i, j := range s.Journals {
		if i > 0 && j.Number <= s.Journals[i-1].Number {
			return fmt.Errorf("journal %d comes after journal %d", j.Number, s.Journals[i-1].Number)
		}
		if err := j.Check(); err != nil {
			return err
		}
	}
	return nil
}

// AppendState appends the form in which stores keep s to dst and returns the extended dst. The
// parts that have values of their own (Ledger, View, Given, Found, Journals) are left out. Times
// are kept to the microsecond, in UTC. DecodeState refuses the result when s does not pass Check.
//
// The form is, with integers as varints of encoding/binary (u unsigned, i signed), texts as their
// length (u) and bytes, and times as microseconds since 1970:
//
//	version    1 byte, 3
//	saved      i
//	id         u
//	reading    through u, at i
//	offsets    count u, then each: topic-partition or stream text, incarnation text, last u, id text
//	gaps       count u, then each: first u (from the end of the gap before, plus one), last u (from first),
//	           missed i (from that of the gap before; the first from saved)
//	cursor     modified text, id u
//	snapshot   first u, last u (from first)
//	checksum   CRC-32C over all before, 4 bytes, little endian
//
// Version 1 has neither cursor nor snapshot, version 2 has no ids in its offsets.
func AppendState(dst []byte, s State) []byte {
	start := len(dst)
	saved := s.Saved.UnixMicro()
	dst = append(dst, stateVersion)
	dst = binary.AppendVarint(dst, saved)
	dst = binary.AppendUvarint(dst, s.Position.ID)
	dst = binary.AppendUvarint(dst, s.Position.Reading.Through)
	dst = binary.AppendVarint(dst, s.Position.Reading.At.UnixMicro())
	dst = binary.AppendUvarint(dst, uint64(len(s.Offsets)))
	for _, m := range s.Offsets {
		dst = appendText(dst, m.TP)
		dst = appendText(dst, m.Incarnation)
		dst = binary.AppendUvarint(dst, m.Last)
		dst = appendText(dst, m.ID)
	}
	dst = binary.AppendUvarint(dst, uint64(len(s.Position.Gaps)))
	next, missed := uint64(0), saved
	for _, g := range s.Position.Gaps {
		dst = binary.AppendUvarint(dst, g.First-next)
		dst = binary.AppendUvarint(dst, g.Last-g.First)
		at := g.Missed.UnixMicro()
		dst = binary.AppendVarint(dst, at-missed)
		next, missed = g.Last+1, at
	}
	dst = appendText(dst, s.Cursor.Modified)
	dst = binary.AppendUvarint(dst, s.Cursor.ID)
	dst = appendRange(dst, s.Snapshot)
	return appendChecksum(dst, start)
}

// DecodeState reads what AppendState wrote. It keeps no reference to b. The error wraps ErrCorrupt,
// or ErrNewer when a newer version wrote b. It sets aside memory only in proportion to len(b),
// whatever b claims.
func DecodeState(b []byte) (State, error) {
	version, r, err := open("state", b, stateVersion)
	if err != nil {
		return State{}, err
	}
	var s State
	saved := r.micros(0)
	s.Saved = time.UnixMicro(saved).UTC()
	s.Position.ID = r.uint()
	s.Position.Reading.Through = r.uint()
	s.Position.Reading.At = time.UnixMicro(r.micros(0)).UTC()
	s.Offsets = r.offsets(version)
	s.Position.Gaps = r.gaps(saved, s.Position.ID)
	if version > oldestState {
		s.Cursor = source.Cursor{Modified: r.text(), ID: r.uint()}
		s.Snapshot = r.idRange()
	}
	if err := r.close("state", b); err != nil {
		return State{}, err
	}
	return s, nil
}

// offsetsWithIDs is the first version whose offsets have ids.
const offsetsWithIDs = 3

func (r *reader) offsets(version byte) []sink.Offset {
	n := r.count(minOffset)
	if n == 0 {
		return nil
	}
	offsets := make([]sink.Offset, 0, n)
	for range n {
		m := sink.Offset{TP: r.text(), Incarnation: r.text(), Last: r.uint()}
		if version >= offsetsWithIDs {
			m.ID = r.text()
		}
		offsets = append(offsets, m)
	}
	return offsets
}

// gaps reads ascending, disjoint ranges at or below id.
func (r *reader) gaps(saved int64, id uint64) []ledger.Gap {
	n := r.count(minGap)
	if n == 0 {
		return nil
	}
	gaps := make([]ledger.Gap, 0, n)
	next, missed := uint64(0), saved
	for range n {
		distance, length := r.uint(), r.uint()
		missed = r.micros(missed)
		if r.err != nil {
			return nil
		}
		// The end of a gap at the very last id leaves no room for another.
		if full := len(gaps) > 0 && next == 0; full || distance > id-next || next > id || length > id-next-distance {
			r.fail("a gap does not fit below the position")
			return nil
		}
		first := next + distance
		gaps = append(gaps, ledger.Gap{First: first, Last: first + length, Missed: time.UnixMicro(missed).UTC()})
		next = first + length + 1
	}
	return slices.Clip(gaps)
}
