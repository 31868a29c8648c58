// Package examples_test runs the examples as their users do: the built programs, with bridge as a
// process of its own beside each.
package examples_test

import (
	"bytes"
	"context"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"bridge/examples/internal/stage"
	"bridge/internal/config"
	"bridge/tests/testall"
	"bridge/tests/testenv"
	"bridge/tests/world"
)

func TestMain(m *testing.M) { world.Main(m) }

// closing is the last line of each example, which says that its claim held.
var closing = map[string]string{
	"apollo":        `apollo: ok: 2 config services heard every release in order, over a restart, a late commit and a kill`,
	"number-issuer": `number-issuer: ok: all \d+ rows were heard, none was lost`,
	"sofaregistry":  `sofaregistry: ok: the watcher's map and the table have the same 5 live revisions`,
	"stp-info":      `stp-info: ok: all 5 STPs answer as TGF's table has them, and no answer had a capability whose deletion was handled`,
	"table-scan":    `table-scan: ok: \d+ orders in 64 tables, each processed once`,
}

// programs builds all examples at once, and returns their folder.
var programs = sync.OnceValues(func() (dir string, err error) {
	if dir, err = os.MkdirTemp("", "bridge-examples-"); err != nil {
		return "", err
	}
	testenv.AtExit(func() { os.RemoveAll(dir) })
	args := []string{"build", "-ldflags=-w", "-o", dir + "/"}
	if world.RaceDetector {
		args = append(args, "-race")
	}
	for name := range closing {
		args = append(args, "bridge/examples/"+name)
	}
	out, err := exec.Command("go", args...).CombinedOutput()
	if err != nil {
		err = &buildError{err, out}
	}
	return dir, err
})

type buildError struct {
	err error
	out []byte
}

func (e *buildError) Error() string { return e.err.Error() + ": " + string(e.out) }

// play runs an example to its end and returns what it printed.
func play(t *testing.T, name string, env ...string) string {
	t.Helper()
	dir, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(dir, name))
	// It ends the bridge beside it.
	cmd.Cancel, cmd.WaitDelay = func() error { return cmd.Process.Signal(syscall.SIGTERM) }, time.Minute
	cmd.Env = append(append(os.Environ(), "EXAMPLE_BRIDGE="+world.Binary(t, world.RaceDetector), "TMPDIR="+t.TempDir()), env...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s\n%s", err, out.String(), errs.String())
	}
	t.Logf("\n%s", out.String())
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if last := lines[len(lines)-1]; !regexp.MustCompile("^" + closing[name] + "$").MatchString(last) {
		t.Errorf("the last line is %q", last)
	}
	return out.String()
}

// expect fails the test unless what an example printed has a line that matches.
func expect(t *testing.T, out, line string) {
	t.Helper()
	if !regexp.MustCompile(line).MatchString(out) {
		t.Errorf("no line %q in\n%s", line, out)
	}
}

// lines are what an example has to have shown, whichever database and bus it ran on.
var lines = map[string][]string{
	"apollo": {
		`a transaction has taken id \d+`, `it commits id \d+, far below the newest`, `bridge is killed`,
		`config-a: (\d+) = \d+ heard, each once and in order \+ \d+ cleaned`, `config-b: (\d+) = \d+ heard, each once and in order \+ \d+ cleaned`,
		// The late release at the least.
		`Apollo's scanner: \d+ = \d+ heard \+ [1-9]\d* never`,
	},
	"number-issuer": {`container c dies`, `missing ones = those in the buffers, \d+ of a \+ \d+ of b \+ 50 of c`, `[1-9]\d* of them below a higher id`},
	"sofaregistry":  {`the map equals the table: 6 live revisions`, `the watcher and bridge are killed`, `4 silent revisions are expired`, `4 silent revisions are purged`, `[1-9]\d* spared by the cache`},
	"stp-info":      {`[1-9]\d* answers were compared`, `[1-9]\d* deleted`},
	"table-scan":    {`one worker is gone`, `bridge, with 4 workers +\d+`, `one scanner +\d+`, `a scanner in each of 4 workers +\d+`},
}

func TestExamples(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(closing)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out := play(t, name)
			for _, line := range lines[name] {
				expect(t, out, line)
			}
		})
	}
}

func TestExamplesOnRealServers(t *testing.T) {
	testall.Long(t)
	for _, product := range []testenv.Product{testenv.InstalledMariaDB, testenv.AnyMySQL()} {
		t.Run(product.String(), func(t *testing.T) {
			server := product.Shared(t)
			world.EachBus(t, func(t *testing.T, b *world.Bus) {
				for _, name := range slices.Sorted(maps.Keys(closing)) {
					t.Run(name, func(t *testing.T) {
						t.Parallel()
						database := server.NewDatabase(t)
						out := play(t, name, "EXAMPLE_SOURCE_URL="+server.URL("root", "", database), "EXAMPLE_SINK_URL="+b.Env()["BRIDGE_SINK_URL"])
						for _, line := range lines[name] {
							expect(t, out, line)
						}
					})
				}
			})
		})
	}
}

// TestExampleConfigurations loads the file that a user copies, as it is.
func TestExampleConfigurations(t *testing.T) {
	for name := range closing {
		text, err := os.ReadFile(filepath.Join(name, "bridge.env"))
		if err != nil {
			t.Fatal(err)
		}
		env, err := stage.Variables(string(text))
		if err != nil {
			t.Fatal(err)
		}
		var environ []string
		for name, value := range env {
			environ = append(environ, name+"="+value)
		}
		if _, err := config.Load(environ, &config.Redactor{}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
