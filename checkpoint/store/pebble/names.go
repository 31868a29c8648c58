package pebble

import (
	"sync"

	"bridge/checkpoint/store"
)

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
