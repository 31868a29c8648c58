package stream

import (
	"errors"
	"testing"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/event"
	"example.org/bridge/internal/panics"
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
			if err := c.Dispute(t.Context(), [][]byte{[]byte("x")}, map[string][16]byte{"x": last}); err != nil {
				t.Fatal(err)
			}
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
