package stream

import (
	"context"
	"testing"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/checkpoint/store/storetest/memory"
	"example.org/bridge/event"
	"example.org/bridge/sink"
	"example.org/bridge/tests/must"
)

var (
	stateA, stateB = [16]byte{1}, [16]byte{2}
	eventA, eventB = [16]byte{0xa}, [16]byte{0xb}
	noon           = time.Unix(1_760_000_000, 500).UTC()
)

// desk is a view over a store in memory, and one TP.
type desk struct {
	*View
	t    *testing.T
	next uint64
	tp   uint32
}

func newDesk(t *testing.T) *desk {
	return &desk{View: NewView("s", memory.New(), func(tp uint32) uint32 { return tp }), t: t, tp: 1}
}

func (k *desk) put(e store.Entry) {
	k.t.Helper()
	if e.State == store.Unknown {
		return
	}
	must.OK(k.t, k.commit([]store.Change{{Entity: []byte("x"), Entry: e}}))
}

func (k *desk) commit(changes []store.Change) error {
	return k.store.Apply(context.Background(), &store.Batch{Views: []store.ViewChange{{Stream: "s", Changes: changes}}})
}

func (k *desk) begin(shard string) *Claims {
	c := k.Begin(shard)
	c.Time = noon
	return c
}

func (k *desk) decide(c *Claims, id uint64, digest [16]byte) *Decision {
	k.t.Helper()
	return k.decideRow(c, Row{ID: id, Digest: digest})
}

func (k *desk) decideRow(c *Claims, row Row) *Decision {
	k.t.Helper()
	row.Entity = []byte("x")
	list := must.Get(k.Decide(k.t.Context(), c, []Row{row}, nil, nil))(k.t)
	return &list[0]
}

func (k *desk) absent(c *Claims) *Decision {
	k.t.Helper()
	list := must.Get(k.Absent(k.t.Context(), c, [][]byte{[]byte("x")}, nil))(k.t)
	return &list[0]
}

func (k *desk) acknowledge(c *Claims) {
	k.t.Helper()
	must.OK(k.t, k.Apply(k.t.Context(), k.facts(c), nil, c, k.commit))
}

// facts returns the messages of a batch, which lie one behind the other.
func (k *desk) facts(c *Claims) (facts []Message) {
	for _, one := range c.items {
		if !one.published {
			continue
		}
		m := Message{
			Key: k.scope.entity([]byte(one.record.name)), Shard: c.shard, Row: one.entry.Row, Event: one.entry.Event, Time: c.Time,
			At: store.At{TP: k.tp, Offset: k.next}, State: sink.State{Epoch: 7, Seq: k.next + 1, Digest: one.entry.Digest},
		}
		switch one.entry.State {
		case store.Tombstone:
			m.State.Kind, m.State.Digest = sink.StateTombstone, [16]byte{}
		case store.Absent:
			m.State.Kind = sink.StateAbsent
		}
		k.next++
		facts = append(facts, m)
	}
	return facts
}

func (k *desk) stored() store.Entry {
	k.t.Helper()
	e := must.Get(k.Lookup(k.t.Context(), "a", [][]byte{[]byte("x")}, nil))(k.t)
	return e[0]
}

func in(shard string, row uint64, state store.EntryState, digest [16]byte) store.Entry {
	return store.Entry{Shard: shard, Row: row, State: state, Digest: digest, Event: eventA, At: store.At{TP: 1, Offset: 3}, Epoch: 7, Seq: 3}
}

func disputed(e store.Entry) store.Entry {
	e.Disputed = true
	return e
}

func gone(e store.Entry) store.Entry {
	e.State, e.Digest, e.Since = store.Absent, [16]byte{}, noon.Truncate(time.Second)
	return e
}

// rowState says whether a row is there, deleted, deleted by the condition of its stream, or gone.
type rowState int

const (
	there rowState = iota
	dead
	silent
	none
)

// TestDecide decides about row 7 of shard a, in the state B, or about an entity without a row.
func TestDecide(t *testing.T) {
	live, tombstone := in("a", 7, store.Live, stateA), in("a", 7, store.Tombstone, [16]byte{})
	foreign := in("b", 3, store.Live, stateB)
	recorded := store.Entry{Shard: "a", Row: 7, State: store.Recorded, Digest: stateA}
	same := in("a", 7, store.Live, stateB)
	row := func(e store.Entry, row uint64) store.Entry { e.Row = row; return e }
	for name, c := range map[string]struct {
		row   rowState
		known store.Entry
		floor uint64
		// op is empty where nothing is published.
		op       event.Op
		nominate bool
		// after is the state and row once the batch is acknowledged.
		after store.EntryState
		id    uint64
	}{
		"a row of an entity that is not known adds it":              {there, store.Entry{}, 0, event.Added, false, store.Live, 7},
		"another state modifies":                                    {there, live, 0, event.Modified, false, store.Live, 7},
		"the same state is not news":                                {there, same, 0, "", false, store.Live, 7},
		"the same state in another row changes the store alone":     {there, row(same, 6), 0, "", false, store.Live, 7},
		"the same state, disputed, is published":                    {there, disputed(same), 0, event.Modified, false, store.Live, 7},
		"a row of an entity that is absent adds it":                 {there, gone(live), 0, event.Added, false, store.Live, 7},
		"a row of an entity that is deleted adds it":                {there, tombstone, 0, event.Added, false, store.Live, 7},
		"a tombstone deletes what lives":                            {dead, live, 0, event.Deleted, false, store.Tombstone, 7},
		"a tombstone of what was never published is noted":          {dead, store.Entry{}, 0, "", false, store.Tombstone, 7},
		"a tombstone that is touched is not news":                   {dead, tombstone, 0, "", false, store.Tombstone, 7},
		"a tombstone in another row changes the store alone":        {dead, row(tombstone, 6), 0, "", false, store.Tombstone, 7},
		"a disputed tombstone is published":                         {dead, disputed(tombstone), 0, event.Deleted, false, store.Tombstone, 7},
		"a tombstone whose row was gone and is back is none":        {dead, gone(live), 0, "", false, store.Absent, 7},
		"a tombstone in another row than what is gone is one":       {dead, row(gone(live), 6), 0, event.Deleted, false, store.Tombstone, 7},
		"a row older than its entity's nominates":                   {there, row(live, 8), 0, "", true, store.Live, 8},
		"also where that is deleted":                                {there, row(gone(live), 8), 0, "", true, store.Absent, 8},
		"a row of an entity in another shard nominates":             {there, foreign, 0, "", true, store.Live, 3},
		"below the floor a row without an entry is recorded":        {there, store.Entry{}, 7, "", false, store.Recorded, 7},
		"below the floor a tombstone without an entry is noted":     {dead, store.Entry{}, 7, "", false, store.Tombstone, 7},
		"above the floor it is published":                           {there, store.Entry{}, 6, event.Added, false, store.Live, 7},
		"below the floor what has an entry is published":            {there, live, 7, event.Modified, false, store.Live, 7},
		"a change of what was recorded modifies":                    {there, recorded, 7, event.Modified, false, store.Live, 7},
		"what was recorded and has not changed is not news":         {there, store.Entry{Shard: "a", Row: 7, State: store.Recorded, Digest: stateB}, 7, "", false, store.Recorded, 7},
		"a tombstone of what was recorded is published":             {dead, recorded, 7, event.Deleted, false, store.Tombstone, 7},
		"what was recorded in another row of the shard is recorded": {there, store.Entry{Shard: "a", Row: 6, State: store.Recorded, Digest: stateB}, 7, "", false, store.Recorded, 7},
		"what was recorded in another shard nominates":              {there, store.Entry{Shard: "b", Row: 6, State: store.Recorded, Digest: stateB}, 7, "", true, store.Recorded, 6},
		"a silent row of what is not known says nothing":            {silent, store.Entry{}, 0, "", false, store.Unknown, 0},
		"below the floor a silent row is noted":                     {silent, store.Entry{}, 7, "", false, store.Tombstone, 7},
		"a silent row leaves what is absent in another row":         {silent, row(gone(live), 6), 0, "", false, store.Absent, 6},
		"a silent row says what is absent and disputed":             {silent, disputed(gone(live)), 0, event.Deleted, false, store.Tombstone, 7},
		"what lives and has no row is deleted":                      {none, live, 0, event.Deleted, false, store.Absent, 7},
		"what was recorded and has no row is deleted":               {none, recorded, 0, event.Deleted, false, store.Absent, 7},
		"a tombstone without a row changes the store alone":         {none, tombstone, 0, "", false, store.Absent, 7},
		"a disputed tombstone without a row is deleted":             {none, disputed(tombstone), 0, event.Deleted, false, store.Absent, 7},
		"what is absent and has no row is not news":                 {none, gone(live), 0, "", false, store.Absent, 7},
		"what is absent and disputed is deleted":                    {none, disputed(gone(live)), 0, event.Deleted, false, store.Absent, 7},
		"what is not known and has no row is not news":              {none, store.Entry{}, 0, "", false, store.Unknown, 0},
		"an entity of another shard without a row nominates":        {none, foreign, 0, "", true, store.Live, 3},
	} {
		t.Run(name, func(t *testing.T) {
			k := newDesk(t)
			k.next = 10
			k.put(c.known)
			claims := k.begin("a")
			claims.Floor = c.floor
			var d *Decision
			if c.row == none {
				d = k.absent(claims)
			} else {
				d = k.decideRow(claims, Row{ID: 7, Digest: stateB, Deleted: c.row != there, Silent: c.row == silent})
			}
			if d.News != (c.op != "") || d.News && d.Op != c.op || d.Nominate != c.nominate || d.Known != c.known {
				t.Fatalf("%+v", d)
			}
			want := store.Entry{State: c.after, Shard: c.known.Shard, Row: c.id, Event: c.known.Event}
			if d.News {
				d.Publish(eventB)
				want.Event = eventB
			}
			if !c.nominate && c.after != store.Unknown {
				want.Shard = "a"
			}
			k.acknowledge(claims)
			e := k.stored()
			if e.State != want.State || e.Row != want.Row || e.Event != want.Event || e.Shard != want.Shard || d.News && (e.Disputed || e.At.Offset != 10 || e.Seq != 11) {
				t.Errorf("%+v\nwant %+v", e, want)
			}
			if c.row == none && d.News && (!e.Since.Equal(noon.Truncate(time.Second)) || d.ID != c.known.Row) {
				t.Errorf("it is gone since %s, by row %d", e.Since, d.ID)
			}
			if len(k.records) > 0 || k.begun["a"] != nil {
				t.Error("claims are left")
			}
		})
	}
}

func TestChoose(t *testing.T) {
	entry := in("a", 7, store.Live, stateA)
	found := func(shard string, row uint64, digest [16]byte) Found {
		return Found{Shard: shard, Row: row, Digest: digest}
	}
	modified := func(f Found, s int64) Found { f.Modified = time.Unix(s, 0); return f }
	deleted := func(f Found) Found { f.Deleted = true; return f }
	for name, c := range map[string]struct {
		entry  store.Entry
		found  []Found
		proved bool
		what   outcome
		row    int
	}{
		"what the entry says is there":                      {entry, []Found{found("a", 7, stateA)}, true, nothing, 0},
		"what the entry says, disputed":                     {disputed(entry), []Found{found("a", 7, stateA)}, true, publish, 0},
		"another state":                                     {entry, []Found{found("a", 7, stateB)}, true, publish, 0},
		"another row":                                       {entry, []Found{found("a", 8, stateA)}, true, publish, 0},
		"another shard":                                     {entry, []Found{found("b", 1, stateA)}, true, publish, 0},
		"a tombstone":                                       {entry, []Found{deleted(found("a", 7, stateA))}, true, publish, 0},
		"nothing is known":                                  {store.Entry{}, []Found{found("b", 1, stateA)}, true, publish, 0},
		"no row, in one snapshot":                           {entry, nil, true, absent, -1},
		"no row, in a first round":                          {entry, nil, false, again, -1},
		"no row of a tombstone":                             {in("a", 7, store.Tombstone, [16]byte{}), nil, true, absent, -1},
		"no row of what is absent":                          {gone(entry), nil, true, nothing, -1},
		"no row of what is absent and disputed":             {disputed(gone(entry)), nil, true, absent, -1},
		"no row of what is not known":                       {store.Entry{}, nil, true, nothing, -1},
		"two rows: the later MODIFIED":                      {entry, []Found{modified(found("a", 7, stateA), 5), modified(found("b", 1, stateB), 6)}, true, publish, 1},
		"two rows: the later MODIFIED is that of a delete":  {entry, []Found{modified(found("a", 7, stateA), 5), modified(deleted(found("b", 1, stateB)), 6)}, true, publish, 1},
		"two rows with one MODIFIED: that of the entry":     {entry, []Found{modified(found("b", 1, stateB), 5), modified(found("a", 7, stateA), 5)}, true, nothing, 1},
		"two rows, one without MODIFIED: that of the entry": {entry, []Found{modified(found("b", 1, stateB), 5), found("a", 7, stateA)}, true, nothing, 1},
		"two rows, one of them deleted: the other":          {entry, []Found{deleted(found("a", 7, stateA)), found("b", 1, stateB)}, true, publish, 1},
		"two rows in neither shard of the entry":            {entry, []Found{found("c", 1, stateA), found("b", 9, stateB)}, true, publish, 1},
		"two rows of one shard: the higher":                 {entry, []Found{found("a", 9, stateB), found("a", 7, stateA)}, true, publish, 0},
	} {
		t.Run(name, func(t *testing.T) {
			if what, row := choose(&c.entry, c.found, c.proved); what != c.what || row != c.row {
				t.Errorf("%v of row %d", what, row)
			}
			// The order in which tables are read does not matter.
			if n := len(c.found); n == 2 {
				if what, row := choose(&c.entry, []Found{c.found[1], c.found[0]}, c.proved); what != c.what || row != 1-c.row {
					t.Errorf("the other way round: %v of row %d", what, row)
				}
			}
		})
	}
}

// TestAStaleRow: it deletes nothing by itself, as a reconcile has a guard for that. The
// delete of one that is gone is confirmed where the bus may have lost it.
func TestAStaleRow(t *testing.T) {
	for _, state := range []store.EntryState{store.Unknown, store.Live, store.Recorded, store.Tombstone, store.Absent} {
		for _, disputed := range []bool{false, true} {
			k := newDesk(t)
			entry := store.Entry{Shard: "a", Row: 7, State: state, Disputed: disputed, Event: eventA}
			if state == store.Live {
				entry.Digest = stateA
			}
			k.put(entry)
			claims := k.begin("a")
			d := k.decideRow(claims, Row{ID: 7, Digest: stateB, Deleted: true, Silent: true, Stale: true})
			gone := state == store.Tombstone || state == store.Absent
			if d.News || d.Nominate != (disputed && gone) || !claims.Empty() {
				t.Errorf("state %v, disputed %t: news %t, nominates %t", state, disputed, d.News, d.Nominate)
			}
		}
	}
}
