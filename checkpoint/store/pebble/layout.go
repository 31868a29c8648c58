package pebble

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/internal/form"
	"example.org/bridge/source"
)

const (
	epochTag        = 'e'
	nameTag         = 'n'
	registrationTag = 'r'
	progressTag     = 's'
	partTag         = 'p'
	hashTag         = 'h'
	absentTag       = 'a'
	entryTag        = 'v'
)

var errForm = errors.New("a value has an unknown form")

func numbered(tag byte, number uint32) []byte {
	return binary.BigEndian.AppendUint32([]byte{tag}, number)
}

func partKey(shard uint32, kind store.Kind, number uint64) []byte {
	return binary.BigEndian.AppendUint64(append(numbered(partTag, shard), byte(kind)), number)
}

// after returns the first key behind those that begin with prefix, whose first byte is not 0xff.
func after(prefix []byte) []byte {
	end := append([]byte(nil), prefix...)
	for i := len(end) - 1; ; i-- {
		if end[i]++; end[i] != 0 {
			return end[:i+1]
		}
	}
}

type reader struct{ form.Reader }

func readerOf(b []byte) reader { return reader{form.Reader{Rest: b}} }

func (r *reader) byte(most byte) byte {
	b := r.Bytes(1)
	if len(b) == 0 {
		return 0
	}
	if b[0] > most {
		r.Fail("a byte out of bounds")
	}
	return b[0]
}

func (r *reader) flag() bool { return r.byte(1) == 1 }

func (r *reader) number() uint32 {
	v := r.Uint()
	if v > 1<<32-1 {
		r.Fail("a number out of bounds")
	}
	return uint32(v)
}

func (r *reader) end() error {
	if err := r.End(); err != nil {
		return fmt.Errorf("%w: %w", errForm, err)
	}
	return nil
}

func appendFlag(dst []byte, flag bool) []byte {
	if flag {
		return append(dst, 1)
	}
	return append(dst, 0)
}

func decodeEpoch(b []byte) (uint64, error) {
	r := readerOf(b)
	return r.Uint(), r.end()
}

func appendProgress(dst []byte, p *store.Progress) []byte {
	dst = binary.AppendUvarint(dst, p.Position)
	dst = binary.AppendUvarint(form.AppendText(dst, p.Cursor.Modified), p.Cursor.ID)
	dst = form.AppendUints(appendFlag(dst, p.Started), p.Floor, p.Since, p.Low, p.Snapshot.First, p.Snapshot.Last-p.Snapshot.First)
	return appendFlag(binary.AppendVarint(dst, p.Saved.UnixMicro()), p.ReconcileDue)
}

func decodeProgress(b []byte) (store.Progress, error) {
	r := readerOf(b)
	p := store.Progress{Position: r.Uint(), Cursor: source.Cursor{Modified: r.Text(), ID: r.Uint()}, Started: r.flag(), Floor: r.Uint(), Since: r.Uint(), Low: r.Uint()}
	p.Snapshot.First = r.Uint()
	p.Snapshot.Last = p.Snapshot.First + r.Uint()
	p.Saved, p.ReconcileDue = time.UnixMicro(r.Int()).UTC(), r.flag()
	if year := p.Saved.Year(); year < 1 || year > 9999 || p.Snapshot.Empty() {
		r.Fail("a time or a range out of bounds")
	}
	return p, r.end()
}

// appendRegistration leaves out the number, which is in the key.
func appendRegistration(dst []byte, g *store.Registration) []byte {
	dst = form.AppendText(form.AppendText(form.AppendText(dst, g.Stream), g.TP), g.Incarnation)
	dst = form.AppendUints(dst, g.Next, g.Last.Offset, g.Last.Hash, g.High.Offset, g.High.Hash, g.Epoch, g.Seen)
	return appendFlag(appendFlag(dst, g.Late), g.Retired)
}

func decodeRegistration(number uint32, b []byte) (store.Registration, error) {
	r := readerOf(b)
	g := store.Registration{
		Number: number, Stream: r.Text(), TP: r.Text(), Incarnation: r.Text(), Next: r.Uint(),
		Last: store.Anchor{Offset: r.Uint(), Hash: r.Uint()}, High: store.Anchor{Offset: r.Uint(), Hash: r.Uint()},
		Epoch: r.Uint(), Seen: r.Uint(), Late: r.flag(), Retired: r.flag(),
	}
	return g, r.end()
}

// location says where an entry lies: in a row of a shard or, of an absent entity, at a time.
type location struct {
	absent bool
	shard  uint32
	// row is the row, or of an absent entity the seconds since the year 1.
	row uint64
}

func (p location) compare(other location) int {
	switch {
	case p.absent != other.absent && p.absent:
		return -1
	case p.absent != other.absent:
		return 1
	}
	return cmp.Or(cmp.Compare(p.shard, other.shard), cmp.Compare(p.row, other.row))
}

// appendPrefix appends what the keys of the entities in p begin with.
func (p location) appendPrefix(dst []byte, stream uint32) []byte {
	tag, number := byte(entryTag), p.shard
	if p.absent {
		tag, number = absentTag, stream
	}
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(append(dst, tag), number), p.row)
}

func split(key []byte) (at location, entity []byte, err error) {
	if len(key) < 13 {
		return at, nil, errForm
	}
	at.row = binary.BigEndian.Uint64(key[5:])
	if at.absent = key[0] == absentTag; !at.absent {
		at.shard = binary.BigEndian.Uint32(key[1:])
	}
	return at, key[13:], nil
}

func appendLocations(dst []byte, locations []location) []byte {
	for _, p := range locations {
		number := uint64(0)
		if !p.absent {
			number = uint64(p.shard) + 1
		}
		dst = form.AppendUints(dst, number, p.row)
	}
	return dst
}

// decodeLocations appends to dst what appendLocations wrote, one location at least.
func decodeLocations(dst []location, b []byte) ([]location, error) {
	r := readerOf(b)
	for ok := true; ok; ok = len(r.Rest) > 0 {
		number, row := r.Uint(), r.Uint()
		if number > 1<<32 {
			r.Fail("a number out of bounds")
		}
		p := location{row: row, absent: number == 0}
		if !p.absent {
			p.shard = uint32(number - 1)
		}
		dst = append(dst, p)
	}
	return dst, r.end()
}

func appendHashKey(dst []byte, stream uint32, hash uint64) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(append(dst, hashTag), stream), hash)
}

func hashOf(entity []byte) uint64 { return xxhash.Sum64(entity) }

// The seconds since 1970 of the years 1 to 9999.
const (
	minSecond = -62135596800
	maxSecond = 253402300799
)

// second returns the seconds from the year 1 to t, rounded up, as keys have them.
func second(t time.Time) uint64 { return uint64(t.Add(time.Second-1).Unix() - minSecond) }

const disputedFlag = 0x80

// appendEntry leaves out what the key has: the shard and row or, of an absent one, the time.
func appendEntry(dst []byte, shard uint32, e *store.Entry) []byte {
	state := byte(e.State)
	if e.Disputed {
		state |= disputedFlag
	}
	dst = append(dst, state)
	if e.State == store.Absent {
		dst = form.AppendUints(dst, uint64(shard), e.Row)
	} else {
		dst = append(dst, e.Digest[:]...)
	}
	// BeforeFirst becomes 0, and is short.
	return form.AppendUints(append(dst, e.Event[:]...), uint64(e.At.TP), e.At.Offset+1, e.Epoch, e.Seq)
}

// decodeEntry returns the entry at a location, and the number of its shard in place of the name.
func decodeEntry(at location, b []byte) (e store.Entry, shard uint32, err error) {
	r := readerOf(b)
	state := r.byte(0xff)
	e.State, e.Disputed = store.EntryState(state&^disputedFlag), state&disputedFlag != 0
	if e.State == store.Unknown || e.State > store.Recorded || at.absent != (e.State == store.Absent) || at.absent && at.row > maxSecond-minSecond {
		r.Fail("a state that does not fit the key")
	}
	shard, e.Row = at.shard, at.row
	if at.absent {
		e.Since = time.Unix(int64(at.row)+minSecond, 0).UTC()
		shard, e.Row = r.number(), r.Uint()
	} else {
		copy(e.Digest[:], r.Bytes(16))
	}
	copy(e.Event[:], r.Bytes(16))
	e.At = store.At{TP: r.number(), Offset: r.Uint() - 1}
	e.Epoch, e.Seq = r.Uint(), r.Uint()
	return e, shard, r.end()
}

type nameKind byte

const (
	streamName nameKind = 1 + iota
	shardName
)

type name struct {
	kind nameKind
	// text is the name, stream that of a shard's stream.
	text, stream string
}

func streamOf(stream string) name { return name{kind: streamName, text: stream} }

func shardOf(key store.Key) name { return name{shardName, key.Shard, key.Stream} }

func appendName(dst []byte, n name) []byte {
	dst = form.AppendText(dst, n.text)
	if n.kind == shardName {
		dst = form.AppendText(dst, n.stream)
	}
	return dst
}

func decodeName(kind nameKind, b []byte) (name, error) {
	r := readerOf(b)
	n := name{kind: kind, text: r.Text()}
	if kind == shardName {
		n.stream = r.Text()
	}
	if kind < streamName || kind > shardName || n.text == "" {
		r.Fail("a name of nothing")
	}
	return n, r.end()
}

// names gives the names of each kind numbers, from 0 on, for good.
type names struct {
	mu      sync.RWMutex
	numbers map[name]uint32
	list    map[nameKind][]name
	// unsaved are the names whose numbers are in no batch that was applied.
	unsaved []name
}

func (n *names) find(of name) (number uint32, ok bool) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	number, ok = n.numbers[of]
	return number, ok
}

// number returns the number of a name; a new one has to be saved with the next batch.
func (n *names) number(of name) uint32 {
	number, ok := n.find(of)
	if !ok {
		number = n.append(of)
		n.unsaved = append(n.unsaved, of)
	}
	return number
}

// append gives the next number to a name. One goroutine at a time appends.
func (n *names) append(of name) uint32 {
	n.mu.Lock()
	defer n.mu.Unlock()
	number := uint32(len(n.list[of.kind]))
	n.numbers[of], n.list[of.kind] = number, append(n.list[of.kind], of)
	return number
}

func (n *names) shard(number uint32) (store.Key, error) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	if list := n.list[shardName]; number < uint32(len(list)) {
		return store.Key{Stream: list[number].stream, Shard: list[number].text}, nil
	}
	return store.Key{}, fmt.Errorf("shard %d has no name: %w", number, errForm)
}

func (n *names) shardsOf(stream string) (numbers []uint32) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	for i, s := range n.list[shardName] {
		if s.stream == stream {
			numbers = append(numbers, uint32(i))
		}
	}
	return numbers
}
