package bolt_test

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"bridge/checkpoint"
	"bridge/checkpoint/bolt"
	"bridge/checkpoint/checkpointtest"
	"bridge/source"
)

// openForViews opens a store that folds often, in small steps, so that kills come at all moments of a fold.
func openForViews(path string) (*bolt.Store, error) { return bolt.OpenFolding(path, 150, 25) }

// saveViewsForEver is saveForEver for states with views.
func saveViewsForEver(path string) error {
	s, err := openForViews(path)
	if err != nil {
		return err
	}
	return saveAllForEver(s, viewState)
}

// viewState is the n-th state of a crash test, with changes of the view, ids given up, and a journal.
func viewState(n int) checkpoint.State {
	s := checkpointtest.State(n)
	s.View = checkpointtest.RandomChanges(rand.New(rand.NewPCG(uint64(n), 3)), 1+n%40)
	first := uint64(n) * 10
	s.Given, s.Found = []source.Range{{First: first, Last: first + 5}}, []source.Range{{First: first + 3, Last: first + 3}}
	if n%3 > 0 {
		s.Journals = []*checkpoint.Journal{checkpointtest.Journal(n)}
	}
	return s
}

// viewAfter is the view that all states up to the n-th have made.
func viewAfter(n int) map[string]checkpoint.Known {
	view := make(map[string]checkpoint.Known)
	for i := range n + 1 {
		for _, c := range viewState(i).View {
			view[string(c.Entity)] = c.Known
		}
	}
	return view
}

// mustView fails the test unless the view of a shard is want, in which unknown entities may be.
func mustView(t *testing.T, s *bolt.Store, key checkpoint.Key, want map[string]checkpoint.Known) {
	t.Helper()
	names := slices.Sorted(maps.Keys(want))
	var entities [][]byte
	inRows := 0
	for _, name := range names {
		entities = append(entities, []byte(name))
		if fate := want[name].Fate; fate == checkpoint.Live || fate == checkpoint.Tombstone {
			inRows++
		}
	}
	known, err := s.Lookup(t.Context(), key, entities, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range names {
		if known[i] != want[name] {
			t.Fatalf("entity %s is known as\n%+v, want\n%+v", name, known[i], want[name])
		}
	}
	rows, err := s.ByRow(t.Context(), key, 0, len(names)+1, nil)
	if err != nil || len(rows) != inRows {
		t.Fatalf("by row there are %d entities, %v, want %d", len(rows), err, inRows)
	}
	for i, e := range rows {
		if k := want[string(e.Entity)]; k.Row != e.Row || k.State != e.State || k.Fate != e.Fate {
			t.Fatalf("by row entity %s is %+v, want %+v", e.Entity, e, k)
		}
		if i > 0 && (rows[i-1].Row > e.Row || rows[i-1].Row == e.Row && bytes.Compare(rows[i-1].Entity, e.Entity) >= 0) {
			t.Fatalf("entity %s in row %d comes after %s in row %d", e.Entity, e.Row, rows[i-1].Entity, rows[i-1].Row)
		}
	}
}

// TestKillDuringSavesOfViews kills a process that saves views and folds them, again and again on the same file.
func TestKillDuringSavesOfViews(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bridge.db")
	acked := [crashShards]int{-1, -1, -1, -1}
	folding := 0
	for round := range 15 {
		saveAndKill(t, "views", path, 1+rand.IntN(60), &acked)
		s, err := openForViews(path)
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		for shard, last := range acked {
			n := mustHoldAcknowledged(t, s, round, shard, last)
			acked[shard] = n
		}
		if entities, _ := s.Recent(); entities > 150 {
			folding++
		}
		mustClose(t, s)
	}
	t.Logf("%d of 15 kills came while there was something to fold", folding)
	if acked[0] < 10 || folding == 0 {
		t.Errorf("only %d saves were made and %d folds cut short, the test shows nothing", acked[0], folding)
	}
}

// mustHoldAcknowledged fails the test unless a shard has the last state that was acknowledged or the one behind it, whole, and returns which.
func mustHoldAcknowledged(t *testing.T, s *bolt.Store, round, shard, last int) (n int) {
	t.Helper()
	n = numberOf(s, crashKey(shard))
	if n < last || n > last+1 {
		t.Fatalf("round %d: shard %d has state %d, the last one acknowledged is %d", round, shard, n, last)
	}
	if n >= 0 {
		mustHoldWithView(t, s, shard, n)
	}
	return n
}

func mustHoldWithView(t *testing.T, s *bolt.Store, shard, n int) {
	t.Helper()
	key, want := crashKey(shard), viewState(n)
	want.View, want.Given, want.Found = nil, nil, nil
	if got, err := s.Load(t.Context(), key); err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("shard %d has a state that was not saved: %+v, %v", shard, got, err)
	}
	mustView(t, s, key, viewAfter(n))
	given, err := s.GivenUp(t.Context(), key, 0, 1<<30, nil)
	if err != nil || len(given) != 2*(n+1) || given[2*n+1] != (source.Range{First: uint64(n)*10 + 4, Last: uint64(n)*10 + 5}) {
		t.Fatalf("shard %d has %d ranges of given-up ids, %v, want %d", shard, len(given), err, 2*(n+1))
	}
}

// TestAFoldThatIsCutShort ends a fold after every one of its steps: what is read is the same, before and after, and once it is
// begun again nothing is left behind in the order of rows.
func TestAFoldThatIsCutShort(t *testing.T) {
	const saves = 16
	for cut := 0; ; cut++ {
		path := filepath.Join(t.TempDir(), "bridge.db")
		s, err := bolt.OpenFolding(path, 1<<20, 20)
		if err != nil {
			t.Fatal(err)
		}
		save := func(from, to int) {
			for n := from; n < to; n++ {
				if err := s.Save(t.Context(), key, viewState(n)); err != nil {
					t.Fatal(err)
				}
			}
		}
		save(0, saves)
		ended, err := s.FoldSteps(key, cut)
		if err != nil {
			t.Fatal(err)
		}
		mustView(t, s, key, viewAfter(saves-1))
		// What comes now is newer than the fold.
		save(saves, saves+3)
		mustView(t, s, key, viewAfter(saves+2))
		mustClose(t, s)
		if s, err = bolt.OpenFolding(path, 1<<20, 20); err != nil {
			t.Fatal(err)
		}
		mustView(t, s, key, viewAfter(saves+2))
		save(saves+3, saves+6)
		if done, err := s.FoldSteps(key, 1<<20); err != nil || !done {
			t.Fatalf("a fold that is begun again: %v, %v", done, err)
		}
		if entities, _ := s.Recent(); entities > 0 {
			t.Fatalf("%d entities are still recent", entities)
		}
		mustView(t, s, key, viewAfter(saves+5))
		mustAgree(t, s)
		mustClose(t, s)
		if ended {
			t.Logf("cut after each of %d steps", cut)
			return
		}
	}
}

// mustAgree fails the test unless the trees of all shards hold the same, in both orders.
func mustAgree(t *testing.T, s *bolt.Store) {
	t.Helper()
	inView, inRows, err := s.Trees()
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(inView, inRows) {
		t.Fatalf("the orders of entities and rows differ: %d and %d", len(inView), len(inRows))
	}
}

func TestWhatIsRecentIsBounded(t *testing.T) {
	s, err := bolt.OpenFolding(filepath.Join(t.TempDir(), "bridge.db"), 500, 40)
	if err != nil {
		t.Fatal(err)
	}
	defer mustClose(t, s)
	most, folded, n := 0, false, 0
	for round := range 200 {
		k := checkpoint.Key{Stream: "orders", Shard: fmt.Sprint(round % 20)}
		changes := benchChanges(1+round%50, uint64(1000*round+1), func() int { n++; return n })
		if err := s.Save(t.Context(), k, checkpoint.State{View: changes}); err != nil {
			t.Fatal(err)
		}
		entities, folding := s.Recent()
		most, folded = max(most, entities), folded || folding
	}
	if most > 2*500 || !folded {
		t.Errorf("of %d entities up to %d were recent, the bound is 500; folded: %v", n, most, folded)
	}
}
