package stream

import (
	"context"
	"testing"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/checkpoint/store/storetest/memory"
	"example.org/bridge/event"
	"example.org/bridge/sink"
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

// put has the store hold an entry of the entity x.
func (k *desk) put(e store.Entry) {
	k.t.Helper()
	if e.State == store.Unknown {
		return
	}
	if err := k.commit([]store.Change{{Entity: []byte("x"), Entry: e}}); err != nil {
		k.t.Fatal(err)
	}
}

func (k *desk) commit(changes []store.Change) error {
	return k.store.Apply(context.Background(), &store.Batch{Views: []store.ViewChange{{Stream: "s", Changes: changes}}})
}

func (k *desk) begin(shard string) *Claims {
	c := k.Begin(shard)
	c.Time = noon
	return c
}

// decide decides about a row of x.
func (k *desk) decide(c *Claims, id uint64, digest [16]byte) *Decision {
	k.t.Helper()
	return k.decideRow(c, Row{ID: id, Digest: digest})
}

func (k *desk) decideRow(c *Claims, row Row) *Decision {
	k.t.Helper()
	row.Entity = []byte("x")
	list, err := k.Decide(k.t.Context(), c, []Row{row}, nil, nil)
	if err != nil {
		k.t.Fatal(err)
	}
	return &list[0]
}

func (k *desk) absent(c *Claims) *Decision {
	k.t.Helper()
	list, err := k.Absent(k.t.Context(), c, [][]byte{[]byte("x")}, nil)
	if err != nil {
		k.t.Fatal(err)
	}
	return &list[0]
}

func (k *desk) acknowledge(c *Claims) {
	k.t.Helper()
	if err := k.Apply(k.t.Context(), k.facts(c), nil, c, k.commit); err != nil {
		k.t.Fatal(err)
	}
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

// stored returns what the store has of x.
func (k *desk) stored() store.Entry {
	k.t.Helper()
	e, err := k.Lookup(k.t.Context(), "a", [][]byte{[]byte("x")}, nil)
	if err != nil {
		k.t.Fatal(err)
	}
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

// rowState says whether a row is there, deleted, or deleted by the condition of its stream.
type rowState int

const (
	there rowState = iota
	dead
	silent
)

// TestDecide decides about row 7 of shard a, in the state B.
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
	} {
		t.Run(name, func(t *testing.T) {
			k := newDesk(t)
			k.next = 10
			k.put(c.known)
			claims := k.begin("a")
			claims.Floor = c.floor
			d := k.decideRow(claims, Row{ID: 7, Digest: stateB, Deleted: c.row != there, Silent: c.row == silent})
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
			if len(k.records) > 0 || k.begun["a"] != nil {
				t.Error("claims are left")
			}
		})
	}
}

func TestAbsent(t *testing.T) {
	for name, c := range map[string]struct {
		known          store.Entry
		news, nominate bool
		after          store.EntryState
	}{
		"what lives is deleted":                             {in("a", 7, store.Live, stateA), true, false, store.Absent},
		"what was recorded is deleted":                      {store.Entry{Shard: "a", Row: 7, State: store.Recorded, Digest: stateA}, true, false, store.Absent},
		"a tombstone without a row changes the store alone": {in("a", 7, store.Tombstone, [16]byte{}), false, false, store.Absent},
		"a disputed tombstone is deleted":                   {disputed(in("a", 7, store.Tombstone, [16]byte{})), true, false, store.Absent},
		"what is absent is not news":                        {gone(in("a", 7, store.Live, stateA)), false, false, store.Absent},
		"what is absent and disputed is deleted":            {disputed(gone(in("a", 7, store.Live, stateA))), true, false, store.Absent},
		"what is not known is not news":                     {store.Entry{}, false, false, store.Unknown},
		"an entity of another shard nominates":              {in("b", 7, store.Live, stateA), false, true, store.Live},
	} {
		t.Run(name, func(t *testing.T) {
			k := newDesk(t)
			k.next = 10
			k.put(c.known)
			claims := k.begin("a")
			d := k.absent(claims)
			if d.News != c.news || d.Nominate != c.nominate || d.ID != c.known.Row && !c.nominate {
				t.Fatalf("%+v", d)
			}
			if d.News {
				d.Publish(eventB)
			}
			k.acknowledge(claims)
			if e := k.stored(); e.State != c.after || d.News && (e.Event != eventB || !e.Since.Equal(noon.Truncate(time.Second)) || e.Disputed) {
				t.Errorf("%+v", e)
			}
		})
	}
}
