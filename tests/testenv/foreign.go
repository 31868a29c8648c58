package testenv

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Foreign is a program that is not ours, and how it is run.
type Foreign struct {
	Name string
	Args []string
	// Dir is where it runs, Env is added to its environment, Input is its standard input.
	Dir   string
	Env   []string
	Input []byte
	// Missing is why it cannot be run, nil where it can.
	Missing error
}

// Fetched is a program of a folder of the cache, which scripts/test-deps fetches.
func Fetched(name, folder, program string, args ...string) Foreign {
	_, err := os.Stat(filepath.Join(cacheDir(), folder, "done"))
	return Foreign{Name: name, Missing: err, Args: append([]string{filepath.Join(cacheDir(), folder, program)}, args...)}
}

// Node is a script of the repository for Node.js, with the packages of a folder, whose path is its
// first argument.
func Node(name, packages, script string, args ...string) Foreign {
	f := Fetched(name, packages, "node_modules", args...)
	node, err := exec.LookPath("node")
	if f.Args = append([]string{node, filepath.Join(Root(), script)}, f.Args...); f.Missing == nil {
		f.Missing = err
	}
	return f
}

// Python is a script of the repository with the packages of a folder.
func Python(name, packages, script string, args ...string) Foreign {
	return Fetched(name, packages, "bin/python3", append([]string{filepath.Join(Root(), script)}, args...)...)
}

// Promtool is promtool in a folder.
func Promtool(dir string, args ...string) Foreign {
	f := Fetched("Prometheus", "prometheus", "usr/bin/promtool", args...)
	f.Dir = dir
	return f
}

// Try runs the program to its end, for five minutes at most, and returns what it printed to stdout,
// or else all in the error.
func (f Foreign) Try(t testing.TB) ([]byte, error) {
	t.Helper()
	if f.Missing != nil {
		missing(t, f.Name, f.Missing)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	run := exec.CommandContext(ctx, f.Args[0], f.Args[1:]...)
	run.Dir, run.Env, run.Stdin = f.Dir, append(os.Environ(), f.Env...), bytes.NewReader(f.Input)
	var stdout, stderr bytes.Buffer
	run.Stdout, run.Stderr = &stdout, &stderr
	if err := run.Run(); err != nil {
		return nil, fmt.Errorf("%s: %w\n%s%s", f.Name, err, stdout.Bytes(), stderr.Bytes())
	}
	report("real", f.Name)
	return stdout.Bytes(), nil
}

// Run is Try for a program that has to succeed.
func (f Foreign) Run(t testing.TB) []byte {
	t.Helper()
	out, err := f.Try(t)
	check(t, err)
	return out
}

// JSONLines reads what a program prints, one value a line.
func JSONLines[V any](t testing.TB, f Foreign) (values []V) {
	t.Helper()
	for line := range strings.Lines(string(f.Run(t))) {
		var v V
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Fatalf("%s says %q: %v", f.Name, line, err)
		}
		values = append(values, v)
	}
	return values
}

// Tool returns the path of a program that scripts/test-deps does not fetch.
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
