package verify_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"example.org/bridge/event"
	"example.org/bridge/internal/verify"
	"example.org/bridge/sink"
	"example.org/bridge/source"
	"example.org/bridge/source/sourcetest/memory"
)

// tables is a world of one stream with two tables, d_0 and d_1. Each event follows on the entity's
// last one, whichever table that is of, unless byTable is set.
type tables struct {
	*world
	list    [2]*memory.Table
	byTable bool
	now     int
	lasts   [2]map[string]string
	// Each table has its own count and encoder.
	acked    [2]uint32
	encoders [2]*event.Encoder
}

func newTables(t *testing.T, byTable bool) *tables {
	t.Helper()
	w := &tables{world: stamped(t, event.Capability), byTable: byTable}
	for i := range w.list {
		w.list[i], w.lasts[i] = memory.NewTable(spec, list...), make(map[string]string)
	}
	w.use(0)
	return w
}

func (w *tables) use(i int) {
	w.table = w.list[i]
	w.options.Shard = []string{"d_0", "d_1"}[i]
	w.options.Table = w.options.Shard
	if w.encoders[i] == nil {
		w.encoders[i] = w.newEncoder()
	}
	w.encoder = w.encoders[i]
	w.acked[w.now] = w.stamp.Acked
	w.now, w.stamp.Acked = i, w.acked[i]
	if w.byTable {
		w.last = w.lasts[i]
	}
}

func (w *tables) compare(adjust ...func(*verify.Options)) *verify.Report {
	w.t.Helper()
	slices.SortStableFunc(w.bus.messages, func(a, b *message) int { return cmp.Compare(a.Partition, b.Partition) })
	both := func(o *verify.Options) {
		o.Shards = nil
		for i, table := range w.list {
			w.use(i)
			o.Shards = append(o.Shards, verify.Shard{Stream: "things", Name: w.options.Shard, Kind: w.options.Kind, Source: table, Encoder: w.newEncoder()})
		}
	}
	return w.check(append([]func(*verify.Options){both}, adjust...)...)
}

// apart gives each table a topic of its own.
func (w *tables) apart() {
	w.bus.others = []sink.TP{{Name: "T/1"}}
	for _, m := range w.bus.messages {
		if m.Header[sink.HeaderShard] == "d_1" {
			m.Partition = 1
		}
	}
}

// moves are lives of an entity of two tables. found is what is found of links by the entity, links
// of each table by its own, and with a topic for each table; says is in the first example.
var moves = []struct{ name, life, found, byTable, apart, says string }{
	{"moved and back", moved + "; delete 1; in 0; insert M active", "", " | moved 2", "", ""},
	{"moved and back, where the bus ends with the other table's state", moved + "; delete 1; in 0; silent M active", "stale 1", "stale 1 | moved 1", "stale 1",
		"d_0 row 2 M: the last event says another state, and is of the table d_1"},
	{"moved", moved, "", " | moved 1", "", ""},
	{"moved, and the old state follows the new one", moved + "; swap 0 1; state 1 seq=9", "stale 1, outOfOrder 1", "stale 1 | moved 1", "stale 1",
		"d_1 row 1 M: the last event says another state, and is of the table d_0"},
	{"moved, and the old state follows the new one with a lower stamp", moved + "; swap 0 1", "stale 1, outOfOrder 1", "stale 1 | moved 1", "",
		"d_1 row 1 M: the last event says another state, and is of the table d_0; it came behind one with a higher stamp"},
	{"deleted, and added in the other table", "in 0; insert M active; remove M; in 1; insert M moved", "", "", "", ""},
	{"added in the other table, and deleted", "in 0; insert M active; in 1; insert M moved; in 0; removed 1 M", "stale 1", "stale 1 | moved 2", "stale 1",
		"d_1 row 1 M: the row is there, the last event says that it is gone, and is of the table d_0"},
	{"moved, and the row has not changed", "in 0; insert M active; delete 1; in 1; silent M active", "", "", "", ""},
	{"moved, and the row has not changed, which its event does not tell", "in 0; insert M a\xff; delete 1; in 1; silent M a\xff", "", "", "", ""},
	{"gone from both", moved + "; delete 1", "extra 1", "extra 1 | moved 1", "extra 1", "d_1 row 1 M: the last event says that it lives, but it has no row"},
}

const moved = "in 0; insert M active; delete 1; in 1; insert M moved"

func TestMovesBetweenTables(t *testing.T) {
	for _, c := range moves {
		for links, found := range map[string]string{"tables": c.found, "tables own": c.byTable, "topics": c.apart} {
			t.Run(c.name+": "+links, func(t *testing.T) {
				life, apart := "tables; "+c.life+"; apart", links == "topics"
				if !apart {
					life = links + "; " + c.life
				}
				r := play(t, event.Capability, life+"; finds "+found)
				if len(r.Streams[0].Faults) == 0 {
					return
				}
				e := r.Streams[0].Faults[0].Examples[0]
				if got := fmt.Sprintf("%s row %d %s: %s", e.Shard, e.Row, e.Key, e.What); got != c.says || e.Partition == "" {
					t.Errorf("it says %q, want %q", got, c.says)
				}
			})
		}
	}
}

func TestTablesOfOneStreamThatDiffer(t *testing.T) {
	// d_1 has the columns in another order, and another kind of the key.
	columns := []source.Column{
		{Name: "id", Kind: source.Int}, {Name: "doc", Kind: source.JSON}, {Name: "name", Kind: source.Int}, {Name: "created", Kind: source.Timestamp, Precision: 3},
	}
	one := []source.Column{{Name: "id", Kind: source.Int}, {Name: "name", Kind: source.Text}, {Name: "doc", Kind: source.JSON}, {Name: "created", Kind: source.Timestamp, Precision: 3}}
	made := func(t *testing.T) *tables {
		w := newTables(t, false)
		w.list = [2]*memory.Table{memory.NewTable(spec, one...), memory.NewTable(source.Spec{ID: "id", Key: []string{"name"}, Created: "created"}, columns...)}
		w.use(0)
		id := w.table.Insert("17", `{"a": 1}`, "2026-03-01 10:20:30.123")
		w.publish(id)
		w.table.Delete(id)
		return w
	}
	t.Run("a row that moved and says the same proves the event of the other table", func(t *testing.T) {
		w := made(t)
		w.list[1].Insert(`{"a": 1}`, "17", "2026-03-01 10:20:30.123")
		want(t, w.compare(), "")
		w.bus.edit(t, 0, `{"a":1}`, `{"a":2}`)
		want(t, w.compare(), "altered 1 | unproven 1")
	})
	t.Run("a row that says more is another state", func(t *testing.T) {
		w := made(t)
		w.list[1].AddColumn(source.Column{Name: "more", Kind: source.Text})
		id := w.list[1].Insert(`{"a": 1}`, "17", "2026-03-01 10:20:30.123")
		// NULL says nothing.
		want(t, w.compare(), "")
		w.list[1].Update(id, `{"a": 1}`, "17", "2026-03-01 10:20:30.123", "x")
		r := w.compare()
		want(t, r, "stale 1 | unproven 1")
	})
}

func TestTheSameIDInTwoTables(t *testing.T) {
	w := newTables(t, true)
	for i := range w.list {
		w.list[i] = memory.NewTable(source.Spec{ID: "id", Created: "created"}, list...)
		w.use(i)
		w.insert(fmt.Sprint("x", i), "first")
	}
	apart := func(o *verify.Options) {
		for i := range o.Shards {
			o.Shards[i].Apart = true
		}
	}
	want(t, w.compare(apart), "")
	w.list[1].Delete(1)
	r := w.compare(apart)
	want(t, r, "extra 1")
	if e := examplesOf(r, "extra")[0]; e.Shard != "d_1" || e.Row != 1 {
		t.Errorf("%+v", e)
	}
}
