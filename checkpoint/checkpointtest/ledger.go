package checkpointtest

import (
	"bytes"
	"testing"

	"bridge/checkpoint"
	"bridge/source"
)

func ledgerParts(t *testing.T, f Fixture) {
	part := func(key uint64, text string) source.Chunk {
		c := source.Chunk{Key: key}
		if text != "" {
			c.Bytes = []byte(text)
		}
		return c
	}
	save := func(anew bool, parts ...source.Chunk) {
		t.Helper()
		s := State(1)
		s.Ledger, s.LedgerAnew = parts, anew
		mustSave(t, f.Store, key(1), s)
	}
	expect := func(want ...source.Chunk) {
		t.Helper()
		got, err := f.Store.Load(t.Context(), key(1))
		if err != nil {
			t.Fatal(err)
		}
		same := len(got.Ledger) == len(want)
		for i := 0; same && i < len(want); i++ {
			same = got.Ledger[i].Key == want[i].Key && bytes.Equal(got.Ledger[i].Bytes, want[i].Bytes)
		}
		if !same {
			t.Errorf("the ledger is %v, want %v", got.Ledger, want)
		}
	}
	save(false, part(0, "head"), part(7, "seven"), part(1<<63, "far"))
	mustSave(t, f.Store, key(2), checkpoint.State{Ledger: []source.Chunk{part(0, "another shard's")}})
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
		if len(e.State.Ledger) > 0 {
			t.Errorf("List returns the ledger of %v", e.Key)
		}
	}
}
