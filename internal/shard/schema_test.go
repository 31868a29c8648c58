package shard_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"bridge/checkpoint/store"
	storememory "bridge/checkpoint/store/memory"
	"bridge/event"
	"bridge/internal/shard"
	"bridge/source"
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
	eventually(t, "published", func() bool { return b.position(t) == 3 })
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

// saved returns the members that the store has, and the version.
func (b *schemaBench) saved(t *testing.T) string {
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
	eventually(t, "the shard stops", func() bool { return s.Status().State == shard.Stopped })
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
		eventually(t, "published", func() bool { return b.position(t) == 4 })
		b.drop()
		for range 3 {
			b.insertOne()
		}
		eventually(t, "published", func() bool { return b.position(t) == 7 })
		if s.Status().State != shard.Running {
			t.Errorf("%+v", s.Status())
		}
		end()
		b.insertOne()
		b.goesOn(t, 8)
		if n := strings.Count(b.log.String(), "consumers have to be told of"); n != 1 || !strings.Contains(b.log.String(), "member name was string or null and is gone") || b.breaks(t) != 1 {
			t.Errorf("told %d times, counted %v:\n%s", n, b.breaks(t), &b.log)
		}
		if got := b.saved(t); got != "1.0.0 created id" {
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
		if got := b.saved(t); got != "1.0.0 created id name" || b.breaks(t) != 1 {
			t.Errorf("the store has %q, counted %v", got, b.breaks(t))
		}
		b.version = "2.0.0"
		b.goesOn(t, 4)
		if got := b.saved(t); got != "2.0.0 created id" {
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
		eventually(t, "the shard stops", func() bool { return s.Status().State == shard.Stopped })
		b.add()
		eventually(t, "the shard goes on", func() bool { return b.position(t) == 4 })
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
	if got := b.saved(t); got != "1.0.0 created extra id name" || b.breaks(t) != 0 {
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
	if got := b.saved(t); got != "1.0.0 created id name" {
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
		if got := b.saved(t); got != "1.0.0 created id name" || b.breaks(t) != 0 {
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
		if got := b.saved(t); got != "1.0.0 created extra id name" {
			t.Errorf("the store has %q", got)
		}
	})
}
