package pebble

import (
	"cmp"
	"encoding/binary"
	"errors"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/source"
)

// The first bytes of keys.
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

// errForm is the cause when a value is not what its key says.
var errForm = errors.New("a value has an unknown form")

func numbered(tag byte, number uint32) []byte {
	return binary.BigEndian.AppendUint32([]byte{tag}, number)
}

func nameKey(kind nameKind, number uint32) []byte {
	return binary.BigEndian.AppendUint32([]byte{nameTag, byte(kind)}, number)
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

func appendText(dst []byte, text string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(text))), text...)
}

// A reader takes a value apart. After the first fault it returns zeros.
type reader struct {
	rest   []byte
	failed bool
}

func (r *reader) fail() { r.rest, r.failed = nil, true }

func (r *reader) uint() uint64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

func (r *reader) int() int64 {
	v, n := binary.Varint(r.rest)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

func (r *reader) bytes(n uint64) []byte {
	if n > uint64(len(r.rest)) {
		r.fail()
		return nil
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *reader) byte() byte {
	if b := r.bytes(1); len(b) == 1 {
		return b[0]
	}
	return 0
}

func (r *reader) flag() bool {
	b := r.byte()
	if b > 1 {
		r.fail()
	}
	return b == 1
}

func (r *reader) text() string { return string(r.bytes(r.uint())) }

func (r *reader) time() time.Time {
	t := time.UnixMicro(r.int()).UTC()
	if y := t.Year(); y < 1 || y > 9999 {
		r.fail()
		return time.Time{}
	}
	return t
}

// number returns a number of 32 bits.
func (r *reader) number() uint32 {
	v := r.uint()
	if v > 1<<32-1 {
		r.fail()
		return 0
	}
	return uint32(v)
}

// end returns errForm unless all was read and fits.
func (r *reader) end() error {
	if r.failed || len(r.rest) > 0 {
		return errForm
	}
	return nil
}

func appendFlag(dst []byte, flag bool) []byte {
	if flag {
		return append(dst, 1)
	}
	return append(dst, 0)
}

func appendEpoch(dst []byte, epoch uint64) []byte { return binary.AppendUvarint(dst, epoch) }

func decodeEpoch(b []byte) (uint64, error) {
	r := reader{rest: b}
	return r.uint(), r.end()
}

func appendProgress(dst []byte, p *store.Progress) []byte {
	dst = binary.AppendUvarint(dst, p.Position)
	dst = binary.AppendUvarint(appendText(dst, p.Cursor.Modified), p.Cursor.ID)
	dst = binary.AppendUvarint(appendFlag(dst, p.Started), p.Floor)
	dst = binary.AppendUvarint(dst, p.Since)
	dst = binary.AppendUvarint(dst, p.Low)
	dst = binary.AppendUvarint(dst, p.Snapshot.First)
	dst = binary.AppendUvarint(dst, p.Snapshot.Last-p.Snapshot.First)
	return appendFlag(binary.AppendVarint(dst, p.Saved.UnixMicro()), p.ReconcileDue)
}

func decodeProgress(b []byte) (store.Progress, error) {
	r := reader{rest: b}
	p := store.Progress{Position: r.uint(), Cursor: source.Cursor{Modified: r.text(), ID: r.uint()}, Started: r.flag(), Floor: r.uint(), Since: r.uint(), Low: r.uint()}
	p.Snapshot.First = r.uint()
	if p.Snapshot.Last = p.Snapshot.First + r.uint(); p.Snapshot.Last < p.Snapshot.First {
		r.fail()
	}
	p.Saved, p.ReconcileDue = r.time(), r.flag()
	return p, r.end()
}

// appendRegistration leaves out the number, which is in the key.
func appendRegistration(dst []byte, g *store.Registration) []byte {
	dst = appendText(appendText(appendText(dst, g.Stream), g.TP), g.Incarnation)
	for _, v := range []uint64{g.Next, g.Last.Offset, g.Last.Hash, g.High.Offset, g.High.Hash, g.Epoch, g.Seen} {
		dst = binary.AppendUvarint(dst, v)
	}
	return appendFlag(appendFlag(dst, g.Late), g.Retired)
}

func decodeRegistration(number uint32, b []byte) (store.Registration, error) {
	r := reader{rest: b}
	g := store.Registration{
		Number: number, Stream: r.text(), TP: r.text(), Incarnation: r.text(), Next: r.uint(),
		Last: store.Anchor{Offset: r.uint(), Hash: r.uint()}, High: store.Anchor{Offset: r.uint(), Hash: r.uint()},
		Epoch: r.uint(), Seen: r.uint(), Late: r.flag(), Retired: r.flag(),
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

// locationOf returns where an entry lies whose shard has a number.
func locationOf(shard uint32, e *store.Entry) location {
	if e.State == store.Absent {
		return location{absent: true, row: second(e.Since)}
	}
	return location{shard: shard, row: e.Row}
}

// compare orders locations by their keys.
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
	if !p.absent {
		dst = binary.BigEndian.AppendUint32(append(dst, entryTag), p.shard)
		return binary.BigEndian.AppendUint64(dst, p.row)
	}
	dst = binary.BigEndian.AppendUint32(append(dst, absentTag), stream)
	return binary.BigEndian.AppendUint64(dst, p.row)
}

// appendLocations appends the value of a hash.
func appendLocations(dst []byte, locations []location) []byte {
	for _, p := range locations {
		number := uint64(0)
		if !p.absent {
			number = uint64(p.shard) + 1
		}
		dst = binary.AppendUvarint(binary.AppendUvarint(dst, number), p.row)
	}
	return dst
}

// decodeLocations appends to dst what appendLocations wrote, one location at least.
func decodeLocations(dst []location, b []byte) ([]location, error) {
	r := reader{rest: b}
	for ok := true; ok; ok = len(r.rest) > 0 {
		number, row := r.uint(), r.uint()
		if number > 1<<32 {
			r.fail()
		}
		p := location{row: row, absent: number == 0}
		if !p.absent {
			p.shard = uint32(number - 1)
		}
		dst = append(dst, p)
	}
	return dst, r.end()
}

// appendHashKey appends the key of a hash in a stream.
func appendHashKey(dst []byte, stream uint32, hash uint64) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(append(dst, hashTag), stream), hash)
}

// hashOf is the hash by which entities are found.
func hashOf(entity []byte) uint64 { return xxhash.Sum64(entity) }

// split takes the key of an entry apart: its location, and the entity.
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

// nameKind says what a name is of.
type nameKind byte

const (
	streamName nameKind = 1 + iota
	shardName
)

// name is the name of a stream or a shard.
type name struct {
	kind nameKind
	// text is the name, stream that of a shard's stream.
	text, stream string
}

func shardOf(key store.Key) name { return name{shardName, key.Shard, key.Stream} }

// numberedName is a name and the number that stands for it.
type numberedName struct {
	name
	number uint32
}

// names gives the names of each kind numbers, from 0 on, for good.
type names struct {
	mu      sync.RWMutex
	numbers map[name]uint32
	texts   map[nameKind][]string
	streams []string // of shards, by their numbers
	// unsaved are the names whose numbers are in no batch that was applied.
	unsaved []numberedName
}

// find returns the number of a name that has one.
func (n *names) find(of name) (number uint32, ok bool) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	number, ok = n.numbers[of]
	return number, ok
}

// number returns the number of a name; a new one has to be saved with the next batch.
func (n *names) number(of name) uint32 {
	if number, ok := n.find(of); ok {
		return number
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	number := n.append(of)
	n.unsaved = append(n.unsaved, numberedName{of, number})
	return number
}

// append gives the next number to a name. Its caller holds mu, or is the only one.
func (n *names) append(of name) uint32 {
	number := uint32(len(n.texts[of.kind]))
	n.numbers[of] = number
	n.texts[of.kind] = append(n.texts[of.kind], of.text)
	if of.kind == shardName {
		n.streams = append(n.streams, of.stream)
	}
	return number
}

// text returns the name that a number stands for.
func (n *names) text(kind nameKind, number uint32) (string, bool) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	if texts := n.texts[kind]; number < uint32(len(texts)) {
		return texts[number], true
	}
	return "", false
}

// shard returns the key of the shard that a number stands for.
func (n *names) shard(number uint32) (store.Key, bool) {
	text, ok := n.text(shardName, number)
	if !ok {
		return store.Key{}, false
	}
	n.mu.RLock()
	defer n.mu.RUnlock()
	return store.Key{Stream: n.streams[number], Shard: text}, true
}

// shardsOf returns the numbers of a stream's shards.
func (n *names) shardsOf(stream string) []uint32 {
	n.mu.RLock()
	defer n.mu.RUnlock()
	var numbers []uint32
	for i, s := range n.streams {
		if s == stream {
			numbers = append(numbers, uint32(i))
		}
	}
	return numbers
}

func appendName(dst []byte, n name) []byte {
	dst = appendText(dst, n.text)
	if n.kind == shardName {
		dst = appendText(dst, n.stream)
	}
	return dst
}

func decodeName(kind nameKind, b []byte) (name, error) {
	r := reader{rest: b}
	n := name{kind: kind, text: r.text()}
	if kind == shardName {
		n.stream = r.text()
	}
	if kind < streamName || kind > shardName || n.text == "" {
		r.fail()
	}
	return n, r.end()
}
