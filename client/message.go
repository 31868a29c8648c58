package client

import (
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"bridge/sink"
)

// message is what a stored message says, in the memory of that one.
type message struct {
	stored *sink.Stored
	kind   *kind
	key    []byte
	id     [16]byte
	row    uint64
	// published is in ms since 1970.
	published int64
	// time is meta.time in ms where a header has it.
	time    int64
	stamp   stamp
	hash    uint32
	deleted bool
	// bare says that it is a tombstone without headers: only its key and its TP are known.
	bare bool
}

// kind is what many events have in common. Events with the same one share it.
type kind struct {
	typ, version, shard string
	format              Format
	operation           Operation
}

// found says whose a message is.
type found uint8

const (
	ours found = iota
	foreign
	stateless
)

// parser reads the headers of messages of one stream. It serves one goroutine.
type parser struct {
	stream, domain string
	types          map[string]Operation
	kinds          map[string]*kind
	scratch        []byte
	m              message
}

func newParser(o *Options) *parser {
	return &parser{stream: o.Stream, domain: o.Domain, types: o.Types, kinds: make(map[string]*kind)}
}

// parse reads a message into p.m, which is valid until the next call and as long as stored is. An
// error says that a message of the stream cannot be understood.
func (p *parser) parse(stored *sink.Stored) (found, error) {
	var f sink.Fields
	f.Read(stored)
	p.m = message{stored: stored, key: stored.Key}
	if f.Stream == nil && f.State == nil && stored.Value == nil && stored.Key != nil {
		p.m.bare, p.m.deleted = true, true
		return ours, nil
	}
	// A version without bridge-state wrote no domain.
	if string(f.Stream) != p.stream || string(f.Domain) != p.domain && (f.State != nil || f.Domain != nil) || string(f.Type) == sink.DeadLetterType {
		return foreign, nil
	}
	if f.Type == nil {
		f.Type, f.Version = kindIn(stored.Value, formatOf(&f))
	}
	p.m.kind = p.kindOf(&f)
	var err error
	if p.m.row, err = f.ParseRowID(); err != nil {
		return ours, err
	}
	if p.m.id, err = f.ParseID(); err != nil {
		return ours, err
	}
	p.m.published = f.Published(stored)
	if p.m.time, err = f.ParseTime(); err != nil {
		return ours, err
	}
	if f.State == nil {
		return stateless, nil
	}
	return ours, p.state(&f)
}

// state reads the header bridge-state.
func (p *parser) state(f *sink.Fields) (err error) {
	var s sink.State
	s, p.m.key, err = f.ParseState(p.m.stored)
	if errors.Is(err, sink.ErrNewerForm) {
		return fmt.Errorf("%w: update this program", err)
	}
	if err != nil {
		return err
	}
	p.m.stamp, p.m.hash = stamp{s.Epoch, s.Seq}, s.Hash
	p.m.deleted = p.m.stored.Value == nil || s.Kind != sink.StateLive
	return nil
}

// kindOf returns the kind of a message. It allocates nothing for one that was met before.
func (p *parser) kindOf(f *sink.Fields) *kind {
	b := p.scratch[:0]
	for _, part := range [...][]byte{f.Type, f.Version, f.Shard} {
		b = append(append(b, part...), 0)
	}
	format := formatOf(f)
	b = append(b, byte(format))
	p.scratch = b
	k := p.kinds[string(b)]
	if k == nil {
		k = &kind{typ: string(f.Type), version: string(f.Version), shard: string(f.Shard), format: format}
		k.operation = operationOf(k.typ, p.types)
		p.kinds[string(b)] = k
	}
	return k
}

// formatOf returns what the value is: a row has its time in a header.
func formatOf(f *sink.Fields) Format {
	switch {
	case string(f.ContentType) == sink.ContentTypeCloud:
		return FormatCloudEvents
	case f.Time != nil:
		return FormatRow
	}
	return FormatEiffel
}

// event returns the message as an event. The body is that of the message.
func (m *message) event(stream string) Event {
	e := Event{Key: string(m.key), Stream: stream, Body: m.stored.Value}
	m.kind.describe(&e)
	e.ID, e.RowID, e.Published, e.time = uuid.UUID(m.id).String(), m.row, time.UnixMilli(m.published).UTC(), m.time
	if m.deleted {
		e.Operation = Deleted
	}
	return e
}

// describe sets what k says of an event.
func (k *kind) describe(e *Event) {
	e.Type, e.Version, e.Shard, e.Format, e.Operation = k.typ, k.version, k.shard, k.format, k.operation
}
