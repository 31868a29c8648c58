package sinktest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"example.org/bridge/sink"
	"example.org/bridge/tests/must"
)

// history is what a test has published, and what the sink has said of it.
type history struct {
	t testing.TB
	f Fixture
	// repeats allows them, the same to the byte.
	repeats bool

	mu   sync.Mutex
	sent []sink.Message
	// open are the messages that were not acknowledged, refused those that were rejected.
	open, refused map[string]bool
	// acked are those with an offset, in the order of their outcomes.
	acked []located
}

type located struct {
	message sink.Message
	tp      sink.TPRef
	at      sink.At
}

func begin(t testing.TB, f Fixture) *history {
	return &history{t: t, f: f, open: make(map[string]bool), refused: make(map[string]bool)}
}

// publish publishes a copy of batch, whose memory means nothing any more when it returns.
func (h *history) publish(ctx context.Context, batch []sink.Message) (sink.Outcome, error) {
	h.t.Helper()
	return h.publishBy(ctx, h.f.Sink, batch)
}

func (h *history) publishBy(ctx context.Context, s sink.Sink, batch []sink.Message) (sink.Outcome, error) {
	h.t.Helper()
	h.mu.Lock()
	h.sent = append(h.sent, batch...)
	h.mu.Unlock()
	buffer := copyOf(batch)
	out, err := s.Publish(ctx, buffer)
	spoil(buffer)
	if fault := faultOf(&out, len(batch)); fault != "" {
		h.t.Error(fault)
		return out, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, status := range out.Status {
		id := batch[i].ID
		delete(h.open, id)
		switch {
		case status == sink.Rejected:
			h.refused[id] = true
		case status == sink.Pending:
			h.open[id] = true
		case h.f.Features.Reads && (len(out.At) == 0 || !out.At[i].Known):
			h.t.Errorf("message %s is acknowledged without an offset", id)
		case h.f.Features.Reads:
			h.acked = append(h.acked, located{batch[i], out.TPs[out.At[i].TP], out.At[i]})
		}
	}
	return out, err
}

func (h *history) mustPublish(batch []sink.Message) sink.Outcome {
	h.t.Helper()
	out, err := h.publish(Deadline(h.t), batch)
	if err != nil || !out.AllAcked() {
		h.t.Fatalf("%d of %d messages are acknowledged, rejected %v: %v", out.Acked(), len(batch), out.Rejected, err)
	}
	return out
}

func (h *history) publishers(series string, size int, more func(round int) bool) {
	ctx := Deadline(h.t)
	var publishing sync.WaitGroup
	for w := range 4 {
		publishing.Go(func() {
			for round := 0; more(round) && !h.t.Failed(); round++ {
				h.deliver(ctx, mixed(h.f, fmt.Sprintf("%s-%d", series, w), round*size, size))
			}
		})
	}
	publishing.Wait()
}

// deliver publishes a batch as a shard does: behind an unknown outcome it reads what is there. It
// returns how many outcomes were unknown.
func (h *history) deliver(ctx context.Context, batch []sink.Message) (unknown int) {
	h.t.Helper()
	for left := batch; len(left) > 0; unknown++ {
		out, err := h.publish(ctx, left)
		if err == nil && out.AllAcked() {
			break
		}
		s, whole := h.f.Sink.(sink.Transactional)
		if !whole || !errors.Is(err, sink.ErrUnknownOutcome) || out.Acked() > 0 {
			h.t.Errorf("%d of %d acknowledged, rejected %v: %v", out.Acked(), len(left), out.Rejected, err)
			break
		}
		if err := s.Fence(ctx); err != nil {
			h.t.Errorf("Fence: %v", err)
			break
		}
		left = Without(batch, ReadBack(ctx, h.t, s.(sink.Reader), h.f.Destinations))
	}
	return unknown
}

// Deliver publishes a batch as a shard does: behind an unknown outcome it reads what is there. It
// returns how many outcomes were unknown.
func Deliver(t testing.TB, s sink.Sink, destinations []string, batch []sink.Message) (unknown int) {
	t.Helper()
	h := begin(t, Fixture{Sink: s, Destinations: destinations})
	return h.deliver(Deadline(t), batch)
}

// check fails the test unless a consumer sees what was published, and messages lie where they
// were acknowledged.
func (h *history) check() (duplicates int) {
	h.t.Helper()
	h.consumed()
	if h.f.Features.Reads {
		return h.located()
	}
	return 0
}

// Compare fails the test unless records are what was sent, each message whole and each key in its
// order. It returns how many are repeats. keys says that the bus has them.
func Compare(t testing.TB, sent []sink.Message, records []Record, keys bool) (repeats int) {
	t.Helper()
	h := begin(t, Fixture{Features: Features{Keys: keys, Headers: true}})
	h.sent, h.repeats = sent, true
	h.compare(records)
	return len(records) - len(sent)
}

func (h *history) consumed() {
	h.t.Helper()
	var all []Record
	for _, d := range h.f.Destinations {
		for _, r := range h.f.Read(h.t, d) {
			r.destination = d
			all = append(all, r)
		}
	}
	h.compare(all)
}

// compare fails the test unless records are what was sent, each key in its order. What is open
// may be missing, but only at the end of its key: sent again, it would come after what follows it.
func (h *history) compare(records []Record) {
	h.t.Helper()
	byID, seen, order := make(map[string]*sink.Message), make(map[string]bool), make(map[string][]string)
	line := func(m *sink.Message) string { return m.Destination + "\x00" + string(m.Key) }
	for i := range h.sent {
		byID[h.sent[i].ID] = &h.sent[i]
	}
	for i := range records {
		r := &records[i]
		m, ok := byID[r.ID]
		switch {
		case !ok || r.destination != "" && m.Destination != r.destination || h.refused[r.ID]:
			h.t.Fatalf("%s shows message %s, which was not sent there", r.destination, r.ID)
		case seen[r.ID] && !h.repeats:
			h.t.Fatalf("message %s is repeated", r.ID)
		case !seen[r.ID]:
			order[line(m)] = append(order[line(m)], r.ID)
		}
		seen[r.ID] = true
		if fault := differs(m, r, h.f.Features.Keys, h.f.Features.Headers); fault != "" {
			h.t.Fatal(fault)
		}
	}
	hole := make(map[string]string)
	for i := range h.sent {
		m := &h.sent[i]
		l := line(m)
		switch {
		case h.refused[m.ID] || byID[m.ID] == nil:
			continue
		case !seen[m.ID] && !h.open[m.ID]:
			h.t.Fatalf("message %s is missing", m.ID)
		case !seen[m.ID]:
			hole[l] = m.ID
		case hole[l] != "" || order[l][0] != m.ID:
			h.t.Fatalf("key %q on %s: message %s comes before %s, and %s is not there", m.Key, m.Destination, order[l][0], m.ID, hole[l])
		default:
			order[l] = order[l][1:]
		}
		byID[m.ID] = nil
	}
}

// located fails the test unless each message lies where its outcome says, and no two at one offset.
// It returns how many are duplicates.
func (h *history) located() (duplicates int) {
	h.t.Helper()
	reader := h.f.Sink.(sink.Reader)
	tps := must.Get(reader.TPs(Deadline(h.t), h.f.Destinations))(h.t)
	incarnations, there, taken := make(map[string]string), make(map[string]map[uint64]stored), make(map[string]string)
	for _, tp := range tps {
		incarnations[tp.Name], there[tp.Name] = tp.Incarnation, make(map[uint64]stored)
		all, _, err := read(Deadline(h.t), reader, span(tp))
		if err != nil {
			h.t.Fatalf("Read %s: %v", tp.Name, err)
		}
		for _, m := range all {
			there[tp.Name][m.offset] = m
		}
	}
	if len(h.acked) == 0 {
		h.t.Fatal("no message was acknowledged")
	}
	for i := range h.acked {
		l := &h.acked[i]
		m, at := &l.message, l.at
		if got := incarnations[l.tp.Name]; l.tp.Incarnation != got {
			h.t.Fatalf("%s has the incarnation %q, outcomes say %q", l.tp.Name, got, l.tp.Incarnation)
		}
		got, ok := there[l.tp.Name][at.Offset]
		if !ok || got.ID != m.ID || got.destination != m.Destination || !bytes.Equal(got.Value, m.Value) {
			h.t.Fatalf("at %s %d is %s to %s, acknowledged was %s to %s", l.tp.Name, at.Offset, got.ID, got.destination, m.ID, m.Destination)
		}
		if at.Duplicate {
			duplicates++
			continue
		}
		// It is this copy of the message, and not another with its id.
		if fault := differs(m, &got.Record, h.f.Features.Keys, true); fault != "" {
			h.t.Fatal(fault)
		}
		offset := fmt.Sprint(l.tp.Name, " ", at.Offset)
		if other, twice := taken[offset]; twice {
			h.t.Fatalf("%s and %s were both acknowledged at %s", other, m.ID, offset)
		}
		taken[offset] = m.ID
	}
	return duplicates
}
