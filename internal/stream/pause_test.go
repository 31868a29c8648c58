package stream_test

import (
	"testing"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/checkpoint/store/storetest/memory"
	"example.org/bridge/internal/stream"
)

// pauses is a store with pauses of the stream s, which has the tables a and b.
type pauses struct {
	*testing.T
	store *memory.Store
	now   time.Time
}

func (p *pauses) image() *store.Image {
	p.Helper()
	image, err := p.store.Load(p.Context())
	if err != nil {
		p.Fatal(err)
	}
	return &image
}

func (p *pauses) apply(b *store.Batch) {
	p.Helper()
	if err := p.store.Apply(p.Context(), b); err != nil {
		p.Fatal(err)
	}
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
	pause, err := stream.LoadPause(p.Context(), p.store, store.Key{Stream: "s", Shard: table})
	if err != nil {
		p.Fatal(err)
	}
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
	if err := p.set("a", true); err != nil {
		t.Fatal(err)
	}
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
					if err := p.set(c.table, c.on); err != nil {
						t.Fatal(err)
					}
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
		if err := p.set(c.table, c.on); err != nil {
			t.Fatal(err)
		}
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
		if err := p.set("a", on); err != nil {
			t.Fatal(err)
		}
		about(map[bool]string{true: "paused", false: "resumed eight minutes ago"}[on], map[bool]time.Duration{true: 0, false: 8 * time.Minute}[on])
	}
}

// TestATableIsMovedWithItsPause: it is the same table under another name.
func TestATableIsMovedWithItsPause(t *testing.T) {
	s := publishedShard(t)
	image, err := s.store.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	b, err := stream.SetPause{Stream: key.Stream, Table: key.Shard, On: true, Now: base}.Batch(&image)
	if err != nil {
		t.Fatal(err)
	}
	s.command(t, b)
	if b, _, err = (stream.Rename{Stream: key.Stream, From: key.Shard, To: "a/orders_1", Epoch: 9, Now: base}).Batch(t.Context(), s.store); err != nil {
		t.Fatal(err)
	}
	s.command(t, b)
	moved, err := stream.LoadPause(t.Context(), s.store, store.Key{Stream: key.Stream, Shard: "a/orders_1"})
	if err != nil || !moved.Since.Equal(base) {
		t.Errorf("paused since %v, %v", moved.Since, err)
	}
}
