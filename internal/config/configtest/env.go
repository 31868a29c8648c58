package configtest

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"example.org/bridge/tests/must"
)

// Env is an environment: names and values of variables.
type Env map[string]string

// Minimal returns an environment with what is required and nothing else: a capability stream of two
// tables.
func Minimal() Env {
	return Env{
		"BRIDGE_SOURCE_URL":          "mysql://reader:secret-of-source@db.example.com/shop",
		"BRIDGE_SINK_URL":            "kafka://k1:9093,k2",
		"BRIDGE_STREAMS":             "orders",
		"BRIDGE_STREAM_ORDERS_TABLE": "orders_{0..1}",
		"BRIDGE_STREAM_ORDERS_KIND":  "capability",
	}
}

// With returns Minimal with variables set, or unset where the value is "-". Names and values
// alternate.
func With(pairs ...string) Env {
	env := Minimal()
	for pair := range slices.Chunk(pairs, 2) {
		if env[pair[0]] = pair[1]; pair[1] == "-" {
			delete(env, pair[0])
		}
	}
	return env
}

// Environ returns the environment as os.Environ does, sorted.
func (e Env) Environ() []string {
	var entries []string
	for _, name := range slices.Sorted(maps.Keys(e)) {
		entries = append(entries, name+"="+e[name])
	}
	return entries
}

// Recorded compares what do makes of the input of each block of a file with what the block has
// recorded; with update it writes the file. A block is a name behind "#", lines of input, and the
// recorded ones behind "|"; an empty line ends it.
func Recorded(t *testing.T, path string, update bool, do func(t *testing.T, input []string) string) {
	t.Helper()
	text := must.Get(os.ReadFile(path))(t)
	var all []string
	for block := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n\n") {
		lines := strings.Split(block, "\n")
		n := 1
		for n < len(lines) && !strings.HasPrefix(lines[n], "|") {
			n++
		}
		t.Run(strings.TrimPrefix(lines[0], "# "), func(t *testing.T) {
			now := lines[:n:n]
			for line := range strings.Lines(do(t, lines[1:n])) {
				now = append(now, strings.TrimRight("| "+line, " \n"))
			}
			if all = append(all, strings.Join(now, "\n")); all[len(all)-1] != block && !update {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(now[n:], "\n"), strings.Join(lines[n:], "\n"))
			}
		})
	}
	if update {
		must.OK(t, os.WriteFile(path, []byte(strings.Join(all, "\n\n")+"\n"), 0o644))
	}
}
