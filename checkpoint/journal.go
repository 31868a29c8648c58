package checkpoint

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"bridge/sink"
	"bridge/source"
	"bridge/source/ledger"
)

// journalVersion is the version that AppendJournal writes, plainJournal the one that is not packed.
const (
	journalVersion = 2
	plainJournal   = 1
)

// The least bytes of one message and of one part of a ledger.
const (
	minMessage = 11
	minChunk   = 2
)

// Check returns an error when j is no journal: a time outside the years 1 to 9999, or a state
// after it that does not pass State.Check or has marks or a journal.
func (j *Journal) Check() error {
	for i := range j.Messages {
		if t := j.Messages[i].Time; !plausible(t) {
			return fmt.Errorf("the time %v of message %s is outside the years 1 to 9999", t, j.Messages[i].ID)
		}
	}
	if len(j.After.Offsets) > 0 || len(j.After.Journals) > 0 || j.After.Keep > 0 {
		return errors.New("the state after a journal has marks or a journal")
	}
	return j.After.Check()
}

// AppendJournal appends the form in which stores keep j to dst and returns the extended dst. The
// number is left out: it is the name of what a store keeps.
//
// The form is:
//
//	version    1 byte, 2
//	body       one snappy block, without the framing of streams
//	checksum   CRC-32C over all before, 4 bytes, little endian
//
// The body is, in the terms of AppendState, where a repeat is 0 for what the message before has, or
// the length plus one (u) and the bytes:
//
//	messages   count u, then each: destination repeat, key text, value text, id text, type repeat, version repeat,
//	           stream repeat, shard repeat, row u, origin repeat, time i
//	state      length u, then the form of AppendState
//	ledger     anew 1 byte, count u, then each part: key u, length plus one (u) and bytes, or 0 for a part that is gone
//	view       count u, then each in the form of AppendChange
//	given      count u, then each: first u, last u (from first)
//	found      as given
//
// Version 1 has the body as it is.
//
// dst grows once at most, by as much as the body has without compression. It then has room for the
// checksum of a store, too.
func AppendJournal(dst []byte, j *Journal) []byte {
	memory := bodies.Get().(*[]byte)
	*memory = j.appendBody(slices.Grow((*memory)[:0], j.room()))
	start := len(dst)
	dst = appendPacked(dst, journalVersion, *memory)
	if cap(*memory) <= keepBody {
		bodies.Put(memory)
	}
	return appendChecksum(dst, start)
}

// appendBody appends the form of j without its version and its checksum.
func (j *Journal) appendBody(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(j.Messages)))
	var last sink.Message
	for i := range j.Messages {
		m := &j.Messages[i]
		dst = appendRepeat(dst, last.Destination, m.Destination)
		dst = append(binary.AppendUvarint(dst, uint64(len(m.Key))), m.Key...)
		dst = append(binary.AppendUvarint(dst, uint64(len(m.Value))), m.Value...)
		dst = appendText(dst, m.ID)
		dst = appendRepeat(dst, last.Type, m.Type)
		dst = appendRepeat(dst, last.Version, m.Version)
		dst = appendRepeat(dst, last.Stream, m.Stream)
		dst = appendRepeat(dst, last.Shard, m.Shard)
		dst = binary.AppendUvarint(dst, m.RowID)
		dst = appendRepeat(dst, string(last.Origin), string(m.Origin))
		dst = binary.AppendVarint(dst, m.Time.UnixMicro())
		last = *m
	}
	return appendAfter(dst, &j.After)
}

// room is about how many bytes the body of j takes, rather more than less: its memory is then
// allocated once.
func (j *Journal) room() int {
	const (
		message = 40
		change  = 48
		rest    = 4 << 10
	)
	n := rest
	for i := range j.Messages {
		m := &j.Messages[i]
		n += message + len(m.Key) + len(m.Value) + len(m.ID)
		if i == 0 || m.Destination != j.Messages[i-1].Destination || m.Type != j.Messages[i-1].Type {
			n += len(m.Destination) + len(m.Type)
		}
	}
	for i := range j.After.View {
		n += change + len(j.After.View[i].Entity)
	}
	return n
}

// appendAfter appends all parts of the state that is saved once the messages are out.
func appendAfter(dst []byte, s *State) []byte {
	start := len(dst)
	dst = AppendState(dst, *s)
	size := binary.AppendUvarint(make([]byte, 0, binary.MaxVarintLen64), uint64(len(dst)-start))
	dst = slices.Insert(dst, start, size...)
	replace := byte(0)
	if s.ReplaceLedger {
		replace = 1
	}
	dst = binary.AppendUvarint(append(dst, replace), uint64(len(s.Ledger)))
	for _, part := range s.Ledger {
		dst = binary.AppendUvarint(dst, part.Key)
		if part.Bytes == nil {
			dst = append(dst, 0)
		} else {
			dst = append(binary.AppendUvarint(dst, uint64(len(part.Bytes))+1), part.Bytes...)
		}
	}
	dst = binary.AppendUvarint(dst, uint64(len(s.View)))
	for _, c := range s.View {
		dst = AppendChange(dst, c)
	}
	for _, ranges := range [][]source.Range{s.Given, s.Found} {
		dst = binary.AppendUvarint(dst, uint64(len(ranges)))
		for _, r := range ranges {
			dst = appendRange(dst, r)
		}
	}
	return dst
}

func appendRepeat(dst []byte, last, text string) []byte {
	if text == last {
		return append(dst, 0)
	}
	return append(binary.AppendUvarint(dst, uint64(len(text))+1), text...)
}

// DecodeJournal reads what AppendJournal wrote. It keeps no reference to b. The error wraps
// ErrCorrupt, or ErrNewer when a newer version wrote b. It sets aside memory only in proportion to
// len(b), whatever b claims.
func DecodeJournal(b []byte) (*Journal, error) {
	version, r, err := open("journal", b, journalVersion)
	if err != nil {
		return nil, err
	}
	if version > plainJournal {
		r.unpack()
	}
	j := &Journal{Messages: r.messages()}
	if j.After, err = r.after(); err != nil {
		return nil, fmt.Errorf("journal of %d bytes: %w", len(b), err)
	}
	if err := r.close("journal", b); err != nil {
		return nil, err
	}
	if err := j.Check(); err != nil {
		return nil, fmt.Errorf("journal of %d bytes: %w: %w", len(b), err, ErrCorrupt)
	}
	return j, nil
}

func (r *reader) messages() []sink.Message {
	n := r.count(minMessage)
	if n == 0 {
		return nil
	}
	messages := make([]sink.Message, 0, n)
	var m sink.Message
	for range n {
		m = sink.Message{
			Destination: r.repeat(m.Destination), Key: r.copied(), Value: r.copied(), ID: r.text(),
			Type: r.repeat(m.Type), Version: r.repeat(m.Version), Stream: r.repeat(m.Stream), Shard: r.repeat(m.Shard),
			RowID: r.uint(), Origin: sink.Origin(r.repeat(string(m.Origin))), Time: r.time(),
		}
		messages = append(messages, m)
	}
	return messages
}

// repeat returns a text, or last where it says so.
func (r *reader) repeat(last string) string {
	n := r.uint()
	if n == 0 {
		return last
	}
	if n-1 > uint64(len(r.rest)) {
		r.fail("a text is cut off")
		return ""
	}
	return string(r.bytes(int(n - 1)))
}

// after returns all parts of a state. An error of its first part is returned, others are kept in r.
func (r *reader) after() (State, error) {
	state := r.bytes(r.count(1))
	if r.err != nil {
		return State{}, nil
	}
	s, err := DecodeState(state)
	if err != nil {
		return State{}, err
	}
	s.ReplaceLedger = r.flag()
	s.Ledger = r.chunks()
	if n := r.count(minChange); n > 0 {
		s.View = make([]Change, 0, n)
		for range n {
			c := r.change()
			c.Entity = append([]byte(nil), c.Entity...)
			s.View = append(s.View, c)
		}
	}
	s.Given, s.Found = r.idRanges(), r.idRanges()
	return s, nil
}

func (r *reader) chunks() []ledger.Chunk {
	n := r.count(minChunk)
	if n == 0 {
		return nil
	}
	parts := make([]ledger.Chunk, 0, n)
	for range n {
		part := ledger.Chunk{Key: r.uint()}
		if size := r.uint(); size > uint64(len(r.rest))+1 {
			r.fail("a part of the ledger is cut off")
		} else if size > 0 {
			part.Bytes = append(make([]byte, 0, size-1), r.bytes(int(size-1))...)
		}
		parts = append(parts, part)
	}
	return parts
}
