package checkpoint

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"time"

	"bridge/sink"
	"bridge/source"
)

// stateVersion is the version that AppendState writes. Every version begins with its number and ends with the checksum.
const stateVersion = 1

const checksumSize = 4

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// The least bytes of one mark and of one gap: they bound what a count may claim before memory is set aside for it.
const (
	minMark = 3
	minGap  = 3
)

// Check returns an error when s is no state: gaps that are not ascending, not disjoint or beyond the position, or a time
// outside the years 1 to 9999.
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
	return nil
}

var (
	minMicros = time.Time{}.UnixMicro()
	maxMicros = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro() - 1
)

func plausible(t time.Time) bool { return t.Year() >= 1 && t.Year() <= 9999 }

// AppendState appends the form in which stores keep s to dst and returns the extended dst. Times are kept to the
// microsecond, in UTC. DecodeState refuses the result when s does not pass Check.
//
// The form is, with integers as varints of encoding/binary (u unsigned, i signed), texts as their length (u) and bytes,
// and times as microseconds since 1970:
//
//	version    1 byte, 1
//	saved      i
//	id         u
//	reading    through u, at i
//	marks      count u, then each: place text, incarnation text, last u
//	gaps       count u, then each: first u (from the end of the gap before, plus one), last u (from first),
//	           missed i (from that of the gap before; the first from saved)
//	checksum   CRC-32C over all before, 4 bytes, little endian
func AppendState(dst []byte, s State) []byte {
	start := len(dst)
	saved := s.Saved.UnixMicro()
	dst = append(dst, stateVersion)
	dst = binary.AppendVarint(dst, saved)
	dst = binary.AppendUvarint(dst, s.Position.ID)
	dst = binary.AppendUvarint(dst, s.Position.Reading.Through)
	dst = binary.AppendVarint(dst, s.Position.Reading.At.UnixMicro())
	dst = binary.AppendUvarint(dst, uint64(len(s.Marks)))
	for _, m := range s.Marks {
		dst = appendText(dst, m.Place)
		dst = appendText(dst, m.Incarnation)
		dst = binary.AppendUvarint(dst, m.Last)
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
	return binary.LittleEndian.AppendUint32(dst, crc32.Checksum(dst[start:], castagnoli))
}

func appendText(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

// DecodeState reads what AppendState wrote. It keeps no reference to b. The error wraps ErrCorrupt, or ErrNewer when a newer
// version wrote b. It sets aside memory only in proportion to len(b), whatever b claims.
func DecodeState(b []byte) (State, error) {
	if len(b) < 1+checksumSize {
		return State{}, fmt.Errorf("state of %d bytes: %w", len(b), ErrCorrupt)
	}
	body, sum := b[:len(b)-checksumSize], binary.LittleEndian.Uint32(b[len(b)-checksumSize:])
	if crc32.Checksum(body, castagnoli) != sum {
		return State{}, fmt.Errorf("state of %d bytes has a wrong checksum: %w", len(b), ErrCorrupt)
	}
	switch v := body[0]; {
	case v > stateVersion:
		return State{}, fmt.Errorf("state of version %d, this program knows up to %d: %w", v, stateVersion, ErrNewer)
	case v < stateVersion:
		return State{}, fmt.Errorf("state of version %d: %w", v, ErrCorrupt)
	}
	r := reader{rest: body[1:]}
	var s State
	saved := r.micros(0)
	s.Saved = time.UnixMicro(saved).UTC()
	s.Position.ID = r.uint()
	s.Position.Reading.Through = r.uint()
	s.Position.Reading.At = time.UnixMicro(r.micros(0)).UTC()
	s.Marks = r.marks()
	s.Position.Gaps = r.gaps(saved, s.Position.ID)
	if r.err == nil && len(r.rest) > 0 {
		r.fail("bytes follow its end")
	}
	if r.err != nil {
		return State{}, fmt.Errorf("state of %d bytes: %w: %w", len(b), r.err, ErrCorrupt)
	}
	return s, nil
}

// reader takes values off the front of rest. After the first error it returns zeros.
type reader struct {
	rest []byte
	err  error
}

func (r *reader) fail(text string) {
	if r.err == nil {
		r.err = errors.New(text)
	}
	r.rest = nil
}

func (r *reader) uint() uint64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 {
		r.fail("a number is cut off or too large")
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

// micros returns base plus a difference, if that is a plausible time.
func (r *reader) micros(base int64) int64 {
	d, n := binary.Varint(r.rest)
	if n <= 0 {
		r.fail("a time is cut off or too large")
		return 0
	}
	r.rest = r.rest[n:]
	// Two plausible times differ by less than 2^59, so that neither sum overflows.
	if d < -(1<<60) || d > 1<<60 || base+d < minMicros || base+d > maxMicros {
		r.fail("a time is outside the years 1 to 9999")
		return 0
	}
	return base + d
}

// count returns a number of things that take at least size bytes each.
func (r *reader) count(size int) int {
	n := r.uint()
	if n > uint64(len(r.rest)/size) {
		r.fail("a count is larger than what is there")
		return 0
	}
	return int(n)
}

func (r *reader) text() string {
	n := r.count(1)
	s := string(r.rest[:n])
	r.rest = r.rest[n:]
	return s
}

func (r *reader) marks() []sink.Mark {
	n := r.count(minMark)
	if n == 0 {
		return nil
	}
	marks := make([]sink.Mark, 0, n)
	for range n {
		marks = append(marks, sink.Mark{Place: r.text(), Incarnation: r.text(), Last: r.uint()})
	}
	return marks
}

// gaps reads ascending, disjoint ranges at or below id.
func (r *reader) gaps(saved int64, id uint64) []source.Gap {
	n := r.count(minGap)
	if n == 0 {
		return nil
	}
	gaps := make([]source.Gap, 0, n)
	next, missed := uint64(0), saved
	for range n {
		distance, length := r.uint(), r.uint()
		missed = r.micros(missed)
		if r.err != nil {
			return nil
		}
		// The end of a gap at the very last id leaves no place for another.
		if full := len(gaps) > 0 && next == 0; full || distance > id-next || next > id || length > id-next-distance {
			r.fail("a gap does not fit below the position")
			return nil
		}
		first := next + distance
		gaps = append(gaps, source.Gap{First: first, Last: first + length, Missed: time.UnixMicro(missed).UTC()})
		next = first + length + 1
	}
	return slices.Clip(gaps)
}
