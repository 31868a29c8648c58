package stream

import (
	"crypto/md5"
	"errors"
	"fmt"
	"slices"
	"testing"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/checkpoint/store/storetest/memory"
	"example.org/bridge/event"
	"example.org/bridge/internal/panics"
	"example.org/bridge/sink"
	"example.org/bridge/tests/must"
)

func TestClaims(t *testing.T) {
	t.Run("a row is decided about behind the one before of its batch", func(t *testing.T) {
		k := newDesk(t)
		c := k.begin("a")
		k.decide(c, 7, stateA).Publish(eventA)
		if d := k.decide(c, 7, stateA); d.News || d.Known.Event != eventA {
			t.Fatalf("the same state is news: %+v", d)
		}
		d := k.decide(c, 7, stateB)
		if !d.News || d.Op != event.Modified || d.Previous() != eventA {
			t.Fatalf("%+v", d)
		}
		d.Publish(eventB)
		k.acknowledge(c)
		if e := k.stored(); e.Event != eventB || e.Digest != stateB {
			t.Fatalf("%+v", e)
		}
	})
	t.Run("a shard has one batch at a time", func(t *testing.T) {
		k := newDesk(t)
		k.begin("a")
		k.begin("b")
		defer func() {
			if recover() == nil {
				t.Error("a second one begins")
			}
		}()
		k.begin("a")
	})
	t.Run("what is released is as before", func(t *testing.T) {
		k := newDesk(t)
		k.put(in("a", 7, store.Live, stateA))
		first := k.begin("a")
		k.decide(first, 7, stateB).Publish(eventB)
		k.Release(first)
		second := k.begin("a")
		if d := k.decide(second, 7, stateB); !d.News || d.Known.Event != eventA {
			t.Fatalf("%+v", d)
		}
	})
	t.Run("a commit that fails changes nothing and is tried again", func(t *testing.T) {
		k, full := newDesk(t), errors.New("the disk is full")
		c := k.begin("a")
		k.decide(c, 7, stateA).Publish(eventA)
		if err := k.Apply(t.Context(), k.facts(c), nil, c, func([]store.Change) error { return full }); !errors.Is(err, full) || k.stored() != (store.Entry{}) {
			t.Fatalf("%v, %+v", err, k.stored())
		}
		k.acknowledge(c)
		if e := k.stored(); e.Event != eventA {
			t.Fatalf("%+v", e)
		}
	})
	t.Run("a commit that panics changes nothing, and the message is stored when it is read again", func(t *testing.T) {
		k := newDesk(t)
		c := k.begin("a")
		k.decide(c, 7, stateA).Publish(eventA)
		err := panics.Guard(func() error {
			return k.Apply(t.Context(), k.facts(c), nil, c, func([]store.Change) error { panic("a defect") })
		})
		k.Release(c)
		if !panics.Is(err) || len(k.records) > 0 {
			t.Errorf("%d records, %v", len(k.records), err)
		}
		k.read(message("a", 1, 1, stateA, eventA))
		if e := k.stored(); e.Event != eventA {
			t.Errorf("%+v", e)
		}
	})
	t.Run("an entity whose last event is disputed is news once, if that is still the last one", func(t *testing.T) {
		k := newDesk(t)
		k.next = 10
		k.put(in("a", 7, store.Live, stateA))
		dispute := func(last [16]byte) {
			c := k.begin("a")
			must.OK(t, c.Dispute(t.Context(), [][]byte{[]byte("x")}, map[string][16]byte{"x": last}))
			k.acknowledge(c)
		}
		dispute(eventB)
		if c := k.begin("a"); k.decide(c, 7, stateA).News {
			t.Fatal("another event is disputed")
		} else {
			k.Release(c)
		}
		dispute(eventA)
		c := k.begin("a")
		d := k.decide(c, 7, stateA)
		if !d.News || d.Op != event.Modified || d.Known.Event != eventA {
			t.Fatalf("%+v", d)
		}
		d.Publish(d.Known.Event)
		k.acknowledge(c)
		if e := k.stored(); e.Event != eventA || e.At.Offset != 10 || e.Seq != 11 || e.Disputed {
			t.Fatalf("%+v", e)
		}
	})
}

func message(shard string, offset, seq uint64, digest, id [16]byte) Message {
	return Message{
		Key: []byte("x"), State: sink.State{Epoch: 7, Seq: seq, Digest: digest}, Shard: shard, Row: 7, Event: id,
		At: store.At{TP: 1, Offset: offset}, Time: noon,
	}
}

func (k *desk) read(messages ...Message) {
	k.t.Helper()
	must.OK(k.t, k.apply(messages, k.commit))
}

func (k *desk) apply(messages []Message, commit func([]store.Change) error) error {
	p, err := k.prepareFacts(k.t.Context(), messages)
	if err != nil {
		return err
	}
	return k.Apply(k.t.Context(), messages, p, nil, commit)
}

func TestADuplicateIsTheLastMessageOrSentAgain(t *testing.T) {
	for name, c := range map[string]struct {
		known store.Entry
		there Message
		last  bool
	}{
		"it is behind the last one":           {in("a", 7, store.Live, stateA), message("a", 4, 4, stateB, eventB), true},
		"it lies before the last one":         {in("a", 7, store.Live, stateA), message("a", 2, 2, stateB, eventB), false},
		"it is older, and would be disputed":  {in("a", 7, store.Live, stateA), message("a", 4, 2, stateB, eventB), false},
		"nothing is known of the entity else": {store.Entry{}, message("a", 4, 4, stateB, eventB), true},
	} {
		t.Run(name, func(t *testing.T) {
			k := newDesk(t)
			k.put(c.known)
			claims := k.begin("a")
			k.decide(claims, 7, stateB).Publish(eventB)
			if got := k.IsLast("a", []byte("x"), &c.there); got != c.last {
				t.Errorf("%v", got)
			}
		})
	}
}

func TestEntitiesOfTheirTable(t *testing.T) {
	s := memory.New()
	k := &desk{View: NewViewByTable("s", s, func(tp uint32) uint32 { return tp }), t: t, tp: 1}
	for _, shard := range []string{"a", "b"} {
		c := k.begin(shard)
		rows := []Row{{ID: 1, Entity: []byte("x"), Digest: stateA}, {ID: 2, Digest: stateA}}
		list, err := k.Decide(t.Context(), c, rows, nil, nil)
		if err != nil || !list[0].News || !list[1].News {
			t.Fatalf("%s: %+v, %v", shard, list, err)
		}
		list[0].Publish(eventA)
		list[1].Publish(eventB)
		k.acknowledge(c)
	}
	k.read(message("b", 90, 90, stateB, eventB))
	for shard, digest := range map[string][16]byte{"a": stateA, "b": stateB} {
		e, err := k.Lookup(t.Context(), shard, [][]byte{[]byte("x"), nil}, nil)
		if err != nil || e[0].Digest != digest || e[0].Shard != shard || e[1].Event != eventB {
			t.Errorf("%s: %+v, %v", shard, e, err)
		}
		list := must.Get(k.ByRow(t.Context(), shard, 0, 10, nil))(t)
		names := []string{}
		for _, c := range list {
			names = append(names, string(c.Entity))
		}
		if slices.Sort(names); !slices.Equal(names, []string{"", "x"}) {
			t.Errorf("%s has %q", shard, names)
		}
	}
}

// publish publishes what was decided about x, under an id of all that a meta.id is made of, and
// returns the id and the message.
func (k *desk) publish(c *Claims, d *Decision) ([16]byte, []Message) {
	k.t.Helper()
	id := md5.Sum(fmt.Append(nil, c.shard, d.Entity, d.ID, d.Op, d.Digest, d.Previous()))
	d.Publish(id)
	facts := k.facts(c)
	must.OK(k.t, k.Apply(k.t.Context(), facts, nil, c, k.commit))
	return id, facts
}

// TestAnEventThatTheBusForgot: x is added, perhaps modified, and hidden by the condition. Where
// compaction has removed these events, a later process with an older checkpoint, or none, publishes
// the same fact under the same id. Where they are read, no id comes again.
func TestAnEventThatTheBusForgot(t *testing.T) {
	for name, c := range map[string]struct {
		// copied: the store is a copy from when x was added, else empty. read: the bus has the
		// events. modified: x was modified. shown: the row matches the condition again.
		copied, read, modified, shown bool
		// news is whether something is published, again whether its id is that of a former event.
		news, again bool
	}{
		"a copy, forgotten, the row is hidden":           {copied: true, news: true, again: true},
		"a copy, forgotten, the row is back":             {copied: true, shown: true, news: true},
		"a copy, forgotten, the row is back as modified": {copied: true, modified: true, shown: true, news: true, again: true},
		"a copy, read, the row is back as modified":      {copied: true, read: true, modified: true, shown: true, news: true},
		"a copy, read, the row is hidden":                {copied: true, read: true},
		"a copy, read, the row is back":                  {copied: true, read: true, shown: true, news: true},
		"no store, forgotten, hidden":                    {},
		"no store, forgotten, the row is back":           {shown: true, news: true, again: true},
		"no store, read, the row is hidden":              {read: true},
		"no store, read, the row is back":                {read: true, shown: true, news: true},
	} {
		t.Run(name, func(t *testing.T) {
			shown, hidden := Row{ID: 7, Digest: stateA}, Row{ID: 7, Deleted: true, Silent: true}
			former := newDesk(t)
			claims := former.begin("a")
			id, facts := former.publish(claims, former.decideRow(claims, shown))
			copied, published := former.stored(), map[[16]byte]bool{id: true}
			rows := []Row{hidden}
			if c.modified {
				shown.Digest = stateB
				rows = []Row{shown, hidden}
			}
			for _, row := range rows {
				claims = former.begin("a")
				id, more := former.publish(claims, former.decideRow(claims, row))
				published[id], facts = true, append(facts, more...)
			}

			// The topic was registered again, to be read from its beginning.
			k := &desk{View: NewView("s", memory.New(), func(uint32) uint32 { return 2 }), t: t, tp: 2, next: 10}
			if c.copied {
				k.put(copied)
			}
			if c.read {
				for i := range facts {
					facts[i].At.TP = 2
				}
				p, err := k.prepareFacts(t.Context(), facts)
				if err == nil {
					err = k.Apply(t.Context(), facts, p, nil, k.commit)
				}
				must.OK(t, err)
			}
			row := hidden
			if c.shown {
				row = shown
			}
			claims = k.begin("a")
			d := k.decideRow(claims, row)
			if d.News != c.news {
				t.Fatalf("%+v", d)
			}
			if !d.News {
				return
			}
			if id, _ = k.publish(claims, d); published[id] != c.again {
				t.Errorf("%s behind %x, as before: %t", d.Op, d.Previous(), published[id])
			}
			if e := k.stored(); e.Disputed || e.State == store.Unknown {
				t.Errorf("%+v", e)
			}
		})
	}
}
