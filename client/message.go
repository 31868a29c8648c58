package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"example.org/bridge/client/bus"
)

// said is what a message says about its event. Its kind is shared by many.
type said struct {
	kind *kind
	id   [16]byte
	row  uint64
	// published is in ms since 1970, and so is time, which is meta.time where a header has it.
	published, time int64
	// again says that it was asked for.
	again bool
}

func (s *said) event(stream, key string, body []byte) Event {
	return Event{
		Key: key, ID: uuid.UUID(s.id).String(), Type: s.kind.typ, Version: s.kind.version, Operation: s.kind.operation, Stream: stream, Shard: s.kind.shard,
		RowID: s.row, Published: time.UnixMilli(s.published).UTC(), Format: s.kind.format, Body: body, Republished: s.again, time: s.time,
	}
}

func ownHeaders(m *bus.Stored) map[string]string {
	own := make(map[string]string)
	for _, h := range m.Headers {
		switch {
		case strings.HasPrefix(h.Name, "bridge-"), strings.HasPrefix(h.Name, "eiffel-"), strings.HasPrefix(h.Name, "Nats-"), h.Name == bus.HeaderContentType:
		default:
			own[h.Name] = string(h.Value)
		}
	}
	return own
}

// message is what a stored message says, in the memory of that one.
type message struct {
	said
	stored  *bus.Stored
	key     []byte
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
	byTable        bool
	kinds          map[string]*kind
	scratch        []byte
	m              message
}

func newParser(o *Options) *parser {
	return &parser{stream: o.Stream, domain: o.Domain, types: o.Types, byTable: o.ByTable, kinds: make(map[string]*kind)}
}

// parse reads a message into p.m, which is valid until the next call and as long as stored is. An
// error says that a message of the stream cannot be understood.
func (p *parser) parse(stored *bus.Stored) (found, error) {
	var f bus.Fields
	f.Read(stored)
	p.m = message{stored: stored, key: stored.Key}
	if f.Stream == nil && f.State == nil && stored.Value == nil && stored.Key != nil {
		p.m.bare, p.m.deleted = true, true
		return ours, nil
	}
	// A version without bridge-state wrote no domain.
	if string(f.Stream) != p.stream || string(f.Domain) != p.domain && (f.State != nil || f.Domain != nil) || string(f.Type) == bus.DeadLetterType {
		return foreign, nil
	}
	if f.Type == nil {
		f.Type, f.Version = kindIn(stored.Value, bus.FormatOf(&f))
	}
	p.m.kind = p.kindOf(&f)
	var err error
	if p.m.row, err = f.ParseRowID(); err != nil {
		return ours, err
	}
	if p.m.id, err = f.ParseID(); err != nil {
		return ours, err
	}
	p.m.published, p.m.again = f.Published(stored), string(f.Origin) == bus.RepublishOrigin
	if p.m.time, err = f.ParseTime(); err != nil {
		return ours, err
	}
	if f.State == nil {
		return stateless, nil
	}
	s, key, err := f.ParseState(stored)
	if errors.Is(err, bus.ErrNewerForm) {
		err = fmt.Errorf("%w: update this program", err)
	}
	if err != nil {
		return ours, err
	}
	if p.m.key = key; p.byTable {
		p.m.key = slices.Concat(f.Shard, []byte(" "), key)
	}
	p.m.stamp, p.m.hash = stamp{s.Epoch, s.Seq}, s.Hash
	p.m.deleted = stored.Value == nil || s.Kind != bus.StateLive
	return ours, nil
}

// kindOf returns the kind of a message. It allocates nothing for one that was met before.
func (p *parser) kindOf(f *bus.Fields) *kind {
	b := p.scratch[:0]
	for _, part := range [...][]byte{f.Type, f.Version, f.Shard} {
		b = append(append(b, part...), 0)
	}
	format := bus.FormatOf(f)
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

// Bus is where a stream is published: a client/kafka.Bus or a client/jetstream.Bus. It holds no
// connection of its own and is safe for concurrent use.
type Bus interface {
	// Open returns a reader of destinations, which the caller closes. It does not touch the
	// network.
	Open(o Opening) (Reader, error)
	// Consume hands out the messages of s.Destinations to the processes of s.Group until ctx ends,
	// and returns nil then. It retries for ever what may heal.
	//
	// The messages of a TP come in their order, one after the other, and those of different TPs
	// side by side. Those that a process has not handled come again, to it or to another one. The
	// context of each ends when its TP is taken away; an error of each ends Consume with that
	// error.
	Consume(ctx context.Context, s Subscription, each func(ctx context.Context, tp string, m *bus.Stored) error) error
}

// Reader is a bus.Reader with connections of its own.
type Reader interface {
	bus.Reader
	Close() error
}

// Opening says what to read.
type Opening struct {
	// Destinations are topics, or subjects that may hold wildcards.
	Destinations []string
	// Fault is called with each fault that is retried. Optional.
	Fault bus.Fault
}

// Subscription says what a process of a group consumes.
type Subscription struct {
	Opening
	// Group is the consumer group of Kafka, or the durable consumer of JetStream. Of names the
	// stream of bridge that it consumes.
	Group, Of string
	// Joined is called when this process takes part in the group, and again behind a fault.
	Joined func()
	// Expired is called where the bus has removed messages of a TP before they were handed out, and
	// tells.
	Expired func(tp string, err error)
}

// DefaultDomain is BRIDGE_DOMAIN_ID where that is not set.
const DefaultDomain = "bridge"

// Options say which stream to consume.
type Options struct {
	// Stream is the stream's name in bridge. Messages of other streams are passed over. Required.
	Stream string
	// Domain is BRIDGE_DOMAIN_ID of the bridge that publishes. Defaults to DefaultDomain.
	Domain string
	// Destinations are all topics, or all subjects, that the stream is published to; subjects may
	// hold wildcards. Required.
	Destinations []string
	// Types has the operation of each event type that EVENT_NAMES has given a name of its own. The
	// others tell by their ending: AddedEvent, ModifiedEvent, DeletedEvent, PublishedEvent.
	// Optional.
	Types map[string]Operation
	// ByTable says that each table has entities of its own, as those of a stream without KEY, which
	// may have one id in several tables. Event.Key and Change.Key then begin with the table.
	ByTable bool
	// RefreshEvery is how often a Table looks for partitions and streams that were made later, and
	// for what the bus has lost. Defaults to 30 s.
	RefreshEvery time.Duration
	// KeepFor is for how long a Table keeps entities that a bus does not have any more, after it
	// was made again: bridge publishes them there once more. Defaults to 10 minutes.
	KeepFor time.Duration
	// Swap has a Table drop the entities that lie before a full list, once all topic-partitions
	// have met its end: what the list does not have has no row. Where one has no list, they drop
	// out when the next begins.
	Swap bool
	// Logger defaults to slog.Default().
	Logger *slog.Logger
}

func (o *Options) fill() error {
	o.Domain = cmp.Or(o.Domain, DefaultDomain)
	o.RefreshEvery = cmp.Or(o.RefreshEvery, 30*time.Second)
	o.KeepFor = cmp.Or(o.KeepFor, 10*time.Minute)
	o.Logger = cmp.Or(o.Logger, slog.Default())
	switch {
	case o.Stream == "":
		return errors.New("client: Options.Stream is empty: set it to the stream's name in bridge")
	case len(o.Destinations) == 0:
		return errors.New("client: Options.Destinations is empty: set it to the topics or subjects of the stream")
	case o.RefreshEvery < 0 || o.KeepFor < 0:
		return errors.New("client: Options.RefreshEvery and Options.KeepFor must not be negative")
	}
	return nil
}
