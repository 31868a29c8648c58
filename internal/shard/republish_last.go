package shard

import (
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
		if r.opts.Encoder.IDOf(&fact, row.Values, one.Digest) != one.Known.Event || said.row != row.ID && said.format != r.opts.Format {
			continue
		}
		e, err := r.builder.add(b, event.Row{Row: row, State: one.Digest, Op: op, Read: said.time, Predecessor: said.previous}, sink.FromRepublish)
		if err != nil {
			return false, err
		}
		if said.row != row.ID {
			b.replay(&said, one.Known.Event)
			e.UUID = one.Known.Event
		}
		r.builder.publish(b, one, &e)
		return true, nil
	}
	return false, nil
}

// replay has the last message of b say what one said that is on the bus: another row has its entity
// and its state since.
func (b *batch) replay(said *lastMessage, id [16]byte) {
	m, start := &b.messages[len(b.messages)-1], len(b.buf)
	b.buf = append(b.buf, said.value...)
	m.Value, m.ID, m.RowID = b.buf[start:len(b.buf):len(b.buf)], event.FormatID(id), said.row
	if m.Bare != nil {
		m.Bare.Time = said.time.UnixMilli()
	}
}

// lastMessage is what is read of the last message of an entity: its meta.time, the event that it
// follows, and its row. Where that is not entry, the one of the entry, any more it has the value,
// too.
type lastMessage struct {
	entry    uint64
	time     time.Time
	previous string
	row      uint64
	format   sink.Format
	value    []byte
	// dead says that the bus has refused the event, first that it has none of before. stored is the
	// whole message of an entity that a full list lacks.
	dead, first bool
	stored      sink.Stored
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
			if string(f.Type) == sink.DeadLetterType {
				readDead(m, &f, last)
				return nil
			}
			id, err := f.ParseID()
			wanted, is := last[id]
			if err != nil || !is {
				return nil
			}
			said := lastMessage{entry: wanted.entry, format: bus.FormatOf(&f)}
			at, previous, ok := sink.TimeAndPreviousOf(m)
			if said.row, err = f.ParseRowID(); err != nil || !ok {
				return nil
			}
			if said.time, said.previous = time.UnixMilli(at), previous; said.row != said.entry {
				said.value = slices.Clone(m.Value)
			}
			if r.resting {
				said.stored = cloneOf(m)
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

// readDead notes in last that the bus has refused an event.
func readDead(m *sink.Stored, f *sink.Fields, last map[[16]byte]lastMessage) {
	state, _, err := f.ParseState(m)
	said, is := last[state.Event]
	if err != nil || !is {
		return
	}
	document, err := sink.ParseDeadLetter(m.Value)
	said.dead, said.first, said.time = true, err == nil && document.Previous == "", time.UnixMilli(max(1, m.Time))
	last[state.Event] = said
}
