package faulty

import (
	"go/format"
	"testing"

	"example.org/bridge/tests/must"
)

// TestEdits shows that the edits fit the program, and begin and end as Go does.
func TestEdits(t *testing.T) {
	made := must.Get(files("../.."))(t)
	fit(t, "edits.diff", made, hunks(edits))
}

// fit fails the test for files that are no Go, and for hunks that change nothing.
func fit(t *testing.T, name string, made map[string][]byte, list []hunk) {
	t.Helper()
	for path, text := range made {
		if _, err := format.Source(text); err != nil {
			t.Errorf("%s: %s: %v", name, path, err)
		}
	}
	for _, h := range list {
		if h.before == h.behind {
			t.Errorf("%s: a hunk changes nothing: %q", name, h.before)
		}
	}
}
