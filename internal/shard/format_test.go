package shard_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"example.org/bridge/checkpoint/store"
	storememory "example.org/bridge/checkpoint/store/storetest/memory"
	"example.org/bridge/event"
	"example.org/bridge/internal/shard"
	"example.org/bridge/sink"
	"example.org/bridge/source"
)

// onBus returns what is on the bus, in short: "a=Added 1" with the number of the message, or
// "a=null of 2" for a tombstone of the event of message 2.
func (b *bench) onBus(t testing.TB) (list []string) {
	t.Helper()
	ids := make(map[string]int)
	var last sink.Message
	for i, m := range b.bus.Messages(topic) {
		if i > 0 && m.State.Epoch == last.State.Epoch && m.State.Seq <= last.State.Seq {
			t.Errorf("message %d has the seq %d behind %d", i, m.State.Seq, last.State.Seq)
		}
		if m.Value == nil {
			list = append(list, fmt.Sprintf("%s=null of %d", m.Key, ids[m.ID]))
			if m.State.Kind != last.State.Kind || m.Type != last.Type || m.Domain != last.Domain || m.RowID != last.RowID {
				t.Errorf("tombstone %+v behind %+v", m, last)
			}
		} else {
			ids[m.ID] = i
			list = append(list, fmt.Sprintf("%s=%s", m.Key, strings.TrimSuffix(strings.TrimPrefix(m.Type, "Items"), "Event")))
		}
		last = m
	}
	return list
}

func (b *bench) expectOnBus(t testing.TB, want string) {
	t.Helper()
	n := len(strings.Split(want, ", "))
	eventually(t, fmt.Sprintf("%d messages, there are %v", n, b.onBus(t)), func() bool { return b.count(topic) >= n })
	if got := strings.Join(b.onBus(t), ", "); got != want {
		t.Fatalf("the bus has %s, want %s", got, want)
	}
}

func TestTombstones(t *testing.T) {
	t.Run("leave the headers of the event before as they are, where the row alone is published", func(t *testing.T) {
		b := newViewBench(t, false)
		b.opts.Tombstones = shard.NewTombstones(nil, b.opts.Logger)
		b.format, b.opts.Format = event.FormatRow, sink.FormatRow
		b.play(t, `
			row a 1 0 now; run; on-bus a=Added; update 1 a 2 0 now; nominate a; on-bus a=Modified;
			update 1 a 2 1 now; nominate a; on-bus a=Deleted, a=null of 2; update 1 a 2 0 now; nominate a; on-bus a=Added;
			delete 1; nominate a; on-bus a=Deleted, a=null of 5`)
		// The headers say how the events of an entity follow on one another, and why one is gone.
		previous := ""
		for i, m := range b.bus.Messages(topic) {
			reason := []string{"", "", "TOMBSTONE", "TOMBSTONE", "", "ABSENT_IN_SNAPSHOT", "ABSENT_IN_SNAPSHOT"}[i]
			if m.Bare == nil || m.Value != nil && m.Bare.Previous != previous || m.Bare.Reason != reason || m.Bare.Time == 0 {
				t.Errorf("message %d, %s: %+v, want the reason %q behind %q", i, m.Value, m.Bare, reason, previous)
			}
			previous = m.ID
		}
		if got := string(b.bus.Messages(topic)[5].Value); got != `{"name":"a"}` {
			t.Errorf("the last one is %s", got)
		}
	})
	t.Run("are on where the bus says so, at each start", func(t *testing.T) {
		var log strings.Builder
		compacted, err := false, error(nil)
		b := newViewBench(t, false)
		b.opts.Tombstones = shard.NewTombstones(func(context.Context) (bool, error) { return compacted, err }, slog.New(slog.NewTextHandler(&log, nil)))
		want := ""
		for i, c := range []struct {
			compacted bool
			err       error
			null      bool
		}{{false, nil, false}, {true, fmt.Errorf("%w: grant it", sink.ErrHidden), false}, {false, sink.ErrHidden, false}, {true, nil, true}, {false, sink.ErrHidden, true}} {
			compacted, err = c.compacted, c.err
			_, stop := b.run(t)
			for _, deleted := range []string{"0", "1"} {
				last := b.table.Replace(fmt.Sprint("e", i), "1", deleted)
				b.saved(t, last)
			}
			stop()
			want += fmt.Sprintf("e%d=Added, e%d=Deleted, ", i, i)
			if c.null {
				want += fmt.Sprintf("e%d=null of %d, ", i, strings.Count(want, ",")-1)
			}
			b.expectOnBus(t, strings.TrimSuffix(want, ", "))
		}
		if got := strings.Count(log.String(), "without tombstones"); got != 1 || !strings.Contains(log.String(), "KAFKA_TOMBSTONES") {
			t.Errorf("the log: %s", log.String())
		}
	})
}

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
	counted := count(b.t, b.registry, "bridge_breaking_schema_changes_total")
	if text != schema || counted != breaks {
		b.t.Errorf("the store has %q, counted %v, want %q and %v", text, counted, schema, breaks)
	}
}

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
		copied := copyStore(b.store)
		b.add("extra", source.Int)
		b.goesOn()
		b.store = copied
		b.drop("extra")
		b.stops()
	})
}
