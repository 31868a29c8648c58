package checkpointtest

import (
	"bytes"
	"slices"
	"testing"

	"bridge/checkpoint"
	"bridge/source/ledger"
)

func ledgerParts(t *testing.T, f Fixture) {
	keepsParts(t, f, func(s *checkpoint.State) (*[]ledger.Chunk, *bool) { return &s.Ledger, &s.ReplaceLedger })
}

// ledgerPages reads parts of a ledger from one on.
func ledgerPages(t *testing.T, f Fixture) {
	head, nine, far := ledger.Chunk{Bytes: []byte("head")}, ledger.Chunk{Key: 9, Bytes: []byte("nine")}, ledger.Chunk{Key: 1 << 63, Bytes: []byte("far")}
	s := State(1)
	s.Ledger = []ledger.Chunk{head, nine, far}
	mustSave(t, f.Store, key(1), s)
	mustSave(t, f.Store, key(2), State(2))
	for _, test := range []struct {
		from  uint64
		limit int
		want  []ledger.Chunk
	}{
		{0, 9, s.Ledger}, {8, 1, s.Ledger[:1]}, {9, 1, s.Ledger[1:2]}, {1<<63 - 1, 2, s.Ledger[1:]}, {1<<64 - 1, 9, s.Ledger[2:]},
	} {
		got, err := f.Store.LedgerParts(t.Context(), key(1), test.from, test.limit, nil)
		same := func(a, b ledger.Chunk) bool { return a.Key == b.Key && bytes.Equal(a.Bytes, b.Bytes) }
		if err != nil || !slices.EqualFunc(got, test.want, same) {
			t.Errorf("%d parts from %d on are %v, %v, want %v", test.limit, test.from, got, err, test.want)
		}
	}
	if got, err := f.Store.LedgerParts(t.Context(), key(3), 0, 9, nil); err != nil || len(got) > 0 {
		t.Errorf("a shard without a ledger has %v, %v", got, err)
	}
}

func publishedParts(t *testing.T, f Fixture) {
	keepsParts(t, f, func(s *checkpoint.State) (*[]ledger.Chunk, *bool) { return &s.Published, &s.ReplacePublished })
}

// keepsParts tests the parts of a state, of which only the named ones change.
func keepsParts(t *testing.T, f Fixture, of func(*checkpoint.State) (parts *[]ledger.Chunk, replace *bool)) {
	part := func(key uint64, text string) ledger.Chunk {
		c := ledger.Chunk{Key: key}
		if text != "" {
			c.Bytes = []byte(text)
		}
		return c
	}
	save := func(replace bool, parts ...ledger.Chunk) {
		t.Helper()
		s := State(1)
		list, all := of(&s)
		*list, *all = parts, replace
		mustSave(t, f.Store, key(1), s)
	}
	expect := func(want ...ledger.Chunk) {
		t.Helper()
		got, err := f.Store.Load(t.Context(), key(1))
		if err != nil {
			t.Fatal(err)
		}
		list, _ := of(&got)
		if list == &got.Ledger {
			// Load brings the head alone.
			if len(*list) > 1 || len(*list) == 1 && (*list)[0].Key != 0 {
				t.Errorf("loaded are the parts %v", *list)
			}
			if *list, err = f.Store.LedgerParts(t.Context(), key(1), 0, 1<<20, nil); err != nil {
				t.Fatal(err)
			}
		}
		same := func(a, b ledger.Chunk) bool { return a.Key == b.Key && bytes.Equal(a.Bytes, b.Bytes) }
		if !slices.EqualFunc(*list, want, same) {
			t.Errorf("the parts are %v, want %v", *list, want)
		}
	}
	save(false, part(0, "head"), part(7, "seven"), part(1<<63, "far"))
	var other checkpoint.State
	list, _ := of(&other)
	*list = []ledger.Chunk{part(0, "another shard's")}
	mustSave(t, f.Store, key(2), other)
	expect(part(0, "head"), part(7, "seven"), part(1<<63, "far"))
	save(false, part(0, "HEAD"), part(7, ""), part(9, "nine"), part(11, ""))
	expect(part(0, "HEAD"), part(9, "nine"), part(1<<63, "far"))
	save(false)
	expect(part(0, "HEAD"), part(9, "nine"), part(1<<63, "far"))
	save(true, part(0, "new"))
	expect(part(0, "new"))
	save(true)
	expect()
	entries, err := f.Store.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if list, _ := of(&e.State); len(*list) > 0 {
			t.Errorf("List returns the parts of %v", e.Key)
		}
	}
}
