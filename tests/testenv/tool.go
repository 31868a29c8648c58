package testenv

import (
	"os/exec"
	"testing"
)

// Tool returns the path of a program that scripts/test-deps does not fetch. Without it the test is
// skipped, and the closing lines of `make test` say so.
func Tool(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		report("SKIPPED", t.Name()+": no "+name)
		t.Skipf("no %s here", name)
	}
	report("real", name)
	return path
}

// Root returns the top of the repository.
func Root() string { return root() }
