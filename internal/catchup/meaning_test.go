package catchup_test

import (
	"testing"

	"bridge/internal/catchup"
)

// The hashes are on the bus: none may change.
func TestTheHashOfAMeaning(t *testing.T) {
	seen := make(map[uint32]bool)
	for _, c := range []struct {
		kind  string
		key   []string
		scope catchup.Scope
		want  uint32
	}{
		{"capability", []string{"id"}, catchup.ScopeTable, 0xc353cfa4},
		{"release", []string{"id"}, catchup.ScopeTable, 0x894d4e4f},
		{"capability", []string{"app", "cluster"}, catchup.ScopeStream, 0xab25b722},
		{"capability", []string{"cluster", "app"}, catchup.ScopeStream, 0x330f24a6},
		{"capability", []string{"appcluster"}, catchup.ScopeStream, 0xe910fd0a},
		{"capability", []string{"app"}, catchup.ScopeStream, 0xcd0969bc},
	} {
		got := catchup.MeaningHash(c.kind, c.key, c.scope)
		if got != c.want || seen[got] {
			t.Errorf("%s %v %s: %#x, want %#x", c.kind, c.key, c.scope, got, c.want)
		}
		seen[got] = true
	}
	if catchup.MeaningHash("release", []string{"ID"}, catchup.ScopeTable) != catchup.MeaningHash("release", []string{"id"}, catchup.ScopeTable) {
		t.Error("the case of a column changes the hash")
	}
}
