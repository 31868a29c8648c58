package testenv

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"example.org/bridge/tests/must"
)

// TestBuild: a program runs whose kept copy a kill has cut off, and one that cannot be kept.
func TestBuild(t *testing.T) {
	cache, source := t.TempDir(), filepath.Join(t.TempDir(), "runs.go")
	t.Setenv("BRIDGE_TEST_CACHE", cache)
	writeFile(t, source, []byte("package main\n\nfunc main() {}\n"))
	runs := func(when string) {
		t.Helper()
		dir := t.TempDir()
		must.OK(t, Build(dir, "kind", nil, source))
		if out, err := exec.Command(filepath.Join(dir, "runs")).CombinedOutput(); err != nil {
			t.Errorf("%s: %v %s", when, err, out)
		}
	}
	runs("the first one")
	kept := Cached("programs", "kind")
	must.OK(t, os.Truncate(filepath.Join(kept, "runs"), 64<<10))
	_ = os.Remove(kept + ".done")
	runs("behind a build that was killed")
	must.OK(t, os.RemoveAll(kept))
	writeFile(t, kept, nil)
	runs("without a folder to keep it")
}
