package verify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"example.org/bridge/internal/option"
	"example.org/bridge/sink"
)

// Message is one message as the bus holds it. It is valid until the call that hands it out returns.
type Message struct {
	sink.Stored
	// partition is an index into Bus.Partitions.
	partition int
	header    map[string]string
	// once says that it was published with exactly-once: in a transaction of Kafka, an atomic batch
	// of JetStream, or there on condition of a claim. A copy need not say so.
	once bool
}

// headersOnce are those of JetStream of which each message of exactly-once has one: it is in an
// atomic batch, or depends on the claim.
var headersOnce = []string{"Nats-Batch-Id", "Nats-Expected-Last-Subject-Sequence-Subject"}

// Partition is a sequence of messages in one order: a topic-partition of Kafka or a stream of
// JetStream, and how far it was read.
//
// A topic-partition of Kafka whose log start is not 0 counts as expired, one with holes between its
// offsets as thinned (compacted), where no transaction has left them. A stream of JetStream whose
// first sequence is not 1 counts as expired where it has a limit by age, number or size; without
// one, nothing goes by itself. It counts as thinned where messages are missing and may have gone
// one by one: a limit per subject, a time to live.
type Partition struct {
	// Name is "topic/3" or the name of the stream.
	Name string `json:"place"`
	// Destination is the topic; empty where messages of all destinations lie in one partition.
	Destination string `json:"-"`
	// First is the first message that the partition holds, Next the one behind the last that was
	// read.
	First uint64 `json:"first"`
	Next  uint64 `json:"next"`
	// Expired says that messages before First may be gone by the rules of the bus.
	Expired bool `json:"expired"`
	// Thinned says that single messages may be gone by the rules of the bus: compaction, a limit
	// per subject.
	Thinned bool `json:"thinned"`

	number      int
	incarnation string
	// end is the offset behind the last message to be read.
	end uint64
}

// ErrNothing is returned where no stream of JetStream has the subjects.
var ErrNothing = errors.New("nothing is published there yet")

// Reader is a sink that is opened for reading.
type Reader interface {
	sink.Reader
	Close() error
}

// BusOptions say what to read: topics, or subjects.
type BusOptions struct {
	// Reader is closed with the bus. It reads no messages of other subjects.
	Reader Reader
	// Topics are read, each once.
	Topics []string
	// Subjects are read; wildcards are fine. Stream is the one that the reader is bound to, empty
	// for the streams that take the subjects.
	Subjects []string
	Stream   string
}

// Bus reads destinations for the outside check and for dead letters, by a reader that is opened for
// that alone: from the first message that is left to the leader's end, committed messages only. It
// serves one goroutine.
type Bus struct {
	options BusOptions
	// Partitions are those of the topics or subjects.
	Partitions []Partition
	// Server, where it is not nil, was started for the reader, and is closed behind it.
	Server io.Closer
}

// OpenBus learns the partitions. That a topic is missing, or that no stream takes the subjects, is
// an error; the reader is then closed.
func OpenBus(ctx context.Context, o BusOptions) (*Bus, error) {
	b := &Bus{options: o}
	tps, err := b.tps(ctx)
	if err == nil {
		err = o.find(tps)
	}
	if err != nil {
		return nil, errors.Join(err, o.Reader.Close())
	}
	for _, tp := range tps {
		n, _ := strconv.Atoi(tp.Name[strings.LastIndexByte(tp.Name, '/')+1:]) // 0 for a stream
		b.Partitions = append(b.Partitions, Partition{
			Name: tp.Name, Destination: tp.Destination, First: tp.First, Next: tp.First, Expired: tp.Expired, Thinned: tp.Thinned,
			number: n, incarnation: tp.Incarnation, end: tp.End,
		})
	}
	return b, nil
}

func (o *BusOptions) find(tps []sink.TP) error {
	for _, topic := range o.Topics {
		if !slices.ContainsFunc(tps, func(tp sink.TP) bool { return tp.Destination == topic }) {
			return fmt.Errorf("the topic %s does not exist, or this login may not read it: create it, where nothing was published yet, or grant READ and DESCRIBE", topic)
		}
	}
	switch {
	case len(tps) > 0:
		return nil
	case o.Stream != "":
		return option.Errorf("the stream %s does not exist, so %w: create it, or start bridge, which makes it with %s=true",
			o.Stream, ErrNothing, option.NATSCreateStream)
	}
	return option.Errorf("no stream takes the subjects %s, so %w: create one, or name it with %s and start bridge, which makes it with %s=true",
		strings.Join(o.Subjects, ", "), ErrNothing, option.NATSStream, option.NATSCreateStream)
}

func (b *Bus) tps(ctx context.Context) ([]sink.TP, error) {
	return b.options.Reader.TPs(ctx, slices.Concat(b.options.Topics, b.options.Subjects))
}

// Close closes the reader.
func (b *Bus) Close() error {
	err := b.options.Reader.Close()
	if b.Server != nil {
		err = errors.Join(err, b.Server.Close())
	}
	return err
}

// Read calls each for every message behind those of the Read before, at first from the beginning,
// up to the end of the bus as it is when Read begins, one partition after the other. It calls
// progress now and then. An error of each ends it.
func (b *Bus) Read(ctx context.Context, each func(*Message) error, progress func(done, total uint64)) error {
	tps, err := b.tps(ctx)
	if err != nil {
		return err
	}
	var total, done uint64
	for i := range b.Partitions {
		p := &b.Partitions[i]
		at := slices.IndexFunc(tps, func(tp sink.TP) bool { return tp.Name == p.Name && tp.Incarnation == p.incarnation })
		if at < 0 {
			return fmt.Errorf("read %s: %w since it was read first", p.Name, sink.ErrGone)
		}
		// Messages that were read stay read.
		tp := &tps[at]
		if p.end = max(tp.End, p.Next); p.Destination == "" {
			p.First, p.Expired, p.Thinned = tp.First, tp.Expired, tp.Thinned
			p.Next = min(max(p.Next, tp.First), p.end)
		}
		total += p.end - p.Next
	}
	for i := range b.Partitions {
		p := &b.Partitions[i]
		before, end := p.Next, p.end
		if err := b.readTo(ctx, i, each, func() { progress(done+p.Next-before, total) }); err != nil {
			return fmt.Errorf("read %s: %w", p.Name, err)
		}
		done += end - before
		progress(done, total)
	}
	return nil
}

func (b *Bus) readTo(ctx context.Context, index int, each func(*Message) error, progress func()) error {
	const progressEvery = 1000
	p := &b.Partitions[index]
	n := 0
	for p.Next < p.end {
		// A transaction leaves no hole.
		span := sink.Span{TP: p.Name, Incarnation: p.incarnation, From: p.Next, To: p.end, Empty: func(from, to uint64) {
			p.pass(from)
			p.Next = max(p.Next, to)
		}}
		next, err := b.options.Reader.Read(ctx, span, func(m *sink.Stored) error {
			p.pass(m.Offset)
			p.Next = m.Offset + 1
			message := b.messageOf(index, m)
			if err := each(&message); err != nil {
				return err
			}
			if n++; n%progressEvery == 0 {
				progress()
			}
			return nil
		})
		expired, ok := errors.AsType[*sink.ExpiredError](err)
		switch {
		case ok:
			p.First, p.Expired = expired.First, true
			p.Next = max(next, min(expired.First, p.end))
		case err != nil:
			return err
		case next < p.end:
			// What was not read must never look as if it were not there.
			return fmt.Errorf("the reader ended at %d, before %d", next, p.end)
		default:
			p.pass(next)
			p.Next = p.end
		}
	}
	return nil
}

// pass notes a hole before an offset. Where messages of other subjects lie between, holes tell
// nothing.
func (p *Partition) pass(at uint64) {
	if p.Destination != "" && at > p.Next {
		p.Thinned = true
	}
}

// messageOf returns a message as it is judged. On Kafka a null key is empty.
func (b *Bus) messageOf(index int, m *sink.Stored) Message {
	message := Message{Stored: *m, partition: index, header: make(map[string]string, len(m.Headers)), once: m.Transactional}
	if b.Partitions[index].Destination != "" && m.Key == nil {
		message.Key = []byte{}
	}
	for _, h := range m.Headers {
		message.header[h.Name] = string(h.Value)
		message.once = message.once || slices.Contains(headersOnce, h.Name)
	}
	return message
}

// fetch reads one message that Read has handed out, which may have expired since.
func (b *Bus) fetch(ctx context.Context, index int, at uint64) (found *Message, err error) {
	p := &b.Partitions[index]
	_, err = b.options.Reader.Read(ctx, sink.Span{TP: p.Name, Incarnation: p.incarnation, From: at, To: at + 1}, func(m *sink.Stored) error {
		message := b.messageOf(index, m)
		message.Key, message.Value = bytes.Clone(message.Key), bytes.Clone(message.Value)
		found = &message
		return nil
	})
	return found, err
}
