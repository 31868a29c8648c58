package shard_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"example.org/bridge/checkpoint/store"
	storememory "example.org/bridge/checkpoint/store/storetest/memory"
	"example.org/bridge/event"
	"example.org/bridge/internal/shard"
	"example.org/bridge/internal/stream"
	"example.org/bridge/source"

	"github.com/prometheus/client_golang/prometheus"
)

// schemaBench is a bench whose log and metrics are looked at. It has published three rows.
type schemaBench struct {
	*bench
	t        *testing.T
	log      bytes.Buffer
	registry *prometheus.Registry
	rows     uint64
}

func newSchemaBench(t *testing.T, stop bool) *schemaBench {
	b := &schemaBench{bench: newBench(t), t: t, registry: prometheus.NewRegistry(), rows: 3}
	b.opts.Logger = slog.New(slog.NewTextHandler(&b.log, nil))
	b.opts.Metrics = shard.NewMetrics(b.registry, true)
	b.opts.StopOnSchemaChange, b.opts.Recheck = stop, 5*time.Millisecond
	b.insert(3)
	b.runTo(t, 3)
	return b
}

// expect fails the test unless the store has this version and these members, and so many breaking
// changes were counted.
func (b *schemaBench) expect(schema string, breaks float64) {
	b.t.Helper()
	s, err := store.LoadSchema(b.t.Context(), b.store, key)
	if err != nil || s == nil {
		b.t.Fatalf("the schema is %+v, %v", s, err)
	}
	text := event.VersionNumbers(s.Version).String()
	for _, m := range s.Members {
		text += " " + m.Name
	}
	families, err := b.registry.Gather()
	if err != nil {
		b.t.Fatal(err)
	}
	counted := -1.0
	for _, f := range families {
		if f.GetName() == "bridge_breaking_schema_changes_total" && len(f.GetMetric()) == 1 {
			counted = f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	if text != schema || counted != breaks {
		b.t.Errorf("the store has %q, counted %v, want %q and %v", text, counted, schema, breaks)
	}
}

// drop removes a column, add adds it.
func (b *schemaBench) drop(name string) { b.table.DropColumn(name) }

func (b *schemaBench) add(name string, kind source.Kind) {
	b.table.AddColumn(source.Column{Name: name, Kind: kind})
}

// goesOn inserts a row and runs the shard until that is published.
func (b *schemaBench) goesOn() {
	b.t.Helper()
	b.table.Insert()
	b.rows++
	b.runTo(b.t, b.rows)
}

// stops inserts a row and runs the shard until it stops for a change of the columns, with a reason
// that has all that is wanted.
func (b *schemaBench) stops(wants ...string) {
	b.t.Helper()
	b.table.Insert()
	b.rows++
	before := b.count(topic)
	s, end := b.run(b.t)
	expectText(b.t, stopped(b.t, s), append(wants, shard.ErrSchemaChanged.Error())...)
	end()
	if now := b.count(topic); now != before {
		b.t.Errorf("%d messages were published all the same", now-before)
	}
}

func TestAMemberThatIsGone(t *testing.T) {
	t.Run("is told once while the shard goes on", func(t *testing.T) {
		b := newSchemaBench(t, false)
		b.goesOn()
		b.drop("name")
		b.goesOn()
		b.goesOn()
		if n := strings.Count(b.log.String(), "consumers have to be told of"); n != 1 {
			t.Errorf("told %d times:\n%s", n, &b.log)
		}
		expectText(t, b.log.String(), "member name was string or null and is gone")
		b.expect("1.0.0 created id", 1)
	})
	t.Run("stops the shard until the version is another one", func(t *testing.T) {
		b := newSchemaBench(t, true)
		b.drop("name")
		b.stops("member name was string or null and is gone", "EVENT_VERSION to another version than 1.0.0", "ON_SCHEMA_CHANGE=warn")
		b.expect("1.0.0 created id name", 1)
		b.version = "2.0.0"
		b.goesOn()
		b.expect("2.0.0 created id", 1)
		if got := b.bus.Messages(topic)[3].Version; got != "2.0.0" {
			t.Errorf("published with the version %q", got)
		}
	})
}

func TestAnAddedMemberIsNoBreak(t *testing.T) {
	b := newSchemaBench(t, true)
	b.add("extra", source.Int)
	b.goesOn()
	b.expect("1.0.0 created extra id name", 0)
	all := b.bus.Messages(topic)
	if before, after := all[0].Schema, all[3].Schema; after == before || len(after) != 12 {
		t.Errorf("the hash was %q and is %q", before, after)
	}
}

func TestAMemberWithAnotherTypeStopsTheShard(t *testing.T) {
	b := newSchemaBench(t, true)
	b.drop("name")
	b.add("name", source.Int)
	b.stops("member name was string or null and is integer or null")
}

// The store never claims more than the bus: what was not acknowledged is not what consumers know.
func TestTheSchemaOfABatchIsSavedWithIt(t *testing.T) {
	b := newSchemaBench(t, false)
	b.sink, b.opts.ShutdownTimeout = deafSink{b.bus}, time.Millisecond
	b.add("extra", source.Int)
	b.table.Insert()
	b.run(t)
	eventually(t, "the message is on the bus", func() bool { return b.count(topic) == 4 })
	b.expect("1.0.0 created id name", 0)
}

func TestTheBusTellsTheSchemaThatTheStoreLacks(t *testing.T) {
	t.Run("a table that is as it was goes on without a store", func(t *testing.T) {
		b := newSchemaBench(t, true)
		b.store = storememory.New()
		b.goesOn()
		b.expect("1.0.0 created id name", 0)
	})
	t.Run("another one stops", func(t *testing.T) {
		b := newSchemaBench(t, true)
		b.store = storememory.New()
		b.drop("name")
		b.stops("the checkpoint does not know which these were")
		// What catch-up has read is in the store.
		b.stops()
		b.version = "1.0.1"
		b.goesOn()
	})
	t.Run("and so does one that an older store knows as it is now", func(t *testing.T) {
		b := newSchemaBench(t, true)
		copied := copyStore(t, b.store)
		b.add("extra", source.Int)
		b.goesOn()
		b.store = copied
		b.drop("extra")
		b.stops()
	})
}

// TestAnotherMeaningStopsTheShard: the store was written with one configuration, and is read with
// another. Only a reset has it go on.
func TestAnotherMeaningStopsTheShard(t *testing.T) {
	const (
		reset = "bridge checkpoint reset items"
		goOn  = "bridge checkpoint set items items 10"
	)
	for name, c := range map[string]struct {
		was  event.Kind
		is   store.Meaning
		want string
		// lacks is a command that the error does not name.
		lacks string
	}{
		"the same": {event.Release, store.Meaning{Kind: "release", Table: "shop.items", ID: "id"}, "", ""},
		"a release stream that was a capability stream": {
			event.Capability, store.Meaning{Kind: "release", Table: "shop.items", ID: "id"}, "KIND was capability and is release", goOn,
		},
		"another database": {event.Release, store.Meaning{Kind: "release", Table: "crm.items", ID: "id"}, "TABLE was shop.items and is crm.items", ""},
		"another key of a capability stream": {
			event.Capability, store.Meaning{Kind: "capability", Table: "shop.items", ID: "id", Key: []string{"name"}}, "KEY was id and is name", goOn,
		},
		"another id": {event.Release, store.Meaning{Kind: "release", Table: "shop.items", ID: "seq"}, "ID was id and is seq", goOn},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.opts.Kind, b.opts.Meaning = c.was, &store.Meaning{Kind: string(c.was), Table: "shop.items", ID: "id", Key: []string{"id"}}
			b.insert(10)
			b.runTo(t, 10)
			if c.is.Key == nil {
				c.is.Key = []string{"id"}
			}
			b.opts.Kind, b.opts.Meaning = event.Kind(c.is.Kind), &c.is
			b.insert(1)
			if c.want == "" {
				b.runTo(t, 11)
				return
			}
			s, stop := b.run(t)
			why := stopped(t, s)
			expectText(t, why, c.want, reset, shard.ErrOtherMeaning.Error())
			if c.lacks == "" {
				expectText(t, why, goOn)
			} else if strings.Contains(why, c.lacks) {
				t.Errorf("the error names %q: %s", c.lacks, why)
			}
			if n := b.count(topic); n != 10 {
				t.Errorf("%d messages were published, want 10", n)
			}
			stop()
			b.apply(t, func(image *store.Image) *store.Batch {
				return stream.Reset{Stream: key.Stream, Epoch: stream.NextEpoch(image, time.Now()), Now: time.Now()}.Batch(image)
			})
			b.run(t)
			eventually(t, "the table is published again", func() bool { return b.count(topic) == 21 })
		})
	}
}
