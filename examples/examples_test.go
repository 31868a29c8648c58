// Package examples_test runs the examples as their users do: the built programs, with bridge as a
// process of its own beside each.
package examples_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"example.org/bridge/examples/internal/stage"
	"example.org/bridge/internal/config"
	"example.org/bridge/tests/testall"
	"example.org/bridge/tests/testenv"
	"example.org/bridge/tests/world"
)

func TestMain(m *testing.M) { world.Main(m) }

// programs builds all examples at once, and returns their folder.
var programs = sync.OnceValues(func() (dir string, err error) {
	if dir, err = os.MkdirTemp("", "bridge-examples-"); err != nil {
		return "", err
	}
	testenv.AtExit(func() { os.RemoveAll(dir) })
	for line := range lines {
		if name, flags, _ := strings.Cut(line, " "); flags == "" && err == nil {
			err = testenv.Build(filepath.Join(dir, name), []string{"CGO_ENABLED=0"}, "example.org/bridge/examples/"+name)
		}
	}
	return dir, err
})

func play(t *testing.T, line string, env ...string) {
	t.Helper()
	name, flags, _ := strings.Cut(line, " ")
	dir, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 6*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(dir, name), strings.Fields(flags)...)
	// It ends the bridge beside it.
	cmd.Cancel, cmd.WaitDelay = func() error { return cmd.Process.Signal(syscall.SIGTERM) }, time.Minute
	cmd.Env = append(append(os.Environ(), "EXAMPLE_BRIDGE="+world.Binary(t, false), "TMPDIR="+t.TempDir()), env...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s\n%s", err, out.String(), errs.String())
	}
	t.Logf("\n%s", out.String())
	if !strings.HasSuffix(out.String(), "\n"+name+": ok\n") {
		t.Errorf("the last line is not %s: ok", name)
	}
	for _, want := range lines[line] {
		if !regexp.MustCompile(want).MatchString(out.String()) {
			t.Errorf("no line %q", want)
		}
	}
}

// lines are what an example, with its flags, has to have shown, whichever database and bus it ran
// on.
var lines = map[string][]string{
	"apollo": {
		`a transaction has taken id 4`, `config-b: published app%2Bdefault%2Bapplication in row 9`, `the transaction commits, far below the newest id`,
		`config-a: published app%2Bdefault%2Bapplication in row 4`, `namespaces: deleted billing\+default\+application\+0 in row 1`,
		`2 config services heard 9 releases, each once and in order, and a namespace that was deleted came again`,
	},
	"hundred-databases": {`one process reads 400 tables`, `one process reads 401 tables`, `1001 orders of 401 tables in 100 databases: lost 0, wrong 0`},
	"hundred-databases --shares": {
		`share 0/3 reads \d+ of the 400 tables`, `share 2/3 reads \d+ of the 401 tables`, `1001 orders of 401 tables in 100 databases: lost 0, wrong 0`,
	},
	"number-issuer": {`container c is dead: nobody will ever use ids 151 to 200`, `all 981 rows were heard, none was lost, the last one was 231 of bill`},
	"outbox": {
		`shipping: OrderCreated of order-1: \{"lines": \[\{"n": 1, "item": "Debezium in Action"\}\]\}`, `newsletter: CustomerLeft of anna: \{\}`,
		`4 rows were heard, each once, byte for byte and in the order of its aggregate; 1 was put aside`,
	},
	"sofaregistry": {
		`hz\+app-0-2: added`, `hz\+app-0-1: deleted`, `the maps of 2 servers and the table have the same 2 live revisions, from 4 events`,
	},
	"stp-info":   {`gpu \S* of stp-1: deleted`, `STP-Info answers for stp-1: map\[cpu.cores:128\]`, `each answer is that of TGF's table`},
	"table-scan": {`worker 0 is gone`, `worker [12] processes order-39 of orders_\d`, `40 orders in 4 tables, each processed once`},
}

func TestExamples(t *testing.T) {
	testall.Beside(t)
	for name := range lines {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			play(t, name)
		})
	}
}

// TestExamplesOnRealServers has each database and each bus once.
func TestExamplesOnRealServers(t *testing.T) {
	testall.Beside(t)
	databases := []testenv.Product{testenv.InstalledMariaDB, testenv.AnyMySQL()}
	for i, bus := range []*world.Bus{world.KafkaBus(testenv.Kafka(t)), world.NATSBus(testenv.NATS(t))} {
		server, second := databases[i].Shared(t), databases[1-i].Shared(t)
		for name := range lines {
			if name == []string{"hundred-databases", "hundred-databases --shares"}[i] {
				// It takes long: shares on Kafka, one process on NATS.
				continue
			}
			t.Run(fmt.Sprintf("%s on %s and %s", name, databases[i], bus), func(t *testing.T) {
				t.Parallel()
				play(t, name, "EXAMPLE_SOURCE_URL="+server.URL("root", "", server.NewDatabase(t)), "EXAMPLE_SOURCE_B_URL="+second.URL("root", "", ""),
					"EXAMPLE_SINK_URL="+bus.Env()["BRIDGE_SINK_URL"])
			})
		}
	}
}

// TestExampleConfigurations loads the file that a user copies, as it is.
func TestExampleConfigurations(t *testing.T) {
	testall.Beside(t)
	for line := range lines {
		name, _, _ := strings.Cut(line, " ")
		text, err := os.ReadFile(filepath.Join(name, "bridge.env"))
		if err != nil {
			t.Fatal(err)
		}
		var environ []string
		for name, value := range stage.Variables(string(text)) {
			environ = append(environ, name+"="+value)
		}
		if _, err := config.Load(environ, &config.Redactor{}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
