package buscopy_test

import (
	"testing"
	"testing/synctest"

	"example.org/bridge/internal/buscopy"
	"example.org/bridge/internal/share"
)

// joined returns a process that has joined a generation.
func joined(t *testing.T, f *fleet, of share.Share) *buscopy.Generations {
	t.Helper()
	g := buscopy.NewGenerations(buscopy.GenerationsOptions{Bucket: f.bucket, Domain: "d", Share: of, Host: "h"})
	if err := g.Join(t.Context()); err != nil {
		t.Fatal(err)
	}
	return g
}

// TestAlone: a process is alone unless another one of its share has entered since it began, or one
// before it with a higher epoch, or another number of shares is proposed.
func TestAlone(t *testing.T) {
	t.Parallel()
	scene := func(name string, do func(t *testing.T, f *fleet, process func(index int) *buscopy.Generations)) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t)
				do(t, f, func(index int) *buscopy.Generations {
					return joined(t, f, share.Share{Index: index, Number: 2})
				})
			})
		})
	}
	former := func(t *testing.T, turn bool, all ...*buscopy.Generations) {
		t.Helper()
		for _, g := range all {
			if err := g.ReadFormer(t.Context(), turn); err != nil {
				t.Fatal(err)
			}
		}
	}
	enter := func(t *testing.T, g *buscopy.Generations, epoch uint64) {
		t.Helper()
		if err := g.Enter(t.Context(), epoch); err != nil {
			t.Fatal(err)
		}
	}
	want := func(t *testing.T, g *buscopy.Generations, want bool) {
		t.Helper()
		if alone, err := g.Alone(t.Context()); err != nil || alone != want {
			t.Errorf("alone: %v (%v), want %v", alone, err, want)
		}
	}
	scene("behind a former one, which is not", func(t *testing.T, _ *fleet, process func(int) *buscopy.Generations) {
		first, peer := process(0), process(1)
		former(t, false, first, peer)
		enter(t, peer, 99)
		want(t, first, false)
		enter(t, first, 5)
		want(t, first, true)
		later := process(0)
		former(t, false, later)
		enter(t, later, 6)
		want(t, first, false)
		want(t, later, true)
		want(t, peer, true)
		// Of another stream.
		former(t, false, later)
		third := process(0)
		former(t, false, third)
		enter(t, third, 7)
		want(t, later, false)
		want(t, third, true)
	})
	scene("neither of two that begin at the same time", func(t *testing.T, _ *fleet, process func(int) *buscopy.Generations) {
		one, two := process(0), process(0)
		former(t, false, one, two)
		enter(t, one, 5)
		former(t, false, two)
		enter(t, two, 6)
		want(t, one, false)
		want(t, two, false)
	})
	scene("nor of two that have one epoch", func(t *testing.T, _ *fleet, process func(int) *buscopy.Generations) {
		one, two := process(0), process(0)
		former(t, false, one, two)
		enter(t, one, 8)
		enter(t, two, 8)
		want(t, one, false)
		want(t, two, false)
	})
	scene("not behind one whose epoch is higher", func(t *testing.T, _ *fleet, process func(int) *buscopy.Generations) {
		first, later := process(0), process(0)
		former(t, false, first)
		enter(t, first, 9)
		former(t, false, later)
		enter(t, later, 6)
		want(t, later, false)
	})
	scene("one that is elected knows who had entered by then", func(t *testing.T, _ *fleet, process func(int) *buscopy.Generations) {
		waits, works := process(0), process(0)
		former(t, false, waits, works)
		enter(t, works, 5)
		former(t, true, waits)
		enter(t, waits, 6)
		want(t, waits, true)
		want(t, works, false)
	})
	scene("one that is elected behind one that another one had followed", func(t *testing.T, _ *fleet, process func(int) *buscopy.Generations) {
		waits, first, second := process(0), process(0), process(0)
		former(t, false, waits)
		former(t, true, first)
		enter(t, first, 2)
		if err := waits.Permit(t.Context()); err != nil {
			t.Fatal(err)
		}
		former(t, true, second)
		enter(t, second, 4)
		former(t, true, waits)
		enter(t, waits, 6)
		want(t, waits, true)
		want(t, second, false)
	})
	scene("a process without shares leaves nothing", func(t *testing.T, f *fleet, process func(int) *buscopy.Generations) {
		process(0).Leave()
		before := f.bucket.Puts()
		none := joined(t, f, share.Share{})
		proposed := f.bucket.Puts()
		enter(t, none, 7)
		if puts := f.bucket.Puts(); none.Joined() == 0 || proposed == before || puts != proposed {
			t.Errorf("it has joined generation %d, and puts %d entries where it enters", none.Joined(), puts-proposed)
		}
	})
	scene("not by a former number", func(t *testing.T, f *fleet, process func(int) *buscopy.Generations) {
		g := process(0)
		former(t, false, g)
		enter(t, g, 5)
		if err := f.bucket.Put(t.Context(), "d.-shares.n2.3.token", nil); err != nil {
			t.Fatal(err)
		}
		want(t, g, false)
	})
}
