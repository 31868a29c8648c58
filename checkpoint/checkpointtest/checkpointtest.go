package checkpointtest

import (
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"bridge/checkpoint"
	"bridge/sink"
	"bridge/source"
	"bridge/source/ledger"
)

// Fixture is one store that is empty.
type Fixture struct {
	// Store is under test.
	Store checkpoint.Store
	// Reopen closes the store and opens it again, as a restart of the process does. Nil for a store
	// that forgets.
	Reopen func(t testing.TB) checkpoint.Store
	// Close closes the store; nothing can be saved afterwards. Nil for a store that needs no
	// closing.
	Close func(t testing.TB)
}

// Run runs the suite. It calls open for each test of it.
func Run(t *testing.T, open func(t *testing.T) Fixture) {
	probe := open(t)
	for _, test := range []struct {
		name    string
		asked   bool
		missing string
		run     func(*testing.T, Fixture)
	}{
		{"a shard without a state is not found", true, "", notFound},
		{"what is saved is loaded", true, "", saved},
		{"the last save holds", true, "", lastHolds},
		{"states that look alike stay apart", true, "", alike},
		{"a nameless shard is refused", true, "", nameless},
		{"an invalid state is refused and the former one holds", true, "", invalid},
		{"states are not shared with the caller", true, "", notShared},
		{"a state of many gaps is kept", true, "", manyGaps},
		{"of a ledger only the named parts change", true, "", ledgerParts},
		{"a ledger is read part by part", true, "", ledgerPages},
		{"of the rows published last only the named parts change", true, "", publishedParts},
		{"a meaning stays until another one is saved", true, "", meaning},
		{"a view knows what was saved of each entity", true, "", lookup},
		{"of several changes of one entity the last one holds", true, "", lastChangeHolds},
		{"an invalid change of a view is refused with the whole save", true, "", noChange},
		{"entities without a row are not in the order of rows", true, "", fates},
		{"a view is read in the order of rows, page by page", true, "", byRow},
		{"entities that share a row are all there", true, "", sharedRow},
		{"a view under random changes is what a map is", true, "", randomView},
		{"readers see all changes of a save or none", true, "", wholeSaves},
		{"Forget drops what was found gone long ago and nothing else", true, "", forget},
		{"Rewind drops what speaks of rows above an id", true, "", rewind},
		{"a journal is replaced and removed by the next save", true, "", journal},
		{"a save keeps the journals that it says", true, "", keptJournals},
		{"given-up ids are joined, and split by what is found", true, "", givenUp},
		{"a run is kept with the entities that wait for its end", true, "", runs},
		{"runs, views and journals of a stream go with it", true, "", allDeleted},
		{"views and runs survive a restart", probe.Reopen != nil, "Reopen", viewSurvives},
		{"List is in the order of stream and shard", true, "", listed},
		{"Delete removes all shards of one stream", true, "", deleted},
		{"many shards are saved side by side", true, "", sideBySide},
		{"saves of one shard side by side leave one of them", true, "", oneShard},
		{"a cancelled Save leaves the former state or the new one", true, "", cancelled},
		{"states survive a restart", probe.Reopen != nil, "Reopen", survives},
		{"a closed store saves nothing", probe.Close != nil, "Close", closed},
	} {
		if !test.asked {
			t.Logf("not asked of this store, its fixture lacks %s: %s", test.missing, test.name)
			continue
		}
		t.Run(test.name, func(t *testing.T) { test.run(t, open(t)) })
	}
}

// State makes a state that differs for every n and fills all fields.
func State(n int) checkpoint.State {
	at := time.Date(2026, 1, 2, 3, 4, 5, 678000, time.UTC).Add(time.Duration(n) * time.Second)
	base := uint64(n) * 1000
	return checkpoint.State{
		Position: ledger.Position{
			ID: 1<<63 + base + 900,
			Gaps: []ledger.Gap{
				{First: base + 3, Last: base + 3, Missed: at},
				{First: 1<<63 + base, Last: 1<<63 + base + 900, Missed: at.Add(-time.Hour)},
			},
			Reading: ledger.Reading{Through: base + 1, At: at.Add(time.Microsecond)},
		},
		Offsets: []sink.Offset{
			{TP: "orders/0", Last: base},
			{TP: "ORDERS", Incarnation: "2026-01-02T03:04:05Z", Last: base + 1},
		},
		Saved:    at,
		Cursor:   source.Cursor{Modified: at.Format(time.RFC3339Nano), ID: base + 2},
		Snapshot: source.Range{First: base + 4, Last: 1<<63 + base},
	}
}

func key(n int) checkpoint.Key {
	return checkpoint.Key{Stream: "orders", Shard: fmt.Sprintf("db_%d.orders_%02d", n/10, n)}
}

func mustSave(t *testing.T, s checkpoint.Store, k checkpoint.Key, state checkpoint.State) {
	t.Helper()
	if err := s.Save(t.Context(), k, state); err != nil {
		t.Fatalf("Save of %v: %v", k, err)
	}
}

// mustHold fails the test unless the state of k is want.
func mustHold(t *testing.T, s checkpoint.Store, k checkpoint.Key, want checkpoint.State) {
	t.Helper()
	got, err := s.Load(t.Context(), k)
	if err != nil {
		t.Fatalf("Load of %v: %v", k, err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("the state of %v is\n%+v, want\n%+v", k, got, want)
	}
}

// mustMiss fails the test unless k has no state.
func mustMiss(t *testing.T, s checkpoint.Store, k checkpoint.Key) {
	t.Helper()
	if got, err := s.Load(t.Context(), k); !errors.Is(err, checkpoint.ErrNotFound) {
		t.Fatalf("Load of %v returns %+v, %v, want ErrNotFound", k, got, err)
	}
}
