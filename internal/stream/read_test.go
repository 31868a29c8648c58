package stream

import (
	"slices"
	"testing"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/checkpoint/store/storetest/memory"
	"example.org/bridge/sink"
)

func message(shard string, offset, seq uint64, digest, id [16]byte) Message {
	return Message{
		Key: []byte("x"), State: sink.State{Epoch: 7, Seq: seq, Digest: digest}, Shard: shard, Row: 7, Event: id,
		At: store.At{TP: 1, Offset: offset}, Time: noon,
	}
}

func (k *desk) read(messages ...Message) {
	k.t.Helper()
	if err := k.apply(messages, k.commit); err != nil {
		k.t.Fatal(err)
	}
}

func (k *desk) apply(messages []Message, commit func([]store.Change) error) error {
	p, err := k.prepareFacts(k.t.Context(), messages)
	if err != nil {
		return err
	}
	return k.Apply(k.t.Context(), messages, p, nil, commit)
}

func TestARegistrationThatIsNotInForceDisputes(t *testing.T) {
	k := newDesk(t)
	k.put(in("a", 7, store.Live, stateA))
	k.inForce = func(tp uint32) uint32 { return max(tp, 5) }
	if e := k.stored(); !e.Disputed || e.At != (store.At{TP: 5, Offset: store.BeforeFirst}) {
		t.Fatalf("%+v", e)
	}
	c := k.begin("a")
	d := k.decide(c, 7, stateA)
	if !d.News || !d.Known.Disputed {
		t.Fatalf("%+v", d)
	}
	d.Publish(eventB)
	k.tp = 5
	k.next = 20
	k.acknowledge(c)
	if e := k.stored(); e.Disputed || e.Event != eventB {
		t.Fatalf("%+v", e)
	}
	confirms := message("a", 0, 21, stateA, eventB)
	confirms.At.TP = 6
	k.inForce = func(uint32) uint32 { return 6 }
	k.read(confirms)
	if e := k.stored(); e.Disputed || e.At.TP != 6 {
		t.Fatalf("the same stamp does not confirm: %+v", e)
	}
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
		list, err := k.ByRow(t.Context(), shard, 0, 10, nil)
		if err != nil {
			t.Fatal(err)
		}
		names := []string{}
		for _, c := range list {
			names = append(names, string(c.Entity))
		}
		if slices.Sort(names); !slices.Equal(names, []string{"", "x"}) {
			t.Errorf("%s has %q", shard, names)
		}
	}
}
