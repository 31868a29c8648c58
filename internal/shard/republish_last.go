package shard

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"example.org/bridge/client/bus"
	"example.org/bridge/event"
	"example.org/bridge/internal/stream"
	"example.org/bridge/sink"
	"example.org/bridge/source"
)

// addLast adds the last event of an entity to b again, with its id, and reports whether it has. It
// has not where the bus has the event no more, or where it is of another table: then the row is
// published as news.
func (r *republishing) addLast(b *batch, row source.Row, one *stream.Decision, last map[[16]byte]lastMessage) (is bool, err error) {
	said, found := last[one.Known.Event]
	if !one.Again || !found || said.dead {
		return false, nil
	}
	for _, op := range []event.Op{event.Added, event.Modified} {
		fact := event.Said{Op: op, Row: said.row, Predecessor: said.previous}
		switch {
		case r.opts.Encoder.IDOf(&fact, row.Values, one.Digest) != one.Known.Event:
			continue
		case said.row != row.ID && said.format != r.opts.Format:
			return false, nil
		case said.row != row.ID:
			// Another row has the entity and its state since.
			return true, r.builder.addSaid(b, one, &said)
		}
		e, err := r.builder.add(b, event.Row{Row: row, State: one.Digest, Op: op, Read: said.time, Predecessor: said.previous}, sink.FromRepublish)
		if err != nil {
			return false, err
		}
		r.builder.publish(b, one, &e)
		return true, nil
	}
	return false, nil
}

// addSaid adds the last message of an entity to b again, as the bus has it.
func (m *builder) addSaid(b *batch, one *stream.Decision, said *lastMessage) error {
	start := len(b.buf)
	// That gives what all events of the table have.
	buf, e, err := m.opts.Encoder.AppendAbsent(b.buf, event.Absent{Key: one.Entity, ID: said.row, Read: said.time})
	if err != nil {
		return err
	}
	b.buf = append(buf[:start], said.stored.Value...)
	e.Op, e.Type, e.Reason, e.Unfit, e.Key = event.Modified, m.opts.Encoder.Type(event.Modified), "", "", bytes.Clone(one.Entity)
	e.UUID, e.ID, e.Digest, e.Body = one.Known.Event, event.FormatID(one.Known.Event), one.Known.Digest, b.buf[start:len(b.buf):len(b.buf)]
	m.send(b, &e, said.row, sink.FromRepublish)
	to := &b.messages[len(b.messages)-1]
	var f sink.Fields
	f.Read(&said.stored)
	if to.Format = said.format; f.Type != nil {
		to.Type = string(f.Type)
	}
	if f.Version != nil {
		to.Version, to.Schema = string(f.Version), string(f.Schema)
	}
	to.Form, to.Born = sink.ParseForm(f.Form)
	if said.format == sink.FormatRow {
		to.Bare = &sink.Bare{Time: said.time.UnixMilli(), Previous: said.previous}
	}
	m.publish(b, one, &e)
	return nil
}

// lastMessage is what is read of the last message of an entity: its meta.time, the event that it
// follows, and its row. Where that is not entry, the one of the entry, any more, and of an entity
// that a full list lacks, stored is the whole message.
type lastMessage struct {
	entry    uint64
	time     time.Time
	previous string
	row      uint64
	format   sink.Format
	stored   sink.Stored
	// dead says that the bus has refused the event, first that it has none of before.
	dead, first bool
}

// lastBetween is how many others are read with them, and lastBetweenBytes about of which size.
const lastBetween, lastBetweenBytes = 256, 256 << 10

// lastMessages returns the last messages of entities that are published again, by their event ids;
// those that the bus has no more are missing, and one that it does not give in time. The error is
// errLater where it does not tell: if it was too slow, the next page has fewer.
func (r *republishing) lastMessages(ctx context.Context, decisions []stream.Decision) (map[[16]byte]lastMessage, error) {
	last, offsets := make(map[[16]byte]lastMessage), make(map[uint32][]uint64)
	for i := range decisions {
		if known := &decisions[i].Known; decisions[i].Again && known.At.TP != 0 {
			last[known.Event] = lastMessage{entry: known.Row}
			offsets[known.At.TP] = append(offsets[known.At.TP], known.At.Offset)
		}
	}
	asks := len(last)
	defer maps.DeleteFunc(last, func(_ [16]byte, said lastMessage) bool { return said.time.IsZero() })
	// Those of one row are read together, however many they are.
	reading, end := context.WithTimeout(ctx, time.Duration(1+(asks-1)/r.most)*r.opts.LastWithin)
	defer end()
	for number, list := range offsets {
		tp := r.opts.Committer.TP(number)
		if tp == "" || r.opts.Reader == nil {
			continue
		}
		slices.Sort(list)
		for _, at := range source.JoinRanges(source.RangesOf(list), min(lastBetween, lastBetweenBytes/max(1, r.each))) {
			err := r.reader.retrier.wait(owning, forEver, func() error { return r.readLast(reading, tp, at, last) })
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			if err == nil {
				continue
			}
			r.opts.Logger.Debug("last messages cannot be read now", "tp", tp, "error", err)
			switch {
			case reading.Err() == nil:
				return nil, later("the bus does not give the last messages of entities: %w", err)
			case asks > 1:
				r.most = max(1, min(asks, r.most)/2)
				return nil, later("the bus did not give the last messages of %d entities within %s, so fewer are asked for at once", asks, r.opts.LastWithin)
			}
			// The row says what its entity is.
			return last, nil
		}
	}
	r.most = min(againRows, r.most+r.most/8+1)
	return last, nil
}

func (r *republishing) readLast(ctx context.Context, tp string, at source.Range, last map[[16]byte]lastMessage) error {
	span := sink.Span{TP: tp, From: at.First, To: at.Last + 1}
	for !span.Done(span.From) {
		next, err := r.opts.Reader.Read(ctx, span, func(m *sink.Stored) error {
			r.each = (7*r.each + uint64(len(m.Value))) / 8
			var f sink.Fields
			f.Read(m)
			if string(f.Domain) != r.opts.Domain || string(f.Stream) != r.opts.Stream || string(f.Shard) != r.opts.Name {
				return nil
			}
			read, err := stream.ParseMessage(m)
			id := read.Event
			if read.Dead {
				id = read.State.Event
			}
			said, is := last[id]
			if err != nil || !is {
				return nil
			}
			said = lastMessage{entry: said.entry, row: read.Row, format: bus.FormatOf(&f), dead: read.Dead}
			at, previous, ok := sink.TimeAndPreviousOf(m)
			switch {
			case read.Dead:
				document, err := sink.ParseDeadLetter(m.Value)
				said.first, said.time = err == nil && document.Previous == "", time.UnixMilli(max(1, m.Time))
			case !ok:
				return nil
			default:
				said.time, said.previous = time.UnixMilli(at), previous
			}
			if said.row != said.entry || r.resting {
				said.stored = sink.Stored{Value: bytes.Clone(m.Value), Headers: slices.Clone(m.Headers)}
				for i := range said.stored.Headers {
					said.stored.Headers[i].Value = bytes.Clone(m.Headers[i].Value)
				}
			}
			last[id] = said
			return nil
		})
		expired, is := errors.AsType[*sink.ExpiredError](err)
		switch {
		case is && expired.First > span.From:
			next = expired.First
		case err != nil:
			return err
		}
		if next <= span.From {
			return nil
		}
		span.From = next
	}
	return nil
}
