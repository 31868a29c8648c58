package shard_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"bridge/checkpoint/store"
	storememory "bridge/checkpoint/store/memory"
	"bridge/event"
	"bridge/internal/progress"
	"bridge/internal/shard"
	"bridge/source"

	"github.com/prometheus/client_golang/prometheus"
)

// schemaBench is a bench whose log and metrics are looked at.
type schemaBench struct {
	*bench
	log      bytes.Buffer
	registry *prometheus.Registry
}

// newSchemaBench has published three rows.
func newSchemaBench(t *testing.T, stop bool) *schemaBench {
	b := &schemaBench{bench: newBench(t), registry: prometheus.NewRegistry()}
	b.opts.Logger = slog.New(slog.NewTextHandler(&b.log, nil))
	b.opts.Metrics = shard.NewMetrics(b.registry, true)
	b.opts.StopOnSchemaChange, b.opts.Recheck = stop, 5*time.Millisecond
	b.insert(3)
	_, end := b.run(t)
	b.saved(t, 3)
	end()
	return b
}

// breaks returns how many breaking changes were counted.
func (b *schemaBench) breaks(t *testing.T) float64 {
	t.Helper()
	families, err := b.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "bridge_breaking_schema_changes_total" && len(f.GetMetric()) == 1 {
			return f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	t.Fatal("there is no such metric")
	return 0
}

// members returns the members that the store has, and the version.
func (b *schemaBench) members(t *testing.T) string {
	t.Helper()
	s, err := store.LoadSchema(t.Context(), b.store, key)
	if err != nil || s == nil {
		t.Fatalf("the schema is %+v, %v", s, err)
	}
	text := event.VersionNumbers(s.Version).String()
	for _, m := range s.Members {
		text += " " + m.Name
	}
	return text
}

// drop removes the column name, and add adds it again; insertOne inserts a row.
func (b *schemaBench) drop() { b.table.DropColumn("name") }

func (b *schemaBench) add() { b.table.AddColumn(source.Column{Name: "name", Kind: source.Text}) }

func (b *schemaBench) insertOne() { b.table.Insert() }

// goesOn runs the shard until it has published so many rows.
func (b *schemaBench) goesOn(t *testing.T, rows uint64) {
	t.Helper()
	s, end := b.run(t)
	eventually(t, "the shard goes on", func() bool { return b.position(t) == rows || s.Status().State == shard.Stopped })
	if status := s.Status(); status.State == shard.Stopped {
		t.Fatalf("stopped: %s", status.LastError)
	}
	end()
}

// stops runs the shard until it stops for a change of the columns, and returns why.
func (b *schemaBench) stops(t *testing.T) string {
	t.Helper()
	before := b.count(topic)
	s, end := b.run(t)
	stopped(t, s)
	why := s.Status().LastError
	end()
	if !strings.Contains(why, shard.ErrSchemaChanged.Error()) {
		t.Errorf("it stopped for another reason: %s", why)
	}
	if now := b.count(topic); now != before {
		t.Errorf("%d messages were published all the same", now-before)
	}
	return why
}

func TestAMemberThatIsGone(t *testing.T) {
	t.Run("is told once while the shard goes on", func(t *testing.T) {
		b := newSchemaBench(t, false)
		b.insertOne()
		s, end := b.run(t)
		b.saved(t, 4)
		b.drop()
		for range 3 {
			b.insertOne()
		}
		b.saved(t, 7)
		if s.Status().State != shard.Running {
			t.Errorf("%+v", s.Status())
		}
		end()
		b.insertOne()
		b.goesOn(t, 8)
		if n := strings.Count(b.log.String(), "consumers have to be told of"); n != 1 || !strings.Contains(b.log.String(), "member name was string or null and is gone") || b.breaks(t) != 1 {
			t.Errorf("told %d times, counted %v:\n%s", n, b.breaks(t), &b.log)
		}
		if got := b.members(t); got != "1.0.0 created id" {
			t.Errorf("the store has %q", got)
		}
	})
	t.Run("stops the shard until the version is another one", func(t *testing.T) {
		b := newSchemaBench(t, true)
		b.drop()
		b.insertOne()
		why := b.stops(t)
		for _, want := range []string{"member name was string or null and is gone", "EVENT_VERSION to another version than 1.0.0", "ON_SCHEMA_CHANGE=warn"} {
			if !strings.Contains(why, want) {
				t.Errorf("the reason lacks %q: %s", want, why)
			}
		}
		if got := b.members(t); got != "1.0.0 created id name" || b.breaks(t) != 1 {
			t.Errorf("the store has %q, counted %v", got, b.breaks(t))
		}
		b.version = "2.0.0"
		b.goesOn(t, 4)
		if got := b.members(t); got != "2.0.0 created id" {
			t.Errorf("the store has %q", got)
		}
		if got := b.bus.Messages(topic)[3].Version; got != "2.0.0" {
			t.Errorf("published with the version %q", got)
		}
	})
	t.Run("stops the shard until the table is as it was", func(t *testing.T) {
		b := newSchemaBench(t, true)
		b.drop()
		b.insertOne()
		s, _ := b.run(t)
		stopped(t, s)
		b.add()
		b.saved(t, 4)
	})
	t.Run("does not stop a shard of another version", func(t *testing.T) {
		b := newSchemaBench(t, true)
		b.version = "1.1.0"
		b.drop()
		b.insertOne()
		b.goesOn(t, 4)
		if b.breaks(t) != 0 {
			t.Errorf("counted %v", b.breaks(t))
		}
	})
}

func TestAnAddedMemberIsNoBreak(t *testing.T) {
	b := newSchemaBench(t, true)
	before := b.bus.Messages(topic)[0].Schema
	b.table.AddColumn(source.Column{Name: "extra", Kind: source.Int})
	b.insertOne()
	b.goesOn(t, 4)
	if got := b.members(t); got != "1.0.0 created extra id name" || b.breaks(t) != 0 {
		t.Errorf("the store has %q, counted %v", got, b.breaks(t))
	}
	if after := b.bus.Messages(topic)[3].Schema; after == before || len(after) != 12 {
		t.Errorf("the hash was %q and is %q", before, after)
	}
}

func TestAMemberWithAnotherTypeStopsTheShard(t *testing.T) {
	b := newSchemaBench(t, true)
	b.drop()
	b.table.AddColumn(source.Column{Name: "name", Kind: source.Int})
	b.insertOne()
	if why := b.stops(t); !strings.Contains(why, "member name was string or null and is integer or null") {
		t.Error(why)
	}
}

// The store never claims more than the bus: what was not acknowledged is not what consumers know.
func TestTheSchemaOfABatchIsSavedWithIt(t *testing.T) {
	b := newSchemaBench(t, false)
	b.sink = deafSink{b.bus}
	b.table.AddColumn(source.Column{Name: "extra", Kind: source.Int})
	b.insertOne()
	_, end := b.run(t)
	eventually(t, "the message is on the bus", func() bool { return b.count(topic) == 4 })
	if got := b.members(t); got != "1.0.0 created id name" {
		t.Errorf("before the acknowledgement the store has %q", got)
	}
	b.opts.ShutdownTimeout = 0
	end()
}

func TestTheBusTellsTheSchemaThatTheStoreLacks(t *testing.T) {
	lost := func(b *schemaBench) { b.store = storememory.New() }
	t.Run("a table that is as it was goes on without a store", func(t *testing.T) {
		b := newSchemaBench(t, true)
		lost(b)
		b.insertOne()
		b.goesOn(t, 4)
		if got := b.members(t); got != "1.0.0 created id name" || b.breaks(t) != 0 {
			t.Errorf("the store has %q, counted %v", got, b.breaks(t))
		}
	})
	t.Run("another one stops", func(t *testing.T) {
		b := newSchemaBench(t, true)
		lost(b)
		b.drop()
		b.insertOne()
		if why := b.stops(t); !strings.Contains(why, "the checkpoint does not know which these were") {
			t.Error(why)
		}
		// What catch-up has read is in the store.
		b.stops(t)
		b.version = "1.0.1"
		b.goesOn(t, 4)
	})
	t.Run("and so does one that an older store knows as it is now", func(t *testing.T) {
		b := newSchemaBench(t, true)
		copied := copyStore(t, b.store)
		b.table.AddColumn(source.Column{Name: "extra", Kind: source.Int})
		b.insertOne()
		b.goesOn(t, 4)
		b.store = copied
		b.table.DropColumn("extra")
		b.insertOne()
		b.stops(t)
	})
	t.Run("an older store that lacks nothing of it goes on", func(t *testing.T) {
		b := newSchemaBench(t, true)
		copied := copyStore(t, b.store)
		b.table.AddColumn(source.Column{Name: "extra", Kind: source.Int})
		b.insertOne()
		b.goesOn(t, 4)
		b.store = copied
		b.insertOne()
		b.goesOn(t, 5)
		if got := b.members(t); got != "1.0.0 created extra id name" {
			t.Errorf("the store has %q", got)
		}
	})
}

// TestAnotherMeaningStopsTheShard: the store was written with one configuration, and is read with
// another.
func TestAnotherMeaningStopsTheShard(t *testing.T) {
	release := func() *store.Meaning {
		return &store.Meaning{Kind: "release", Table: "shop.items", ID: "id", Key: []string{"id"}}
	}
	capability := func() *store.Meaning {
		m := release()
		m.Kind = "capability"
		return m
	}
	const (
		reset = "bridge checkpoint reset items"
		goOn  = "bridge checkpoint set items items 10"
	)
	for name, c := range map[string]struct {
		was, is *store.Meaning
		change  func(*store.Meaning)
		// wants are in the error, lacks is not; none where nothing stops.
		wants []string
		lacks string
	}{
		"the same":      {was: release(), is: release()},
		"none is saved": {was: nil, is: release()},
		"a release stream that was a capability stream": {capability(), release(), nil, []string{"KIND was capability and is release", reset}, goOn},
		"a capability stream that was a release stream": {release(), capability(), nil, []string{"KIND was release and is capability", reset}, goOn},
		"another database":                   {release(), release(), func(m *store.Meaning) { m.Table = "crm.items" }, []string{"TABLE was shop.items and is crm.items", reset, goOn}, ""},
		"another key":                        {release(), release(), func(m *store.Meaning) { m.Key = []string{"name"} }, []string{"KEY was id and is name", reset, goOn}, ""},
		"another key of a capability stream": {capability(), capability(), func(m *store.Meaning) { m.Key = []string{"name"} }, []string{"KEY was id and is name", reset}, goOn},
		"another id":                         {release(), release(), func(m *store.Meaning) { m.ID = "seq" }, []string{"ID was id and is seq", reset}, goOn},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			kind := func(m *store.Meaning) {
				if b.opts.Meaning = m; m != nil {
					b.opts.Kind = event.Kind(m.Kind)
				}
			}
			kind(c.was)
			b.insert(10)
			b.runTo(t, 10)
			if c.change != nil {
				c.change(c.is)
			}
			kind(c.is)
			b.insert(1)
			s, stop := b.run(t)
			if c.wants == nil {
				b.saved(t, 11)
				stop()
				if saved, err := store.LoadMeaning(t.Context(), b.store, key); err != nil || saved == nil || len(saved.Differences(c.is)) > 0 {
					t.Errorf("the meaning is %+v, %v", saved, err)
				}
				return
			}
			stopped(t, s)
			got := s.Status().LastError
			for _, want := range append(c.wants, shard.ErrOtherMeaning.Error()) {
				if !strings.Contains(got, want) {
					t.Errorf("last error lacks %q: %s", want, got)
				}
			}
			if c.lacks != "" && strings.Contains(got, c.lacks) {
				t.Errorf("last error names %q: %s", c.lacks, got)
			}
			if n := b.count(topic); n != 10 {
				t.Errorf("%d messages were published, want 10", n)
			}
			stop()

			// What bridge checkpoint reset does.
			b.apply(t, func(image *store.Image) *store.Batch {
				return progress.Reset{Stream: key.Stream, Epoch: progress.NextEpoch(image, time.Now()), Now: time.Now()}.Batch(image)
			})
			b.run(t)
			eventually(t, "the table is published again", func() bool { return b.count(topic) == 21 })
		})
	}
}
