package stream_test

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/checkpoint/store/storetest/memory"
	"example.org/bridge/internal/stream"
	"example.org/bridge/sink"
	"example.org/bridge/source"
	"example.org/bridge/tests/must"
)

// pauses is a store with pauses of the stream s, which has the tables a and b.
type pauses struct {
	*testing.T
	store *memory.Store
	now   time.Time
}

func (p *pauses) image() *store.Image {
	p.Helper()
	image := must.Get(p.store.Load(p.Context()))(p)
	return &image
}

func (p *pauses) apply(b *store.Batch) {
	p.Helper()
	must.OK(p, p.store.Apply(p.Context(), b))
}

// set types a command a minute after the last one.
func (p *pauses) set(table string, on bool) error {
	p.Helper()
	p.now = p.now.Add(time.Minute)
	b, err := stream.SetPause{Stream: "s", Table: table, On: on, Now: p.now}.Batch(p.image())
	if err == nil {
		p.apply(b)
	}
	return err
}

func (p *pauses) of(table string) stream.Pause {
	p.Helper()
	pause := must.Get(stream.LoadPause(p.Context(), p.store, store.Key{Stream: "s", Shard: table}))(p)
	return pause
}

// are fails the test unless these tables alone are paused.
func (p *pauses) are(what string, a, b bool) {
	p.Helper()
	for table, want := range map[string]bool{"a": a, "b": b} {
		if got := p.of(table).Since; !got.IsZero() != want {
			p.Errorf("%s: %s is paused since %v", what, table, got)
		}
	}
}

func TestPauses(t *testing.T) {
	begin := time.Now().Add(-time.Hour).Truncate(time.Millisecond)
	p := &pauses{t, memory.New(), begin}
	p.are("at first", false, false)
	must.OK(t, p.set("a", true))
	p.are("a table is paused", true, false)
	first := p.of("a").Since
	if err := p.set("", true); err != nil || !p.of("a").Since.Equal(first) || !p.of("b").Since.Equal(p.now) {
		t.Errorf("with the stream: %v, %+v, %+v", err, p.of("a"), p.of("b"))
	}
	p.are("the stream is paused", true, true)
	if err := p.set("a", false); err == nil {
		t.Error("a table goes on though its stream is paused")
	}
	p.apply(stream.Rebuild(p.image(), "s", time.Now()))
	p.are("after a rebuild", true, true)
	p.apply(stream.Reset{Stream: "s", Shards: []string{"a", "b"}, Epoch: 1 << 50, Now: time.Now()}.Batch(p.image()))
	p.are("after a reset", true, true)
	if since := p.of("a").Since; !since.Equal(first) {
		t.Errorf("since %v", since)
	}
}

// TestTheLaterCommandHolds: also where it changed nothing in the store of the process that took it,
// and over earlier ones that another store has, of the stream or of a table.
func TestTheLaterCommandHolds(t *testing.T) {
	type command struct {
		table string
		on    bool
	}
	for name, c := range map[string]struct {
		earlier, later []command
		a, b           bool
	}{
		"the stream goes on":                {[]command{{"", true}}, []command{{"", false}}, false, false},
		"a table goes on":                   {[]command{{"a", true}}, []command{{"a", false}}, false, false},
		"the stream goes on, not a table":   {[]command{{"a", true}, {"b", true}}, []command{{"", false}}, false, false},
		"a table goes on, not the stream":   {[]command{{"", true}}, []command{{"a", false}}, false, true},
		"a table is paused that was":        {[]command{{"a", true}, {"a", false}}, []command{{"a", true}, {"a", true}}, true, false},
		"the stream is paused that was not": {[]command{{"a", true}, {"a", false}}, []command{{"", true}}, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			begin := time.Now().Add(-time.Hour)
			former, now := &pauses{t, memory.New(), begin}, &pauses{t, memory.New(), begin.Add(time.Hour / 2)}
			for p, commands := range map[*pauses][]command{former: c.earlier, now: c.later} {
				for _, c := range commands {
					must.OK(t, p.set(c.table, c.on))
				}
			}
			merge := func(into, of *pauses) {
				copied := &stream.Copy{}
				for key, one := range of.image().Shards {
					copied.Shards = append(copied.Shards, store.ShardChange{Key: key, Progress: &one})
				}
				into.apply(stream.Lacking(into.image(), "s", copied, func() uint32 { return 0 }))
			}
			merge(former, now)
			merge(now, former)
			former.are("a folder from before", c.a, c.b)
			now.are("a copy from before", c.a, c.b)
		})
	}
	p := &pauses{t, memory.New(), time.Now().Add(-time.Hour)}
	for _, c := range []command{{"a", true}, {"a", true}, {"", true}, {"", true}} {
		must.OK(t, p.set(c.table, c.on))
	}
	if a, b := p.of("a").Since, p.of("b").Since; p.now.Sub(a).Round(time.Second) != 3*time.Minute || p.now.Sub(b).Round(time.Second) != time.Minute {
		t.Errorf("at %v a is paused since %v, b since %v", p.now, a, b)
	}
}

// TestAPauseDoesNotAgeGaps: what has passed since the progress was saved counts while nothing is
// paused, and from the end of a pause on.
func TestAPauseDoesNotAgeGaps(t *testing.T) {
	p := &pauses{t, memory.New(), time.Now().Add(-10 * time.Minute)}
	saved := time.Now().Add(-time.Hour)
	about := func(what string, want time.Duration) {
		t.Helper()
		pause := p.of("a")
		if got := pause.Away(saved); got < want || got > want+time.Minute/2 {
			t.Errorf("%s: %v", what, got)
		}
	}
	about("never paused", time.Hour)
	for _, on := range []bool{true, false, false} {
		must.OK(t, p.set("a", on))
		about(map[bool]string{true: "paused", false: "resumed eight minutes ago"}[on], map[bool]time.Duration{true: 0, false: 8 * time.Minute}[on])
	}
}

// TestATableIsMovedWithItsPause: it is the same table under another name.
func TestATableIsMovedWithItsPause(t *testing.T) {
	s := publishedShard(t)
	image := must.Get(s.store.Load(t.Context()))(t)
	b, err := stream.SetPause{Stream: key.Stream, Table: key.Shard, On: true, Now: base}.Batch(&image)
	must.OK(t, err)
	s.command(t, b)
	_, err = stream.Rename{Stream: key.Stream, From: key.Shard, To: "a/orders_1", Epoch: 9, Now: base}.Apply(t.Context(), s.store)
	must.OK(t, err)
	moved, err := stream.LoadPause(t.Context(), s.store, store.Key{Stream: key.Stream, Shard: "a/orders_1"})
	if err != nil || !moved.Since.Equal(base) {
		t.Errorf("paused since %v, %v", moved.Since, err)
	}
}

// TestRepublish holds what a request says against what is read, done and saved: messages of former
// requests do not count, nor does what another one has done, and a kill publishes nothing twice
// that the bus has.
func TestRepublish(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	p := &pauses{t, memory.New(), now}
	table := store.Key{Stream: "s", Shard: "a"}
	load := func() *stream.Republish {
		t.Helper()
		r := must.Get(stream.LoadRepublish(t.Context(), p.store, table))(t)
		return r
	}
	save := func(r *stream.Republish) {
		t.Helper()
		p.apply(&store.Batch{Shards: []store.ShardChange{r.Change(table, now)}})
	}
	if r := load(); r != nil || r.Running() || r.Advance(&stream.Republished{}, now) || r.Note(1, nil, &sink.State{Epoch: 9}) {
		t.Fatalf("without a request there is %+v", r)
	}
	r := &stream.Republish{From: 10, To: 30, Epoch: 5, Seq: 7, Asked: now, State: stream.Republishing}
	r.Behind(nil)
	for _, m := range []struct {
		row, epoch, seq uint64
		want            bool
	}{{11, 5, 7, false}, {11, 4, 99, false}, {12, 5, 8, true}, {14, 6, 1, true}, {13, 6, 2, true}, {9, 6, 3, false}, {31, 6, 4, false}} {
		if got := r.Note(m.row, nil, &sink.State{Epoch: m.epoch, Seq: m.seq}); got != m.want {
			t.Errorf("a message %+v counts: %v", m, got)
		}
	}
	save(r)
	if r = load(); !reflect.DeepEqual(r.Done, []source.Range{{First: 12, Last: 14}}) || r.Rows != 3 || r.Cursor != 0 || !r.IsDone(13) || r.IsDone(11) || r.IsDone(15) {
		t.Errorf("behind a kill: %+v", r)
	}
	if r.Advance(&stream.Republished{Number: r.Number + 1, Cursor: 30}, now) || !r.Advance(&stream.Republished{Number: r.Number, Cursor: 20, Rows: 5, Changed: 1}, now) {
		t.Error("what another request has done counts, or that of this one does not")
	}
	save(r)
	if r = load(); len(r.Done) > 0 || r.Rows != 8 || r.Changed != 1 || !r.IsDone(20) || r.IsDone(21) || !r.Running() {
		t.Errorf("behind a batch: %+v", r)
	}
	first := p.image().Shards
	if !r.Cancel(now) || r.Cancel(now) || r.Note(25, nil, &sink.State{Epoch: 9}) {
		t.Error("it is cancelled twice, or goes on")
	}
	r.Advance(&stream.Republished{Number: r.Number, Cursor: 25, State: stream.RepublishDone}, now)
	save(r)
	if r = load(); r.State != stream.RepublishCancelled || !r.Ended.Equal(now) || r.Cursor != 25 {
		t.Errorf("cancelled: %+v", r)
	}

	// The next one of the table, by keys.
	next := &stream.Republish{Keys: []string{"x", "y", "z"}, Asked: now, State: stream.Republishing}
	if next.Behind(r); next.Number <= r.Number {
		t.Errorf("number %d follows %d", next.Number, r.Number)
	}
	if next.Note(1, []byte("w"), &sink.State{Epoch: 1}) || !next.Note(1, []byte("y"), &sink.State{Epoch: 1}) || !next.IsDone(2) || next.IsDone(3) {
		t.Errorf("by keys: %+v", next)
	}
	save(next)
	if r = load(); !r.Running() || !r.IsDone(2) {
		t.Errorf("the next request: %+v", r)
	}

	// Of two stores the later change holds; a pause is something else, and reset forgets it.
	for key, was := range first {
		if is := p.image().Shards[key]; is.Since <= was.Since || stream.IsPause(key.Shard) || !stream.IsCommand(key.Shard) {
			t.Errorf("%q: since %d, before %d", key.Shard, is.Since, was.Since)
		}
		if of, is := stream.RepublishedTable(key.Shard); of != "a" || !is {
			t.Errorf("%q is of %q", key.Shard, of)
		}
	}
	if err := errors.Join(p.set("", true), p.set("", false)); err != nil || !load().Running() {
		t.Errorf("behind a pause: %v, %+v", err, load())
	}
	p.apply(stream.Rebuild(p.image(), "s", now))
	if r := load(); r != nil {
		t.Errorf("a rebuild keeps %+v", r)
	}
	save(next)
	p.apply(stream.Reset{Stream: "s", Shards: []string{"a"}, Epoch: 9, Now: now}.Batch(p.image()))
	if r := load(); r != nil {
		t.Errorf("a reset keeps %+v", r)
	}
	save(next)
	damaged := store.ShardChange{Key: store.Key{Stream: "s", Shard: "\x02\x02\x03a"}, Parts: []store.Part{{Kind: store.Noted, Bytes: []byte("no request")}}}
	p.apply(&store.Batch{Shards: []store.ShardChange{damaged}})
	if _, err := stream.LoadRepublish(t.Context(), p.store, table); !errors.Is(err, stream.ErrDamaged) {
		t.Errorf("a damaged request: %v", err)
	}
}
