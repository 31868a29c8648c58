package client

import (
	"errors"
	"fmt"
	"strconv"
	"time"
	"unsafe"

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

// fields are the values of headers, in the memory of a message.
type fields struct {
	domain, stream, shard, row, id, typ, version, content, at, time, state []byte
}

func (f *fields) read(m *sink.Stored) {
	*f = fields{}
	for i := range m.Headers {
		var dst *[]byte
		switch m.Headers[i].Name {
		case sink.HeaderDomain:
			dst = &f.domain
		case sink.HeaderStream:
			dst = &f.stream
		case sink.HeaderShard:
			dst = &f.shard
		case sink.HeaderRowID:
			dst = &f.row
		case sink.HeaderID:
			dst = &f.id
		case sink.HeaderType:
			dst = &f.typ
		case sink.HeaderVersion:
			dst = &f.version
		case sink.HeaderContentType:
			dst = &f.content
		case sink.HeaderPublishedAt:
			dst = &f.at
		case sink.HeaderTime:
			dst = &f.time
		case sink.HeaderState:
			dst = &f.state
		default:
			continue
		}
		if *dst == nil {
			*dst = m.Headers[i].Value
		}
	}
}

// parse reads a message into p.m, which is valid until the next call and as long as stored is. An
// error says that a message of the stream cannot be understood.
func (p *parser) parse(stored *sink.Stored) (found, error) {
	var f fields
	f.read(stored)
	p.m = message{stored: stored, key: stored.Key}
	if f.stream == nil && f.state == nil && stored.Value == nil && stored.Key != nil {
		p.m.bare, p.m.deleted = true, true
		return ours, nil
	}
	// A version without bridge-state wrote no domain.
	if string(f.stream) != p.stream || string(f.domain) != p.domain && (f.state != nil || f.domain != nil) || string(f.typ) == sink.DeadLetterType {
		return foreign, nil
	}
	if f.typ == nil {
		f.typ, f.version = kindIn(stored.Value, f.format())
	}
	p.m.kind = p.kindOf(&f)
	var err error
	if p.m.row, err = strconv.ParseUint(text(f.row), 10, 64); err != nil {
		return ours, fmt.Errorf("read the header %s: %.40q is not a row id", sink.HeaderRowID, f.row)
	}
	if p.m.id, err = uuid.ParseBytes(f.id); err != nil {
		return ours, fmt.Errorf("read the header %s: %w", sink.HeaderID, err)
	}
	p.m.published = stored.Time
	if f.at != nil {
		p.m.published = published(f.at)
	}
	if f.time != nil {
		if p.m.time, err = strconv.ParseInt(text(f.time), 10, 64); err != nil {
			return ours, fmt.Errorf("read the header %s: %.40q is not a number of milliseconds", sink.HeaderTime, f.time)
		}
	}
	if f.state == nil {
		return stateless, nil
	}
	return ours, p.state(f.state, stored.Value == nil)
}

// state reads the header bridge-state.
func (p *parser) state(header []byte, null bool) error {
	s, err := sink.ParseState(text(header))
	if errors.Is(err, sink.ErrNewerForm) {
		return fmt.Errorf("%w: update this program", err)
	}
	if err != nil {
		return err
	}
	if n := len(s.Key); n > 0 {
		p.m.key = header[len(header)-n-1 : len(header)-1]
	}
	p.m.stamp, p.m.hash = stamp{s.Epoch, s.Seq}, s.Hash
	p.m.deleted = null || s.Kind != sink.StateLive
	return nil
}

// kindOf returns the kind of a message. It allocates nothing for one that was met before.
func (p *parser) kindOf(f *fields) *kind {
	b := p.scratch[:0]
	for _, part := range [...][]byte{f.typ, f.version, f.shard} {
		b = append(append(b, part...), 0)
	}
	format := f.format()
	b = append(b, byte(format))
	p.scratch = b
	k := p.kinds[string(b)]
	if k == nil {
		k = &kind{typ: string(f.typ), version: string(f.version), shard: string(f.shard), format: format}
		k.operation = operationOf(k.typ, p.types)
		p.kinds[string(b)] = k
	}
	return k
}

// format returns what the value is: a row has its time in a header.
func (f *fields) format() Format {
	switch {
	case string(f.content) == sink.ContentTypeCloud:
		return FormatCloudEvents
	case f.time != nil:
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

// text returns b as a string in the same memory.
func text(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// published parses sink.PublishedAtFormat; 0 for another text: the time decides nothing.
func published(text []byte) int64 {
	const layout = "2006-01-02T15:04:05.000Z"
	if len(text) != len(layout) {
		return 0
	}
	number := func(from, to int) (n int) {
		for _, c := range text[from:to] {
			if c < '0' || c > '9' {
				return -1
			}
			n = n*10 + int(c-'0')
		}
		return n
	}
	year, month, day := number(0, 4), number(5, 7), number(8, 10)
	hour, minute, second, milli := number(11, 13), number(14, 16), number(17, 19), number(20, 23)
	if min(year, month, day, hour, minute, second, milli) < 0 {
		return 0
	}
	return time.Date(year, time.Month(month), day, hour, minute, second, milli*1_000_000, time.UTC).UnixMilli()
}
