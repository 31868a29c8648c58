package way

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"example.org/bridge/tests/must"
	"example.org/bridge/tests/testall"
	"example.org/bridge/tests/testenv"
	"example.org/bridge/tests/world"
)

func TestMain(m *testing.M) { testenv.Main(m) }

var update = flag.Bool("update", false, "write the functions that a row passes to docs/architecture.md")

const traced = "the one row that is traced"

const (
	// mostFunctions bounds the functions that a row passes, mostChanges how often another goroutine
	// has it.
	mostFunctions = 60
	mostChanges   = 3
)

func TestTheWayOfARow(t *testing.T) {
	testall.Beside(t)
	root := testenv.Root()
	dir := t.TempDir()
	list := must.Get(overlay(root, dir))(t)
	path, file := filepath.Join(dir, "bridge"), filepath.Join(dir, "trace")
	// As it ships, so that what it depends on is compiled once for all tests.
	must.OK(t, testenv.Build(path, []string{"CGO_ENABLED=0"}, "-trimpath", "-overlay="+list, "example.org/bridge/cmd/bridge"))
	w := world.Empty(t, testenv.MariaDB(t))
	w.Exec("CREATE TABLE facts (id bigint unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY, name varchar(64) NOT NULL, " +
		"created timestamp(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3), note varchar(64) NOT NULL)")
	p := w.Publish(world.KafkaBus(testenv.Kafka(t)), world.Publishing{
		Path: path,
		// Else the trace would not know the row again.
		Env:     world.Env{variable: file, rowVariable: traced, "BRIDGE_KAFKA_COMPRESSION": "none"},
		Streams: []world.Stream{{Name: "facts", Table: "facts", Kind: "release", Env: world.Env{"KEY": "name", "CREATED": "created", "STABILITY_WINDOW": "0s"}}},
	})
	p.Start()
	// The first rows have connections be opened, and topics be found.
	for i, row := range []string{"first", "second", traced} {
		w.Exec("INSERT INTO facts (name, note) VALUES (?, ?)", fmt.Sprint("name", i), row)
		world.Eventually(t, time.Minute, "the row is published", func() bool { return p.Position("facts") > uint64(i) })
	}
	p.Term()
	trace := must.Get(os.ReadFile(file))(t)
	passed, changes, err := way(string(trace))
	must.OK(t, err)
	if len(passed) > mostFunctions || changes > mostChanges {
		t.Errorf("a row passes %d functions, at most %d, and changes the goroutine %d times, at most %d", len(passed), mostFunctions, changes, mostChanges)
	}
	compare(t, filepath.Join(root, "docs", "architecture.md"), strings.Join(passed, "\n")+"\n")
}

// compare compares the list in a page with the functions that were passed, or writes it there.
func compare(t *testing.T, page, passed string) {
	t.Helper()
	const begins, ends = "```way\n", "```\n"
	text := must.Get(os.ReadFile(page))(t)
	before, rest, found := strings.Cut(string(text), begins)
	listed, behind, ended := strings.Cut(rest, ends)
	switch {
	case !found || !ended:
		t.Errorf("%s has no list of functions between %q and %q", page, begins, ends)
	case *update:
		must.OK(t, os.WriteFile(page, []byte(before+begins+passed+ends+behind), 0o644))
	case listed != passed:
		t.Errorf("a row passes\n%s\n%s lists\n%s\nlook at what has changed, then: go test ./tests/way -update", passed, page, listed)
	}
}

func TestWhatARowPasses(t *testing.T) {
	testall.Beside(t)
	trace := []string{
		// The poll before finds nothing.
		"1 > shard.owner.poll .-", "1 < shard.owner.poll .- .-",
		"1 > shard.owner.poll .-", "1 > a.read .-", "1 > a.ask .-+", "1 < a.ask .-+ .-", "1 > a.fill .--", "1 < a.fill .-+ .-", "1 < a.read .- .+",
		"1 > a.look .-+", "2 > b.background .-", "1 < a.look .-+ .-", "2 < b.background .- .-", "1 > shard.pipe.send .-+", "1 < shard.pipe.send .-+ .",
		"1 < shard.owner.poll .- .-", "3 > a.publish .-+", "3 > kafka.worker.enqueue .--", "3 < kafka.worker.enqueue .-- .",
		"4 > kafka.call.finish .-", "4 < kafka.call.finish .- .", "3 < a.publish .-+ .-", "3 > a.later .-", "3 < a.later .- .+",
	}
	const want = "shard.owner.poll\n  a.read\n    a.fill\n  shard.pipe.send\na.publish\n  kafka.worker.enqueue\nkafka.call.finish"
	passed, changes, err := way(strings.Join(trace, "\n"))
	if got := strings.Join(passed, "\n"); err != nil || got != want || changes != 3 {
		t.Errorf("it passes\n%s\nand changes the goroutine %d times, error %v; want\n%s", got, changes, err, want)
	}
}

func TestFunctionsSayThatTheyAreEntered(t *testing.T) {
	testall.Beside(t)
	const text = "package a\n\nfunc (T[K]) f(_ int, s string) error { return nil }\n"
	const want = "package a; import \"example.org/bridge/client/way\"\n\n" +
		"func (wayOf0 T[K]) f(wayIn0 int, s string) (wayOut0 error) {\n\tdefer way.Enter(\"a.T.f\", &wayOf0, &wayIn0, &s)(&wayOut0)\n\treturn nil\n}\n\nvar _ = way.Enter\n"
	if got, err := noted([]byte(text)); err != nil || string(got) != want {
		t.Errorf("got\n%s\nerror %v, want\n%s", got, err, want)
	}
}
