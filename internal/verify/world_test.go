package verify_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"example.org/bridge/event"
	"example.org/bridge/internal/verify"
	"example.org/bridge/sink"
	"example.org/bridge/source"
	"example.org/bridge/source/sourcetest/memory"
	"example.org/bridge/tests/must"
)

// world is a table, and a bus with the events that a bridge publishes of it.
type world struct {
	t     *testing.T
	table *memory.Table
	// sharing says that the rows are those of memory.Sharing.
	sharing bool
	options event.Options
	encoder *event.Encoder
	bus     *recording
	// stamp is the state of the next message; counts says that messages are acknowledged.
	stamp  sink.State
	counts bool
	// last are the entities' last events by key, gone are those whose last one is a deleted one.
	last map[string]string
	gone map[string]bool
	// read is when the row of the event was read, previous the event that it follows.
	read     time.Time
	previous string
}

var (
	spec = source.Spec{ID: "id", Key: []string{"name"}, Created: "created"}
	list = []source.Column{
		{Name: "id", Kind: source.Int}, {Name: "name", Kind: source.Text}, {Name: "state", Kind: source.Text},
		{Name: "amount", Kind: source.Decimal}, {Name: "created", Kind: source.Timestamp, Precision: 3},
	}
)

func newWorld(t *testing.T, kind event.Kind) *world {
	t.Helper()
	w := &world{
		t: t, table: memory.NewTable(spec, list...), bus: &recording{partition: sink.TP{Name: "T/0"}}, last: make(map[string]string), gone: make(map[string]bool),
		stamp:   sink.State{Epoch: 7, Seq: 1, Hash: 7},
		options: event.Options{Stream: "things", Shard: "thing", Kind: kind, Source: "shop", Table: "thing"},
	}
	w.encoder = w.newEncoder()
	return w
}

func (w *world) reads() source.Shard {
	if w.sharing {
		return memory.Sharing(w.table)
	}
	return w.table
}

func (w *world) newEncoder() *event.Encoder {
	w.t.Helper()
	e := must.Get(event.NewEncoder(w.options))(w.t)
	return e
}

// insert commits a row and publishes its event, of an entity that may be known.
func (w *world) insert(name, state string) uint64 {
	w.t.Helper()
	id := w.table.Insert(name, state, "1.50", "2026-03-01 10:20:30.123")
	w.publish(id)
	return id
}

func (w *world) publish(id uint64) {
	w.t.Helper()
	var page source.Page
	read := func(s source.Shard, q source.Query) {
		must.OK(w.t, s.Read(w.t.Context(), q, &page))
	}
	read(w.table, source.Query{Ranges: []source.Range{{First: id, Last: id}}, Limit: 1})
	if w.sharing {
		read(w.reads(), source.Query{Keys: [][][]byte{{bytes.Clone(page.Rows[0].Values[1])}}, Limit: 1})
	}
	must.OK(w.t, w.encoder.Bind(page.Columns))
	row := event.Row{Row: page.Rows[0], Read: page.Now}
	name := string(row.Values[1])
	if w.options.Kind == event.Capability {
		if row.Predecessor = w.last[name]; row.Predecessor != "" && !w.gone[name] {
			row.Op = event.Modified
		}
		delete(w.gone, name)
	}
	w.read, w.previous = row.Read, row.Predecessor
	_, ev, err := w.encoder.Append(nil, row)
	w.send(ev, row.ID, err)
	w.last[name] = ev.ID
}

// replace writes an entity's row again, under another id, and publishes it.
func (w *world) replace(old uint64, name, state string) uint64 {
	w.t.Helper()
	w.table.Delete(old)
	return w.insert(name, state)
}

// remove deletes a row and publishes that.
func (w *world) remove(id uint64, name string) {
	w.t.Helper()
	w.table.Delete(id)
	if w.sharing {
		id = memory.Shared(id)
	}
	w.read, w.previous = time.Now(), w.last[name]
	_, ev, err := w.encoder.AppendAbsent(nil, event.Absent{Key: event.AppendKeyText(nil, []byte(name)), ID: id, Read: w.read, Predecessor: w.previous})
	w.send(ev, id, err)
	w.last[name], w.gone[name] = ev.ID, true
}

func clone(m *message) *message {
	one := *m
	one.Header = maps.Clone(m.Header)
	return &one
}

// headers are the headers of a message, as a bus stores them.
func headers(m *sink.Message) map[string]string {
	list := make(map[string]string)
	new(sink.Headers).Each(m, func(name, value string) { list[name] = value })
	return list
}

func (w *world) send(ev event.Event, row uint64, err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
	m := sink.Message{
		ID: ev.ID, Type: ev.Type, Version: ev.Version, Stream: w.options.Stream, Shard: w.options.Shard, RowID: row, Origin: sink.FromTail,
		Form: w.encoder.Form(),
	}
	switch w.options.Format {
	case event.FormatCloudEvents:
		m.Format = sink.FormatCloudEvents
	case event.FormatRow:
		at := ev.Time
		if ev.FromClock {
			at = w.read
		}
		m.Format, m.Bare = sink.FormatRow, &sink.Bare{Time: at.UnixMilli(), Previous: w.previous, Reason: ev.Reason}
	case event.FormatPayload:
		m.Format, m.Bare = sink.FormatPayload, &sink.Bare{Time: ev.Time.UnixMilli()}
		for _, h := range ev.Headers {
			m.Bare.Headers = append(m.Bare.Headers, sink.Header(h))
		}
	}
	c := &message{Key: bytes.Clone(ev.Key), Value: bytes.Clone(ev.Body), Header: headers(&m)}
	state := w.stamp
	switch {
	case ev.Op != event.Deleted:
		state.Digest = ev.Digest
	case ev.Reason == "ABSENT_IN_SNAPSHOT":
		state.Kind = sink.StateAbsent
	default:
		state.Kind = sink.StateTombstone
	}
	w.add(c, state)
}

// add gives a message its state and puts it on the bus.
func (w *world) add(m *message, state sink.State) {
	m.Header[sink.HeaderState] = string(sink.AppendState(nil, &state))
	if w.stamp.Seq++; w.counts {
		w.stamp.Acked++
	}
	w.bus.messages = append(w.bus.messages, m)
}

func (w *world) open() *verify.Bus {
	w.t.Helper()
	w.bus.opened = false
	bus := must.Get(verify.OpenBus(w.t.Context(), verify.BusOptions{Reader: w.bus}))(w.t)
	return bus
}

func (w *world) check(adjust ...func(*verify.Options)) *verify.Report {
	w.t.Helper()
	o := verify.Options{
		Bus: w.open(), Pause: time.Millisecond,
		Shards: []verify.Shard{{Stream: "things", Name: w.options.Shard, Kind: w.options.Kind, Source: w.reads(), Encoder: w.newEncoder()}},
	}
	for _, f := range adjust {
		f(&o)
	}
	r := must.Get(verify.Run(w.t.Context(), o))(w.t)
	return r
}

// message is one that can be tampered with. Partition is an index into those of the recording.
type message struct {
	Partition  int
	Key, Value []byte
	Header     map[string]string
	// Once says that it was published with exactly-once.
	Once bool
}

// recording is the reader of a bus.
type recording struct {
	// partition is the first one, others are further ones.
	partition sink.TP
	others    []sink.TP
	messages  []*message
	opened    bool
	// before is called at the beginning of each read.
	before func()
}

func (b *recording) TPs(context.Context, []string) ([]sink.TP, error) {
	if b.opened && b.before != nil {
		b.before()
	}
	b.opened = true
	tps := append([]sink.TP{b.partition}, b.others...)
	for _, m := range b.messages {
		tps[m.Partition].End++
	}
	return tps, nil
}

func (b *recording) Read(_ context.Context, span sink.Span, each func(*sink.Stored) error) (uint64, error) {
	offset := uint64(0)
	for _, m := range b.messages {
		if append([]sink.TP{b.partition}, b.others...)[m.Partition].Name != span.TP {
			continue
		}
		if offset >= span.From && offset < span.To {
			stored := sink.Stored{Offset: offset, Key: m.Key, Value: m.Value, Transactional: m.Once}
			for name, value := range m.Header {
				stored.Headers = append(stored.Headers, sink.Header{Name: name, Value: []byte(value)})
			}
			if err := each(&stored); err != nil {
				return offset + 1, err
			}
		}
		offset++
	}
	return span.To, nil
}

func (b *recording) Close() error { return nil }

func (b *recording) cut(i int) { b.messages = slices.Delete(b.messages, i, i+1) }
func (b *recording) swap(i, j int) {
	b.messages[i], b.messages[j] = b.messages[j], b.messages[i]
}

func (b *recording) edit(t *testing.T, i int, was, is string) {
	t.Helper()
	m := *b.messages[i]
	if m.Value = bytes.Replace(m.Value, []byte(was), []byte(is), 1); bytes.Equal(m.Value, b.messages[i].Value) {
		t.Fatalf("no %q in %s", was, m.Value)
	}
	b.messages[i] = &m
}

// summary lists what a report found: "missing 1, stale 2", and the doubts behind a bar.
func summary(r *verify.Report) string {
	var faults, doubts []string
	for _, s := range r.Streams {
		for _, f := range s.Faults {
			faults = append(faults, fmt.Sprintf("%s %d", f.Fault, f.Count))
		}
		for _, d := range s.Unjudged {
			doubts = append(doubts, fmt.Sprintf("%s %d", d.Reason, d.Count))
		}
	}
	if r.Foreign.Count > 0 {
		faults = append(faults, fmt.Sprintf("foreign %d", r.Foreign.Count))
	}
	text := strings.Join(faults, ", ")
	if len(doubts) > 0 {
		text += " | " + strings.Join(doubts, ", ")
	}
	return text
}

// want fails the test unless a report found exactly this.
func want(t *testing.T, r *verify.Report, what string) {
	t.Helper()
	if got := summary(r); got != what {
		t.Errorf("found %q, want %q", got, what)
		for _, s := range r.Streams {
			for _, f := range s.Faults {
				t.Logf("%s %+v", f.Fault, f.Examples)
			}
			for _, f := range s.Unjudged {
				t.Logf("%s %+v", f.Reason, f.Examples)
			}
		}
	}
	faults, _, _ := strings.Cut(what, " | ")
	if r.Good != (faults == "") {
		t.Errorf("good is %v for %q", r.Good, what)
	}
}
