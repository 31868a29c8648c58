package buscopy

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/client/backoff"
	"example.org/bridge/sink"
)

// Copy is the progress of a stream as a store held it, as one image.
type Copy struct {
	// Epoch and Number order the copies of a stream: the one with the highest holds. Epoch is at
	// least that of the process that wrote it.
	Epoch, Number uint64
	// Written is when it was made, by the clock of a host, for people.
	Written time.Time
	// Registrations are those of a release stream that were in force. A stream with a view has
	// none: it is read from the beginning.
	Registrations []store.Registration
	Shards        []Shard
	// Lacks reports whether the process that had a shard last had dropped it, as its copy shows.
	// Nil where one copy is all: what that lacks was dropped.
	Lacks func(shard string) bool
	// byName has those of Shards that a copy on the bus has.
	byName map[string]*Shard
}

// Shard is the progress of a shard. Without Parts it is as after `bridge checkpoint rebuild`.
type Shard struct {
	Name     string
	Progress store.Progress
	Parts    []store.Part
}

const (
	// form is the format of entries, formSlot that of entries of a slot. A reader refuses others.
	form, formSlot = 1, 2
	// partBytes is how much of a copy one entry has. With base64 it stays below the 1 MB that
	// brokers and servers take by default.
	partBytes = 384 << 10
	// mostBytes bounds a copy that is read.
	mostBytes = 64 << 20
)

// entry is a value of the bucket: a part of the compressed copy.
type entry struct {
	Form    int       `json:"form"`
	Epoch   uint64    `json:"epoch"`
	Number  uint64    `json:"number"`
	Part    int       `json:"part"`
	Parts   int       `json:"parts"`
	Written time.Time `json:"written"`
	// Slot is that of the process, nil before there were shares.
	Slot *Slot `json:"slot,omitempty"`
	// Data is a part of the copy: JSON, compressed with gzip, which has a checksum.
	Data []byte `json:"data"`
}

// content is what a copy says, without what its entries have.
type content struct {
	Registrations []store.Registration
	Shards        []Shard
}

func encode(c *content) ([]byte, error) {
	text, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	// The level is a good one, and a bytes.Buffer takes every write.
	w, _ := gzip.NewWriterLevel(&b, gzip.BestSpeed)
	_, _ = w.Write(text)
	_ = w.Close()
	return b.Bytes(), nil
}

// split returns the values of a copy, in the order in which they are put.
func split(c *Copy, slot Slot, data []byte) [][]byte {
	parts := slices.Collect(slices.Chunk(data, partBytes))
	values := make([][]byte, len(parts))
	e := entry{Form: form, Epoch: c.Epoch, Number: c.Number, Parts: len(parts), Written: c.Written}
	if slot != (Slot{}) {
		e.Form, e.Slot = formSlot, &slot
	}
	for i, part := range parts {
		e.Part, e.Data = i, part
		// Nothing in it can fail to be encoded.
		values[i], _ = json.Marshal(e)
	}
	return values
}

// held is what a bucket holds of a stream.
type held struct {
	// keys are those of each slot; newest is its copy with the highest epoch and number of which
	// all parts are there. One that was being written when its process ended is passed over.
	keys   map[Slot][]string
	newest map[Slot]*Copy
	// epoch is the highest of all.
	epoch uint64
}

func group(entries []Entry) (h held, err error) {
	type id struct {
		slot          Slot
		epoch, number uint64
	}
	h = held{keys: make(map[Slot][]string), newest: make(map[Slot]*Copy)}
	parts := make(map[id][]entry)
	for i := range entries {
		e, key := entry{Slot: new(Slot)}, entries[i].Key
		// What another form has of another type is no damage.
		if err := json.Unmarshal(entries[i].Value, &e); err != nil && e.Form <= formSlot {
			return held{}, fmt.Errorf("%w: entry %.200q: %w: delete its key; then START decides again where a table has published nothing", ErrDamaged, key, err)
		}
		if e.Form != form && e.Form != formSlot || e.Slot == nil {
			return held{}, fmt.Errorf("%w: entry %.200q has form %d, this version writes %d", ErrNewer, key, e.Form, formSlot)
		}
		if e.Epoch > sink.MaxEpoch {
			return held{}, fmt.Errorf("%w: entry %.200q has the epoch %d: delete its key; then START decides again where a table has published nothing", ErrDamaged, key, e.Epoch)
		}
		h.keys[*e.Slot], h.epoch = append(h.keys[*e.Slot], key), max(h.epoch, e.Epoch)
		parts[id{*e.Slot, e.Epoch, e.Number}] = append(parts[id{*e.Slot, e.Epoch, e.Number}], e)
	}
	best := make(map[Slot]id)
	for i, list := range parts {
		b := best[i.slot]
		if len(list) == list[0].Parts && (i.epoch > b.epoch || i.epoch == b.epoch && i.number > b.number) {
			best[i.slot] = i
		}
	}
	for slot, i := range best {
		if h.newest[slot], err = join(parts[i]); err != nil {
			return held{}, err
		}
	}
	return h, nil
}

func join(list []entry) (*Copy, error) {
	slices.SortFunc(list, func(a, b entry) int { return cmp.Compare(a.Part, b.Part) })
	var data []byte
	for i := range list {
		data = append(data, list[i].Data...)
	}
	first := &list[0]
	var c content
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err == nil {
		data, err = io.ReadAll(io.LimitReader(r, mostBytes))
	}
	if err == nil {
		err = json.Unmarshal(data, &c)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: number %d of epoch %d: %w", ErrDamaged, first.Number, first.Epoch, err)
	}
	byName := make(map[string]*Shard, len(c.Shards))
	for i := range c.Shards {
		byName[c.Shards[i].Name] = &c.Shards[i]
	}
	return &Copy{Epoch: first.Epoch, Number: first.Number, Written: first.Written, Registrations: c.Registrations, Shards: c.Shards, byName: byName}, nil
}

// streamKey returns what the keys of a stream begin with.
func streamKey(domain, stream string) string { return domainKey(domain) + stream + "." }

// domainKey returns what the keys of a domain begin with. Of it all but letters, digits and '-' is
// escaped, so that the parts of a key can be told apart.
func domainKey(domain string) string {
	var b strings.Builder
	for i := range len(domain) {
		if c := domain[i]; c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "=%02X", c)
		}
	}
	return cmp.Or(b.String(), "=") + "."
}

// entryKey returns the key of a part. Each slot and each epoch has keys of its own, so that a
// process that was superseded replaces nothing. Two sets take turns, so that the last copy stays
// whole until the next one is.
func entryKey(begin string, slot Slot, epoch uint64, set, part int) string {
	if slot != (Slot{}) {
		begin += fmt.Sprintf("g%d-%d-%d.", slot.Generation, slot.Index, slot.Number)
	}
	return fmt.Sprintf("%s%d.%d.%d", begin, epoch, set, part)
}

// Errors of a Bucket and of what it holds. Test with errors.Is.
var (
	// ErrMissing is returned where the bucket does not exist and is not made by bridge. The
	// wrapping error says how to make it.
	ErrMissing = errors.New("the topic for copies of the progress is missing")
	// ErrNewer is returned for a copy that a newer version of bridge wrote.
	ErrNewer = errors.New("the copy of the progress was written by a newer version of bridge")
	// ErrDamaged is returned for an entry that cannot be read.
	ErrDamaged = errors.New("the copy of the progress is damaged")
)

// Bucket holds the newest value of each key on the bus. It is safe for concurrent use; of two calls
// about one key the later one must begin when the former one has returned.
//
// All methods wait for a bus that is away until ctx ends, and return its cause then.
type Bucket interface {
	// Entries returns all keys that begin with prefix, and their values, in the order in which they
	// were put last: all that was put before the call, as the leader has it.
	Entries(ctx context.Context, prefix string) ([]Entry, error)
	// Follow returns a function that returns what Entries does, but that entries which were deleted
	// meanwhile may be among them. It reads again only what was put since the last call.
	Follow(prefix string) func(context.Context) ([]Entry, error)
	// Put sets a value, which must not be empty. It is durable when Put returns nil; after an error
	// it may be set, now or later. A key has letters, digits, '=', '-', '_' and '.'.
	Put(ctx context.Context, key string, value []byte) error
	// Delete removes keys, which need not be there.
	Delete(ctx context.Context, keys []string) error
	// Close releases connections, and ends the calls under way.
	Close() error
}

// Entry is a key of a Bucket and its value.
type Entry struct {
	Key   string
	Value []byte
}

// Bus is a sink that can be read back.
type Bus interface {
	sink.Sink
	sink.Reader
}

// MessagesOptions describe a bus to Messages.
type MessagesOptions struct {
	// Bus is of this bucket alone, and is closed with it.
	Bus Bus
	// Read is what to look for in TPs; Destination returns where a key is published, and Key the
	// key of a message.
	Read        string
	Destination func(key string) string
	Key         func(*sink.Stored) string
	// Only returns a reader of the keys with a prefix, and maybe of others. Nil: all are read.
	Only func(prefix string) sink.Reader
	// Usable returns an error unless these TPs can hold the bucket. Nil takes any, and none means
	// that nothing was put yet.
	Usable func([]sink.TP) error
	// Delete removes keys. Nil publishes an empty value, which Kafka compacts away.
	Delete func(ctx context.Context, keys []string) error
}

// Messages is a Bucket of a bus that keeps the last message of each key. Make one with NewMessages.
type Messages struct{ opts MessagesOptions }

var _ Bucket = (*Messages)(nil)

// NewMessages returns a Bucket.
func NewMessages(o MessagesOptions) *Messages {
	if o.Usable == nil {
		o.Usable = func([]sink.TP) error { return nil }
	}
	if o.Only == nil {
		o.Only = func(string) sink.Reader { return o.Bus }
	}
	return &Messages{o}
}

// Entries implements Bucket. It reads all of the bucket: of single keys those that were there first
// may be replaced meanwhile, again and again.
func (m *Messages) Entries(ctx context.Context, prefix string) ([]Entry, error) {
	return m.entries(ctx, m.opts.Bus, prefix, newPuts())
}

// Follow implements Bucket.
func (m *Messages) Follow(prefix string) func(context.Context) ([]Entry, error) {
	// It has one element.
	kept := make(chan *puts, 1)
	kept <- newPuts()
	return func(ctx context.Context) ([]Entry, error) {
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case p := <-kept:
			defer func() { kept <- p }()
			return m.entries(ctx, m.opts.Only(prefix), prefix, p)
		}
	}
}

type puts struct {
	entries []Entry
	// last has the entry of each key; next is where to go on in TPs, by name and incarnation.
	last map[string]int
	next map[[2]string]uint64
}

func newPuts() *puts { return &puts{last: make(map[string]int), next: make(map[[2]string]uint64)} }

func (p *puts) put(key string, value []byte) {
	if before, put := p.last[key]; put {
		p.entries[before].Value = nil
	}
	p.last[key] = len(p.entries)
	p.entries = append(p.entries, Entry{key, bytes.Clone(value)})
}

func (p *puts) shrink() []Entry {
	p.entries = slices.DeleteFunc(p.entries, func(e Entry) bool { return len(e.Value) == 0 })
	clear(p.last)
	for i := range p.entries {
		p.last[p.entries[i].Key] = i
	}
	return slices.Clone(p.entries)
}

func (m *Messages) entries(ctx context.Context, r sink.Reader, prefix string, p *puts) ([]Entry, error) {
	var pause backoff.Backoff
	for {
		fresh := len(p.next) == 0
		err := m.read(ctx, r, prefix, p)
		if err == nil && fresh {
			// A key that was put again meanwhile lies behind the end, and nowhere else.
			err = m.read(ctx, r, prefix, p)
		}
		if err == nil {
			return p.shrink(), nil
		}
		*p = *newPuts()
		if !errors.Is(err, sink.ErrExpired) && !errors.Is(err, sink.ErrGone) {
			return nil, err
		}
		// It was compacted, or made again, meanwhile.
		if err := pause.Wait(ctx); err != nil {
			return nil, err
		}
	}
}

// read reads what was put since p was read.
func (m *Messages) read(ctx context.Context, r sink.Reader, prefix string, p *puts) error {
	tps, err := m.opts.Bus.TPs(ctx, []string{m.opts.Read})
	if err == nil {
		err = m.opts.Usable(tps)
	}
	if err != nil {
		return err
	}
	for i := range tps {
		tp := &tps[i]
		id := [2]string{tp.Name, tp.Incarnation}
		next, known := p.next[id]
		if len(p.next) > 0 && !known || next > tp.End {
			return fmt.Errorf("read %s: %w", tp.Name, sink.ErrGone)
		}
		if next = max(next, tp.First); next < tp.End {
			span := sink.Span{TP: tp.Name, Incarnation: tp.Incarnation, From: next, To: tp.End}
			_, err := r.Read(ctx, span, func(s *sink.Stored) error {
				if key := m.opts.Key(s); strings.HasPrefix(key, prefix) {
					p.put(key, s.Value)
				}
				return nil
			})
			if err != nil {
				return fmt.Errorf("read %s: %w", tp.Name, err)
			}
		}
		p.next[id] = tp.End
	}
	return nil
}

// Put implements Bucket.
func (m *Messages) Put(ctx context.Context, key string, value []byte) error {
	return m.publish(ctx, []string{key}, value)
}

// Delete implements Bucket.
func (m *Messages) Delete(ctx context.Context, keys []string) error {
	switch {
	case len(keys) == 0:
		return nil
	case m.opts.Delete != nil:
		return m.opts.Delete(ctx, keys)
	}
	return m.publish(ctx, keys, nil)
}

func (m *Messages) publish(ctx context.Context, keys []string, value []byte) error {
	batch := make([]sink.Message, len(keys))
	for i, key := range keys {
		batch[i] = sink.Message{
			Destination: m.opts.Destination(key), Key: []byte(key), Value: value, ID: uuid.NewString(),
			Type: "bridge-progress", Time: time.Now(),
		}
	}
	out, err := m.opts.Bus.Publish(ctx, batch)
	if len(out.Rejected) > 0 {
		r := out.Rejected[0]
		return fmt.Errorf("%s refuses %d bytes under %s: %s", batch[r.Index].Destination, len(value), keys[r.Index], r.Reason)
	}
	if err == nil && !out.AllAcked() {
		err = fmt.Errorf("%s was not acknowledged", keys[0])
	}
	return err
}

// Ready returns nil if the bus can be reached and nothing is held up.
func (m *Messages) Ready(ctx context.Context) error { return m.opts.Bus.Ready(ctx) }

// Close implements Bucket.
func (m *Messages) Close() error { return m.opts.Bus.Close() }
