package faulty

import (
	"go/format"
	"strings"
	"testing"
)

// TestEdits shows that the edits fit the program, and begin and end as Go does.
func TestEdits(t *testing.T) {
	made, err := files("../..")
	if err != nil {
		t.Fatal(err)
	}
	for path, text := range made {
		if _, err := format.Source(text); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	for _, h := range hunks(edits) {
		if !strings.Contains(h.behind, "failpoint.") && h.before == h.behind {
			t.Errorf("%s: a hunk changes nothing: %q", h.file, h.before)
		}
	}
}
