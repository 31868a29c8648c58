package checkpointtest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"bridge/checkpoint"
	"bridge/sink"
	"bridge/source"
	"bridge/source/ledger"
)

// Journal makes a journal that differs for every n and fills all fields.
func Journal(n int) *checkpoint.Journal {
	after := State(n)
	after.Offsets = nil
	after.Ledger = []ledger.Chunk{{Key: 0, Bytes: []byte("head")}, {Key: 7}, {Key: 1 << 63, Bytes: []byte{}}}
	after.ReplaceLedger = n%2 == 0
	after.View = []checkpoint.Change{change("a", Known(checkpoint.Live, 1, n)), change("b", checkpoint.Known{}), change("c", Known(checkpoint.Gone, 2, n))}
	after.Given, after.Found = ranges(1, 2, 5, 5), ranges(1, 1)
	message := sink.Message{
		Destination: "orders", Key: []byte("a"), Value: fmt.Appendf(nil, `{"n":%d}`, n), ID: fmt.Sprint("id-", n), Type: "OrderAddedEvent",
		Version: "1.0.0", Stream: "orders", Shard: "db.orders", RowID: 1 << 63, Origin: sink.FromTail, Time: after.Saved,
	}
	other := message
	other.Destination, other.Key, other.Type, other.Origin, other.Time = "", nil, "OrderDeletedEvent", sink.FromReconcile, time.Time{}
	return &checkpoint.Journal{Number: uint64(n) + 1, Messages: []sink.Message{message, other, message}, After: after}
}

func journal(t *testing.T, f Fixture) {
	state := State(1)
	for n := range 4 {
		state.Journals = journals(n)
		mustSave(t, f.Store, key(1), state)
		state.Journals = journals(n)
		mustHold(t, f.Store, key(1), state)
		mustKnow(t, f.Store, key(1), model{}, "a", "b", "c")
		mustGiveUp(t, f.Store, nil)
	}
	if f.Reopen != nil {
		f.Store = f.Reopen(t)
		mustHold(t, f.Store, key(1), state)
	}
	entries, err := f.Store.List(t.Context())
	if err != nil || len(entries) != 1 || entries[0].State.Journals != nil {
		t.Errorf("List returns %v, %v, want a state without its journal", entries, err)
	}
	bad := state
	bad.Journals = []*checkpoint.Journal{{After: checkpoint.State{Offsets: []sink.Offset{{TP: "orders"}}}}}
	if err := f.Store.Save(t.Context(), key(1), bad); err == nil {
		t.Error("Save of a journal with offsets returns nil")
	}
	if bad.Journals = journals(5, 4); f.Store.Save(t.Context(), key(1), bad) == nil {
		t.Error("Save of journals in the wrong order returns nil")
	}
	mustHold(t, f.Store, key(1), state)
	mustSave(t, f.Store, key(1), State(2))
	mustHold(t, f.Store, key(1), State(2))
}

// journals makes the journals of these numbers less one.
func journals(numbers ...int) (all []*checkpoint.Journal) {
	for _, n := range numbers {
		all = append(all, Journal(n))
	}
	return all
}

// keptJournals: a save leaves the journals that it is told to keep, and adds its own.
func keptJournals(t *testing.T, f Fixture) {
	for _, step := range []struct {
		keep      uint64
		add, want []int
	}{
		{0, []int{4}, []int{4}},
		{5, []int{5}, []int{4, 5}},
		{6, []int{6}, []int{5, 6}},
		{6, nil, []int{5, 6}},
		{7, nil, []int{6}},
		{7, []int{7, 8}, []int{6, 7, 8}},
		{9, []int{1}, []int{1, 8}},
		{2, []int{8}, []int{1, 8}},
		{10, nil, nil},
		{1, []int{0}, []int{0}},
		{1, []int{1}, []int{0, 1}},
		{0, nil, nil},
		{7, []int{3}, []int{3}},
	} {
		state := State(1)
		state.Keep, state.Journals = step.keep, journals(step.add...)
		mustSave(t, f.Store, key(1), state)
		want := State(1)
		want.Journals = journals(step.want...)
		mustHold(t, f.Store, key(1), want)
		if f.Reopen != nil {
			f.Store = f.Reopen(t)
			mustHold(t, f.Store, key(1), want)
		}
	}
}

// ranges makes ranges of the first and last ids.
func ranges(ids ...uint64) (all []source.Range) {
	for pair := range slices.Chunk(ids, 2) {
		all = append(all, source.Range{First: pair[0], Last: pair[1]})
	}
	return all
}

// mustGiveUp fails the test unless these are the given-up ids of the first shard, read in one go
// and one by one.
func mustGiveUp(t *testing.T, s checkpoint.Store, want []source.Range) {
	t.Helper()
	for _, limit := range []int{1, 1000} {
		var got []source.Range
		for from := uint64(0); ; {
			page, err := s.GivenUp(t.Context(), key(1), from, limit, got)
			if err != nil || len(page)-len(got) > limit {
				t.Fatalf("GivenUp from %d returns %d ranges, %v", from, len(page)-len(got), err)
			}
			if len(page) == len(got) {
				break
			}
			got, from = page, page[len(page)-1].Last+1
			if from == 0 {
				break
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("the given-up ids are %v, want %v", got, want)
		}
	}
}

func givenUp(t *testing.T, f Fixture) {
	const end = 1<<64 - 1
	mustGiveUp(t, f.Store, nil)
	for _, step := range []struct{ given, found, want []source.Range }{
		{ranges(10, 19), nil, ranges(10, 19)},
		{ranges(30, 30, 20, 22), nil, ranges(10, 22, 30, 30)},
		{nil, ranges(15, 15), ranges(10, 14, 16, 22, 30, 30)},
		{nil, ranges(10, 10, 22, 22, 30, 30), ranges(11, 14, 16, 21)},
		{ranges(0, 0, end, end), ranges(100, 200), ranges(0, 0, 11, 14, 16, 21, end, end)},
		{ranges(12, 40), ranges(13, 17, 20, 20), ranges(0, 0, 11, 12, 18, 19, 21, 40, end, end)},
		{nil, ranges(12, 38), ranges(0, 0, 11, 11, 39, 40, end, end)},
		{ranges(1, 10, 41, end-1), nil, ranges(0, 11, 39, end)},
		{nil, nil, ranges(0, 11, 39, end)},
		{nil, ranges(39, end, 0, 0), ranges(1, 11)},
	} {
		mustSave(t, f.Store, key(1), checkpoint.State{Given: step.given, Found: step.found})
		mustGiveUp(t, f.Store, step.want)
	}
	got, err := f.Store.Load(t.Context(), key(1))
	if err != nil || got.Given != nil || got.Found != nil {
		t.Errorf("Load returns given-up ids: %v, %v, %v", got.Given, got.Found, err)
	}
	if page, err := f.Store.GivenUp(t.Context(), key(1), 5, 9, nil); err != nil || !slices.Equal(page, ranges(1, 11)) {
		t.Errorf("GivenUp from within a range returns %v, %v", page, err)
	}
	if page, err := f.Store.GivenUp(t.Context(), key(1), 12, 9, nil); err != nil || page != nil {
		t.Errorf("GivenUp behind the last range returns %v, %v", page, err)
	}
	bad := checkpoint.State{Given: []source.Range{{First: 2, Last: 1}}}
	if err := f.Store.Save(t.Context(), key(1), bad); err == nil {
		t.Error("Save of a range that ends before it begins returns nil")
	}
}
