package bus

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"example.org/bridge/internal/option"
	"example.org/bridge/internal/verify"
	"example.org/bridge/sink"
)

// progressEvery is a number of messages.
const progressEvery = 1000

// headersOnce are those of JetStream of which each message of exactly-once has one: it is in an
// atomic batch, or depends on the claim.
var headersOnce = []string{"Nats-Batch-Id", "Nats-Expected-Last-Subject-Sequence-Subject"}

// ErrNothing is returned where no stream of JetStream has the subjects.
var ErrNothing = errors.New("nothing is published there yet")

// Reader is a sink that is opened for reading.
type Reader interface {
	sink.Reader
	Close() error
}

// Options say what to read: topics, or subjects.
type Options struct {
	// Reader is closed with the bus. It reads no messages of other subjects.
	Reader Reader
	// Topics are read, each once.
	Topics []string
	// Subjects are read; wildcards are fine. Stream is the one that the reader is bound to, empty
	// for the streams that take the subjects.
	Subjects []string
	Stream   string
}

// Bus reads the TPs of topics or subjects.
type Bus struct {
	options    Options
	partitions []*partition
}

var _ verify.Bus = (*Bus)(nil)

// partition is a TP and how far it was read.
type partition struct {
	verify.Partition
	incarnation string
	// end is the offset behind the last message to be read.
	end uint64
}

// Open learns the TPs. That a topic is missing, or that no stream takes the subjects, is an error;
// the reader is then closed.
func Open(ctx context.Context, o Options) (*Bus, error) {
	b := &Bus{options: o}
	if err := b.findTPs(ctx); err != nil {
		return nil, errors.Join(err, o.Reader.Close())
	}
	return b, nil
}

// Close closes the reader.
func (b *Bus) Close() error { return b.options.Reader.Close() }

// Partitions returns the TPs.
func (b *Bus) Partitions() []verify.Partition {
	list := make([]verify.Partition, len(b.partitions))
	for i, p := range b.partitions {
		list[i] = p.Partition
	}
	return list
}

// findTPs finds the TPs.
func (b *Bus) findTPs(ctx context.Context) error {
	tps, err := b.tps(ctx)
	if err != nil {
		return err
	}
	for _, topic := range b.options.Topics {
		if !slices.ContainsFunc(tps, func(tp sink.TP) bool { return tp.Destination == topic }) {
			return fmt.Errorf("the topic %s does not exist, or this login may not read it: create it, where nothing was published yet, or grant READ and DESCRIBE", topic)
		}
	}
	switch {
	case len(tps) > 0:
	case b.options.Stream != "":
		return option.Errorf("the stream %s does not exist, so %w: create it, or start bridge, which makes it with %s=true",
			b.options.Stream, ErrNothing, option.NATSCreateStream)
	default:
		return option.Errorf("no stream takes the subjects %s, so %w: create one, or name it with %s and start bridge, which makes it with %s=true",
			strings.Join(b.options.Subjects, ", "), ErrNothing, option.NATSStream, option.NATSCreateStream)
	}
	for _, tp := range tps {
		b.partitions = append(b.partitions, &partition{
			incarnation: tp.Incarnation, end: tp.End,
			Partition: verify.Partition{Name: tp.Name, Destination: tp.Destination, Number: numberOf(&tp), First: tp.First, Next: tp.First, Expired: tp.Expired, Thinned: tp.Thinned},
		})
	}
	return nil
}

func (b *Bus) tps(ctx context.Context) ([]sink.TP, error) {
	return b.options.Reader.TPs(ctx, slices.Concat(b.options.Topics, b.options.Subjects))
}

// Read implements [verify.Bus], one TP after the other.
func (b *Bus) Read(ctx context.Context, each func(*verify.Message) error, progress func(done, total uint64)) error {
	tps, err := b.tps(ctx)
	if err != nil {
		return err
	}
	var total, done uint64
	for _, p := range b.partitions {
		at := slices.IndexFunc(tps, func(tp sink.TP) bool { return tp.Name == p.Name && tp.Incarnation == p.incarnation })
		if at < 0 {
			return fmt.Errorf("read %s: %w since it was read first", p.Name, sink.ErrGone)
		}
		p.update(&tps[at])
		total += p.end - p.Next
	}
	for i, p := range b.partitions {
		before, end := p.Next, p.end
		if err := b.readTo(ctx, i, each, func() { progress(done+p.Next-before, total) }); err != nil {
			return fmt.Errorf("read %s: %w", p.Name, err)
		}
		done += end - before
		progress(done, total)
	}
	return nil
}

// update sets the bounds that the leader reports. Messages that were read stay read.
func (p *partition) update(tp *sink.TP) {
	p.end = max(tp.End, p.Next)
	if p.Destination == "" {
		p.First, p.Expired, p.Thinned = tp.First, tp.Expired, tp.Thinned
		p.Next = min(max(p.Next, tp.First), p.end)
	}
}

// readTo reads a TP to its end.
func (b *Bus) readTo(ctx context.Context, index int, each func(*verify.Message) error, progress func()) error {
	p := b.partitions[index]
	n := 0
	for p.Next < p.end {
		next, err := b.options.Reader.Read(ctx, p.remaining(), func(m *sink.Stored) error {
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

// remaining is how much is left to read. A transaction leaves no hole.
func (p *partition) remaining() sink.Span {
	return sink.Span{TP: p.Name, Incarnation: p.incarnation, From: p.Next, To: p.end, Empty: func(from, to uint64) {
		p.pass(from)
		p.Next = max(p.Next, to)
	}}
}

// pass notes a hole before an offset. Where messages of other subjects lie between, holes tell
// nothing.
func (p *partition) pass(at uint64) {
	if p.Destination != "" && at > p.Next {
		p.Thinned = true
	}
}

// messageOf returns the parts of a message that are judged. On Kafka a null is empty.
func (b *Bus) messageOf(index int, m *sink.Stored) verify.Message {
	message := verify.Message{Partition: index, At: m.Offset, Key: m.Key, Value: m.Value, Header: make(map[string]string, len(m.Headers))}
	if b.partitions[index].Destination != "" {
		if message.Key == nil {
			message.Key = []byte{}
		}
		message.Once, message.Hash = m.Transactional, murmur2(m.Key)&math.MaxInt32
	} else {
		message.Once = slices.ContainsFunc(m.Headers, func(h sink.Header) bool { return slices.Contains(headersOnce, h.Name) })
	}
	own := m.Header(sink.HeaderFormat) != nil
	for _, h := range m.Headers {
		if own && !strings.HasPrefix(h.Name, "Nats-") || strings.HasPrefix(h.Name, "bridge-") || strings.HasPrefix(h.Name, "eiffel-") || h.Name == sink.HeaderContentType {
			message.Header[h.Name] = string(h.Value)
		}
	}
	return message
}

// Fetch implements [verify.Bus].
func (b *Bus) Fetch(ctx context.Context, index int, at uint64) (*verify.Message, error) {
	p := b.partitions[index]
	if at >= p.end {
		return nil, fmt.Errorf("fetch offset %d of %s: it ends at %d", at, p.Name, p.end)
	}
	var found *verify.Message
	_, err := b.options.Reader.Read(ctx, sink.Span{TP: p.Name, Incarnation: p.incarnation, From: at, To: at + 1}, func(m *sink.Stored) error {
		message := b.messageOf(index, m)
		message.Key, message.Value = bytes.Clone(message.Key), bytes.Clone(message.Value)
		found = &message
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("fetch offset %d of %s: %w", at, p.Name, err)
	}
	if found == nil {
		return nil, fmt.Errorf("fetch offset %d of %s: nothing is there", at, p.Name)
	}
	return found, nil
}

// murmur2 is the hash by which Java's producer chooses the partition of a key: MurmurHash 2.0 with
// the seed 0x9747b28c.
func murmur2(key []byte) uint32 {
	const m, r, seed = 0x5bd1e995, 24, 0x9747b28c
	h := uint32(seed) ^ uint32(len(key))
	for ; len(key) >= 4; key = key[4:] {
		k := binary.LittleEndian.Uint32(key) * m
		h = h*m ^ (k^k>>r)*m
	}
	if len(key) > 0 {
		var last [4]byte
		copy(last[:], key)
		h = (h ^ binary.LittleEndian.Uint32(last[:])) * m
	}
	h = (h ^ h>>13) * m
	return h ^ h>>15
}

// numberOf returns the number of a topic-partition, whose name is "topic/3".
func numberOf(tp *sink.TP) int {
	n, _ := strconv.Atoi(tp.Name[strings.LastIndexByte(tp.Name, '/')+1:]) // 0 for a stream
	return n
}
