package lineage_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"example.org/bridge/client/backoff"
	"example.org/bridge/event"
	"example.org/bridge/internal/lineage"
	"example.org/bridge/internal/published"
	"example.org/bridge/internal/stream"
	"example.org/bridge/sink"
	sinkmemory "example.org/bridge/sink/sinktest/memory"
	"example.org/bridge/source"
	sourcememory "example.org/bridge/source/sourcetest/memory"
	"example.org/bridge/tests/must"
)

// scene is a bus with the messages of tables, and a source to compare with it.
type scene struct {
	kind   event.Kind
	format event.Format
	bus    *sinkmemory.Sink
	tables map[string]*sourcememory.Table
	since  map[string]uint64
	seq    uint64
}

func newTable(name string, more ...source.Column) *sourcememory.Table {
	columns := append([]source.Column{
		{Name: "id", Kind: source.Int}, {Name: "name", Kind: source.Text}, {Name: "state", Kind: source.Text}, {Name: "note", Kind: source.Text},
	}, more...)
	return sourcememory.NewTable(source.Spec{Table: name, ID: "id"}, columns...)
}

// newScene has each table publish so many rows, and then be on another server.
func newScene(t *testing.T, kind event.Kind, format event.Format, rows int) *scene {
	s := &scene{kind: kind, format: format, bus: sinkmemory.New(sinkmemory.Options{Partitions: 3}), tables: map[string]*sourcememory.Table{"a": newTable("a"), "b": newTable("b")}}
	for name, table := range s.tables {
		s.fill(table, "old", rows)
		s.publish(t, name, true)
		table.Move("second", false)
	}
	return s
}

func (s *scene) fill(table *sourcememory.Table, what string, rows int) {
	for i := range rows {
		table.Insert(fmt.Sprintf("%s-%d", what, i+1), "new", fmt.Sprintf("the note of %s-%d", what, i+1))
	}
}

func (s *scene) encoder(t *testing.T, name string) *event.Encoder {
	return must.Get(event.NewEncoder(event.Options{Stream: "items", Shard: name, Kind: s.kind, Source: "db", Table: name, Format: s.format}))(t)
}

// publish publishes all rows of a table; with says whether with the headers that tell rows apart.
func (s *scene) publish(t *testing.T, name string, with bool) {
	t.Helper()
	var page source.Page
	must.OK(t, s.tables[name].Read(t.Context(), source.Query{Limit: 5000, MaxBytes: 1 << 20}, &page))
	encoder := s.encoder(t, name)
	must.OK(t, encoder.Bind(page.Columns))
	var batch []sink.Message
	for i, row := range page.Rows {
		_, e, err := encoder.Append(nil, event.Row{Row: row, Read: page.Now})
		must.OK(t, err)
		s.seq++
		m := sink.Message{
			Destination: "topic", Key: e.Key, Value: e.Body, ID: e.ID, Domain: "acme", Stream: "items", Shard: name, RowID: row.ID, Origin: sink.FromTail, Time: page.Now,
			State: sink.State{Epoch: 5, Seq: s.seq, Index: uint32(i), Digest: e.Digest, Hash: 7},
		}
		if with {
			m.Form, m.Born = encoder.Form(), uint32(e.Born)
			m.Server = string(sink.AppendServer(nil, 0, published.ServerAndDatabase(page.Server, encoder.Source())))
		}
		batch = append(batch, m)
	}
	must.Get(s.bus.Publish(t.Context(), batch))(t)
}

// deleted publishes that so many entities are gone, under ids of their own.
func (s *scene) deleted(t *testing.T, name string, n int) {
	t.Helper()
	batch := make([]sink.Message, n)
	for i := range batch {
		s.seq++
		batch[i] = sink.Message{
			Destination: "topic", Key: fmt.Appendf(nil, "gone-%d", i), Value: []byte("{}"), ID: fmt.Sprintf("gone-%s-%d", name, i), Domain: "acme", Stream: "items", Shard: name,
			RowID: uint64(1_000_000 + i), Origin: sink.FromReconcile, State: sink.State{Epoch: 5, Seq: s.seq, Index: uint32(i), Kind: sink.StateAbsent, Hash: 7},
		}
	}
	must.Get(s.bus.Publish(t.Context(), batch))(t)
}

// check compares the tables, of one of two streams: the other one has stopped before.
func (s *scene) check(t *testing.T) error {
	t.Helper()
	return lineage.NewCheck(s.options(t)).Stream(t.Context(), "items")
}

func (s *scene) options(t *testing.T) lineage.Options {
	return lineage.Options{
		Reader: s.bus,
		Streams: []lineage.Stream{
			{Name: "items", Domain: "acme", Kind: s.kind, Destinations: []string{"topic"}, Hash: 7, KeyIsID: true, Tables: []string{"a", "b"}}, {Name: "stopped"},
		},
		Comes: func(name string) bool { return name != "stopped" },
		Most:  func(context.Context, string) uint64 { return lineage.Window },
		Since: func(context.Context, string) (map[string]uint64, error) { return s.since, nil },
		Table: func(_, name string) (lineage.Table, error) {
			return lineage.Table{Name: name, Source: s.tables[name], Encoder: s.encoder(t, name)}, nil
		},
		Retry:  func(_ context.Context, do func() error) error { return do() },
		Within: time.Minute,
	}
}

// replace has a table hold other rows, on the other server.
func (s *scene) replace(name, what string, rows int) {
	s.tables[name] = newTable(name)
	s.fill(s.tables[name], what, rows)
	s.tables[name].Move("second", false)
}

// TestAnotherDatabase: only the first cases are another database, whatever has changed.
func TestAnotherDatabase(t *testing.T) {
	both := func(s *scene, what string, rows int) {
		s.replace("a", what, rows)
		s.replace("b", what, rows)
	}
	update := func(s *scene, values ...string) {
		for _, table := range s.tables {
			for id := uint64(1); id <= 40; id++ {
				table.Update(id, values...)
			}
		}
	}
	for name, c := range map[string]struct {
		happen func(t *testing.T, s *scene)
		// stops has what the error says, empty if there is none.
		stops string
	}{
		"other rows":              {func(_ *testing.T, s *scene) { both(s, "other", 3) }, "3 are others here, from id 1 on"},
		"more other rows":         {func(_ *testing.T, s *scene) { both(s, "other", 300) }, "are others here"},
		"no rows":                 {func(_ *testing.T, s *scene) { both(s, "other", 0) }, "the next id of a is 1"},
		"another server":          {func(*testing.T, *scene) {}, ""},
		"other rows in one table": {func(_ *testing.T, s *scene) { s.replace("a", "other", 50) }, ""},
		"other rows, the same server": {func(_ *testing.T, s *scene) {
			both(s, "other", 50)
			s.tables["a"].Move("memory", false)
			s.tables["b"].Move("memory", false)
		}, ""},
		"every row was updated": {func(_ *testing.T, s *scene) {
			for _, table := range s.tables {
				for id := uint64(1); id <= 40; id++ {
					table.Update(id, fmt.Sprintf("old-%d", id), "paid", fmt.Sprintf("another note %d", id))
				}
			}
		}, ""},
		"every row says the same now": {func(_ *testing.T, s *scene) { update(s, "gone", "gone", "gone") }, ""},
		"a column was added": {func(_ *testing.T, s *scene) {
			both(s, "other", 50)
			s.tables["a"].AddColumn(source.Column{Name: "more", Kind: source.Text})
			s.tables["b"].AddColumn(source.Column{Name: "more", Kind: source.Text})
		}, ""},
		"rows were deleted": {func(_ *testing.T, s *scene) {
			for _, table := range s.tables {
				for id := uint64(1); id <= 40; id++ {
					table.Delete(id)
				}
			}
		}, ""},
		"checkpoint set": {func(_ *testing.T, s *scene) {
			both(s, "other", 50)
			s.since = map[string]uint64{"a": 6, "b": 6}
		}, ""},
		"other rows behind many deletes": {func(t *testing.T, s *scene) {
			both(s, "other", 50)
			s.deleted(t, "a", 20)
			s.deleted(t, "b", 20)
		}, "are others here"},
		"other rows behind a large batch": {func(t *testing.T, s *scene) {
			s.bus = sinkmemory.New(sinkmemory.Options{Partitions: 1})
			for name := range s.tables {
				s.replace(name, "old", 2000)
				s.tables[name].Move("memory", false)
				s.publish(t, name, true)
			}
			both(s, "other", 2000)
		}, "are others here"},
		"messages of the former version": {func(t *testing.T, s *scene) {
			s.bus = sinkmemory.New(sinkmemory.Options{Partitions: 3})
			s.publish(t, "a", false)
			s.publish(t, "b", false)
			both(s, "other", 50)
		}, ""},
	} {
		for _, kind := range []event.Kind{event.Release, event.Capability} {
			for _, format := range []event.Format{event.FormatEiffel, event.FormatCloudEvents, event.FormatRow} {
				t.Run(fmt.Sprintf("%s, %s, %s", name, kind, format), func(t *testing.T) {
					s := newScene(t, kind, format, 40)
					c.happen(t, s)
					err := s.check(t)
					switch {
					case c.stops == "" && err != nil:
						t.Error(err)
					case c.stops != "" && (!errors.Is(err, lineage.ErrOtherDatabase) || !strings.Contains(err.Error(), c.stops) ||
						!strings.Contains(err.Error(), "were read from memory/db, this is second/db") || !strings.Contains(err.Error(), "DOMAIN_ID")):
						t.Errorf("%v, want %q", err, c.stops)
					}
				})
			}
		}
	}
}

// TestATopicThatAnswersLate keeps no table waiting for long whose rows are as they were published,
// nor is another database taken for the one of the bus meanwhile, nor a table forgotten.
func TestATopicThatAnswersLate(t *testing.T) {
	for _, c := range []struct {
		late            string
		another, silent bool
	}{{"stopped", false, true}, {"stopped", false, false}, {"items", true, false}} {
		s := newScene(t, event.Capability, event.FormatEiffel, 40)
		o := s.options(t)
		o.Comes, o.Within = nil, 10*time.Millisecond
		if c.another {
			s.replace("a", "other", 50)
			s.replace("b", "other", 50)
		} else if !c.silent {
			o.Within = time.Minute
		}
		o.Scan = func(ctx context.Context, one *lineage.Stream, most uint64) (lineage.Found, error) {
			if one.Name == c.late && (c.silent || backoff.Pause(ctx, 500*time.Millisecond) != nil) {
				<-ctx.Done()
				return lineage.Found{}, context.Cause(ctx)
			}
			return lineage.Scan(ctx, s.bus, one, most, nil)
		}
		o.Most = func(context.Context, string) uint64 { return lineage.Window + 1 }
		var late atomic.Bool
		o.Found = func(name string, _ lineage.Found) { late.CompareAndSwap(false, name == c.late) }
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		if err := lineage.NewCheck(o).All(ctx); (err != nil) != c.another || c.another && !errors.Is(err, lineage.ErrOtherDatabase) {
			t.Errorf("%+v: %v", c, err)
		}
		if cancel(); late.Load() == c.silent {
			t.Errorf("%+v: the messages of the one that is late were given away: %t", c, late.Load())
		}
	}
}

// TestAStreamThatIsComparedAgain is waited for: what it needs of the checkpoint was not read.
func TestAStreamThatIsComparedAgain(t *testing.T) {
	s := newScene(t, event.Capability, event.FormatEiffel, 40)
	o := s.options(t)
	o.Streams[0].Tables = []string{"a"}
	o.Streams[1] = o.Streams[0]
	o.Streams[1].Name, o.Streams[1].Tables, o.Comes = "again", []string{"b"}, func(string) bool { return true }
	s.replace("a", "other", 50)
	unread := true
	o.Since = func(_ context.Context, name string) (map[string]uint64, error) {
		if name == "again" && unread {
			return nil, stream.ErrUnread
		}
		return nil, nil
	}
	// The messages of b are of the stream items, too.
	o.Scan = func(ctx context.Context, one *lineage.Stream, most uint64) (lineage.Found, error) {
		of := *one
		of.Name = "items"
		return lineage.Scan(ctx, s.bus, &of, most, nil)
	}
	check := lineage.NewCheck(o)
	if err := check.Stream(t.Context(), "again"); !errors.Is(err, stream.ErrUnread) {
		t.Fatal(err)
	}
	unread = false
	waits := make(chan error)
	go func() { waits <- check.Stream(t.Context(), "items") }()
	select {
	case err := <-waits:
		t.Fatalf("it has not waited: %v", err)
	case <-time.After(300 * time.Millisecond):
	}
	must.OK(t, errors.Join(check.Stream(t.Context(), "again"), <-waits))
}

// TestServersOfTheSameNames: tables of states that were filled again on their server are no other
// database, those of a server of the same names are; a former version did not tell them apart.
func TestServersOfTheSameNames(t *testing.T) {
	for was, stops := range map[string]bool{"db-0 uid=1": true, "db-0": false, "db-0 uid=2": false} {
		s := newScene(t, event.Capability, event.FormatEiffel, 0)
		for name, table := range s.tables {
			table.Move(was, false)
			s.fill(table, "old", 40)
			s.publish(t, name, true)
			s.replace(name, "other", 50)
			s.tables[name].Move("db-0 uid=2", false)
		}
		if err := s.check(t); errors.Is(err, lineage.ErrOtherDatabase) != stops {
			t.Errorf("%s: %v", was, err)
		}
	}
}

// TestColumnsThatRepeatTellNothing: half of the values that hardly repeat decide.
func TestColumnsThatRepeatTellNothing(t *testing.T) {
	s := &scene{kind: event.Release}
	for name, c := range map[string]struct {
		was, is [][]string
		want    map[uint64]bool
	}{
		"others with the same state": {[][]string{{"ann", "new", "n1"}, {"bob", "new", "n2"}}, [][]string{{"carl", "new", "n3"}, {"dora", "new", "n4"}}, map[uint64]bool{1: false, 2: false}},
		"updated in one column":      {[][]string{{"anna", "new", "note 1"}, {"bobby", "new", "note 2"}}, [][]string{{"anna", "old", "note 3"}, {"bobby", "old", "note 4"}}, map[uint64]bool{1: true, 2: true}},
		"a number by chance":         {[][]string{{"anna", "10", ""}, {"bobby", "20", ""}}, [][]string{{"carla", "10", ""}, {"dora", "20", ""}}, map[uint64]bool{1: false, 2: false}},
		"short values, some unchanged": {
			[][]string{{"ann", "1", ""}, {"bob", "2", ""}, {"", "3", ""}}, [][]string{{"cid", "1", ""}, {"bob", "2", ""}, {"", "3", ""}}, map[uint64]bool{2: true},
		},
		"nothing that tells": {[][]string{{"same", "x", "x"}, {"same", "x", "x"}}, [][]string{{"same", "y", "y"}, {"same", "y", "y"}}, map[uint64]bool{}},
	} {
		t.Run(name, func(t *testing.T) {
			was, is := newTable("a"), newTable("a")
			for i := range c.was {
				was.Insert(c.was[i]...)
				is.Insert(c.is[i]...)
			}
			encoder, values := s.encoder(t, "a"), make(map[uint64][]byte)
			var page source.Page
			read := func(table *sourcememory.Table) {
				must.OK(t, errors.Join(table.Read(t.Context(), source.Query{Limit: 10, MaxBytes: 1 << 20}, &page), encoder.Bind(page.Columns)))
			}
			read(was)
			for _, row := range page.Rows {
				_, e, err := encoder.Append(nil, event.Row{Row: row, Read: page.Now})
				must.OK(t, err)
				values[row.ID] = e.Body
			}
			read(is)
			if got := lineage.Compare(encoder, &page, values); fmt.Sprint(got) != fmt.Sprint(c.want) {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}

// wide is a bus with many topic-partitions that have messages of others. It counts what is read.
type wide struct{ tps, read uint64 }

func (w *wide) TPs(context.Context, []string) ([]sink.TP, error) {
	tps := make([]sink.TP, w.tps)
	for i := range tps {
		tps[i] = sink.TP{Name: fmt.Sprint(i), End: 100_000, Stable: 100_000}
	}
	return tps, nil
}

func (w *wide) Read(_ context.Context, span sink.Span, _ func(*sink.Stored) error) (uint64, error) {
	w.read += span.To - span.From
	return span.To, nil
}

func TestAScanOfManyTopicPartitionsIsBounded(t *testing.T) {
	for tps, most := range map[uint64]uint64{2: 100_000, 100: 500_000, 1000: 1_000_000} {
		bus := &wide{tps: tps}
		_, err := lineage.Scan(t.Context(), bus, &lineage.Stream{Name: "items", Tables: []string{"a"}}, 50_000, nil)
		if must.OK(t, err); bus.read != most {
			t.Errorf("of %d TPs %d messages are read, want %d", tps, bus.read, most)
		}
	}
}
