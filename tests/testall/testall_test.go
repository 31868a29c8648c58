package testall_test

import (
	"flag"
	"testing"

	"bridge/tests/testall"
)

func TestWhatIsLeftToAll(t *testing.T) {
	for name, c := range map[string]struct {
		all, run string
		on       bool
	}{
		"is skipped":                        {"", "", false},
		"is run by make test-all":           {"1", "", true},
		"is run where it is chosen by name": {"", "^TestX$", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("BRIDGE_TEST_ALL", c.all)
			chosen := flag.Lookup("test.run").Value
			was := chosen.String()
			defer func() { set(t, chosen, was) }()
			set(t, chosen, c.run)
			want := 1
			if c.on {
				want = 2
			}
			if got := testall.Pick(1, 2); got != want {
				t.Errorf("the size is %d, want %d", got, want)
			}
			left := recorder{TB: t}
			if testall.Long(&left); left.skipped == c.on {
				t.Errorf("skipped: %v", left.skipped)
			}
		})
	}
}

// recorder is a test that notes that it is skipped.
type recorder struct {
	testing.TB
	skipped bool
}

func (r *recorder) Skip(...any) { r.skipped = true }

func set(t *testing.T, v flag.Value, text string) {
	t.Helper()
	if err := v.Set(text); err != nil {
		t.Fatal(err)
	}
}
