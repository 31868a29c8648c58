package stream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/checkpoint/store/storetest/memory"
	"example.org/bridge/tests/must"
)

// scripted is a toy world in which nothing happens by itself.
type scripted struct {
	*toyWorld
	t    *testing.T
	a, b *toyOwner
}

func newScripted(t *testing.T) *scripted {
	w := newToyWorld(1)
	w.keys, w.typed = 1, false
	return &scripted{w, t, w.owners[0], w.owners[1]}
}

// says returns the states of the key on the bus, in their order.
func (s *scripted) says() (states []int) {
	for _, m := range s.bus[0] {
		states = append(states, m.state)
	}
	return states
}

func (s *scripted) expect(want ...int) {
	s.t.Helper()
	s.idle(s.t.Context())
	if s.compare(); len(s.faults) > 0 {
		s.t.Fatal(s.faults)
	}
	if got := s.says(); !slices.Equal(got, want) {
		s.t.Errorf("the bus says %v, want %v", got, want)
	}
}

const (
	active = 1
	moved  = 2
)

// TestTwoRowsOfAKeyDoNotAlternate polls both rows again and again.
func TestTwoRowsOfAKeyDoNotAlternate(t *testing.T) {
	s := newScripted(t)
	reads := 0
	s.movers.opts.Read = func(_ context.Context, _ string, entities [][]byte) (FoundRows, error) {
		reads++
		return s.readKeys(entities, true), nil
	}
	s.a.table[1], s.a.notices[1] = toyRow{state: active}, true
	s.idle(t.Context())
	s.b.table[1] = toyRow{state: moved}
	for range 5 {
		s.a.notices[1], s.b.notices[1] = true, true
		s.idle(t.Context())
	}
	if got := s.says(); !slices.Equal(got, []int{active}) || reads > 2 || s.movers.Duplicates() == 0 {
		t.Fatalf("the bus says %v after %d reads, %d times two rows", got, reads, s.movers.Duplicates())
	}
	// What lost wins once the other row is gone.
	delete(s.a.table, 1)
	s.movers.Nominate("", toyKey(0))
	s.expect(active, moved)
}

// TestANominationBetweenTheLookAndTheMove: the entity was looked up before what is nominated, so it
// is read again.
func TestANominationBetweenTheLookAndTheMove(t *testing.T) {
	var m *Movers
	kept := &lookedStore{Store: memory.New(), look: func() error { m.Nominate("a", []byte("x")); return nil }}
	v := NewView("s", kept, func(tp uint32) uint32 { return tp })
	reads, now := 0, noon
	m = NewMovers(v, MoversOptions{Now: func() time.Time { return now }, Read: func(context.Context, string, [][]byte) (FoundRows, error) {
		reads++
		kept.look = func() error { return nil }
		return FoundRows{Rows: [][]Found{{{Shard: "a", Row: 7, Digest: stateA}}}, Snapshot: true}, nil
	}})
	changes := []store.Change{{Entity: []byte("x"), Entry: in("a", 7, store.Live, stateA)}}
	must.OK(t, kept.Apply(t.Context(), &store.Batch{Views: []store.ViewChange{{Stream: "s", Changes: changes}}}))
	for m.Nominate("a", []byte("x")); m.Waiting() > 0; now = now.Add(time.Minute) {
		_, _, err := m.Pass(t.Context())
		must.OK(t, err)
	}
	if reads != 2 {
		t.Errorf("it is read %d times, want twice", reads)
	}
}

type lookedStore struct {
	store.Store
	look func() error
}

func (s *lookedStore) Lookup(ctx context.Context, stream string, asks []store.Ask, dst []store.Entry) ([]store.Entry, error) {
	if err := s.look(); err != nil {
		return nil, err
	}
	return s.Store.Lookup(ctx, stream, asks, dst)
}

// TestADecisionAmongEndlessChanges has others change an entity at each of its lookups.
func TestADecisionAmongEndlessChanges(t *testing.T) {
	kept := &lookedStore{Store: memory.New()}
	v := NewView("s", kept, func(tp uint32) uint32 { return tp })
	kept.look = func() error { v.count(v.hash([]byte("x"))).Add(1); return nil }
	decided, err := v.Decide(t.Context(), v.Begin("a"), []Row{{ID: 7, Entity: []byte("x"), Digest: stateA}}, nil, nil)
	if err != nil || !decided[0].News {
		t.Errorf("%+v, %v", decided, err)
	}
}

// TestMoversDoesNotSpin lets all that can fail fail for an hour.
func TestMoversDoesNotSpin(t *testing.T) {
	down := errors.New("the table is away")
	for name, fails := range map[string]string{"reads fail": "read", "owners do not run": "publish", "owners find nothing": "", "a batch claims it": "claim", "lookups fail": "lookup"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				kept := store.Store(memory.New())
				if fails == "lookup" {
					kept = &lookedStore{kept, func() error { return down }}
				}
				v := NewView("s", kept, func(tp uint32) uint32 { return tp })
				reads := 0
				m := NewMovers(v, MoversOptions{
					Shards: []string{"a"},
					Read: func(_ context.Context, _ string, entities [][]byte) (FoundRows, error) {
						if reads++; fails == "read" {
							return FoundRows{}, down
						}
						return FoundRows{Rows: [][]Found{{{Shard: "a", Row: 1}}}, Snapshot: true}, nil
					},
					Publish: func(_ context.Context, shard string, moves []Move) error {
						if fails == "publish" {
							return down
						}
						c := v.Begin(shard)
						c.Permit(moves)
						v.Release(c)
						return nil
					},
				})
				if fails == "claim" {
					c := v.Begin("a")
					must.Get(v.Decide(t.Context(), c, []Row{{ID: 1, Entity: []byte("x")}}, nil, nil))(t)
				}
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error)
				go func() { done <- m.Run(ctx, func(error) {}) }()
				m.Nominate("a", []byte("x"))
				time.Sleep(time.Hour)
				cancel()
				if err := <-done; err != nil {
					t.Error(err)
				}
				if reads > 800 || m.Waiting() != 1 || (reads == 0) != (fails == "claim" || fails == "lookup") {
					t.Errorf("%d reads in an hour, %d wait", reads, m.Waiting())
				}
			})
		})
	}
}

// absenceMovers returns Movers of a desk's tables a and b, of which neither has a row. What they
// hand over goes to publish.
func (k *desk) absenceMovers(unproved *bool, publish func(moves []Move)) *Movers {
	return NewMovers(k.View, MoversOptions{
		Shards: []string{"a", "b"},
		Read: func(context.Context, string, [][]byte) (FoundRows, error) {
			return FoundRows{Rows: make([][]Found, 1), Unproved: *unproved}, nil
		},
		Publish: func(_ context.Context, _ string, moves []Move) error {
			publish(moves)
			return nil
		},
	})
}

func nominate(t *testing.T, m *Movers) (done <-chan struct{}) {
	t.Helper()
	done = m.Nominate("a", []byte("x"))
	if _, _, err := m.Pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	return done
}

func TestAnAbsenceOfAShardThatIsGoneBelongsToTheFirst(t *testing.T) {
	k, unproved := newDesk(t), true
	k.put(in("old", 7, store.Live, stateA))
	var handed []Move
	m := k.absenceMovers(&unproved, func(moves []Move) { handed = append(handed, moves...) })
	if nominate(t, m); len(handed) > 0 || m.Waiting() > 0 {
		t.Fatalf("an absence that is not proved: %+v", handed)
	}
	unproved = false
	done := nominate(t, m)
	if len(handed) != 1 || handed[0].Shard != "a" || !handed[0].Absent {
		t.Fatalf("%+v", handed)
	}
	c := k.begin("a")
	c.Permit(handed)
	d := k.absent(c)
	if !d.News {
		t.Fatalf("%+v", d)
	}
	d.Publish(eventB)
	k.next = 10
	k.acknowledge(c)
	select {
	case <-done:
		t.Error("a delete is done before it was confirmed")
	default:
	}
	m.opts.Now = func() time.Time { return time.Now().Add(time.Hour) }
	if _, _, err := m.Pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-done
	if e := k.stored(); e.State != store.Absent || e.Shard != "a" {
		t.Fatalf("%+v", e)
	}
}

// TestStaleAbsence: an absence that was proved before the attempt of its owner ended is not
// published by the next one, which has no permission.
func TestStaleAbsence(t *testing.T) {
	k := newDesk(t)
	k.put(in("a", 1, store.Live, stateA))
	var handed []Move
	nominate(t, k.absenceMovers(new(bool), func(moves []Move) {
		// While this waited for another shard, the attempt of a has ended, and the next begun.
		k.Stop("a")
		handed = moves
	}))
	// Now x is inserted into b. The owner of a goes on with what it was handed.
	c := k.begin("a")
	if len(c.Permit(handed)) == 0 {
		return // the caller leaves it to Movers
	}
	if d := k.absent(c); d.News {
		t.Errorf("it publishes that x is gone, which nobody has proved since: %+v", d)
	}
}

func TestMoversReadsATableAtATimeWhereEntitiesBelongToTheirTable(t *testing.T) {
	v := NewViewByTable("s", memory.New(), func(tp uint32) uint32 { return tp })
	var shards []string
	m := NewMovers(v, MoversOptions{Read: func(_ context.Context, shard string, entities [][]byte) (FoundRows, error) {
		shards = append(shards, fmt.Sprint(shard, len(entities)))
		return FoundRows{Rows: make([][]Found, len(entities)), Snapshot: true}, nil
	}})
	m.Nominate("a", []byte("x"))
	m.Nominate("b", []byte("x"))
	for m.Waiting() > 0 {
		if _, _, err := m.Pass(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(shards, []string{"a1", "b1"}) {
		t.Errorf("%v", shards)
	}
}

// TestTwoRowsOfATableDoNotAlternate is about a KEY that is not unique.
func TestTwoRowsOfATableDoNotAlternate(t *testing.T) {
	s := newScripted(t)
	s.movers.opts.Read = func(_ context.Context, _ string, entities [][]byte) (FoundRows, error) {
		reading := s.readKeys(entities, true)
		for i := range reading.Rows[0] {
			// The lower id was modified later.
			f := &reading.Rows[0][i]
			f.Modified = noon.Add(-time.Duration(f.Row) * time.Second)
		}
		return reading, nil
	}
	s.a.table[1], s.a.table[2], s.a.last = toyRow{state: moved}, toyRow{state: active}, 2
	for range 5 {
		s.a.notices[1], s.a.notices[2] = true, true
		s.idle(t.Context())
	}
	if got := s.says(); !slices.Equal(got, []int{moved, active, moved}) {
		t.Errorf("the bus says %v", got)
	}
}
