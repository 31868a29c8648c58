// Package deploy_test holds the board and the alerts against the table of metrics in
// docs/reference.md, and has promtool run the alerts.
package deploy_test

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"example.org/bridge/tests/must"
	"example.org/bridge/tests/testenv"
)

var update = flag.Bool("update", false, "write the tests of the rules, and the chart's copies")

func read(t *testing.T, path string) string {
	t.Helper()
	text := must.Get(os.ReadFile(path))(t)
	return string(text)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	must.OK(t, os.WriteFile(path, []byte(text), 0o644))
}

func operations(t *testing.T) string { return read(t, "../docs/operations.md") }

func reference(t *testing.T) string { return read(t, "../docs/reference.md") }

// TestMadeFiles: the chart has copies, as a chart holds all its files, and the cases are a file of
// promtool's, too.
func TestMadeFiles(t *testing.T) {
	_, rules, _ := strings.Cut(read(t, "prometheus/rules.yaml"), "\ngroups:")
	for path, want := range map[string]string{
		"helm/bridge/files/dashboard.json": read(t, "grafana/bridge.json"),
		"helm/bridge/files/rules.yaml":     "# A copy of deploy/prometheus/rules.yaml: go test ./deploy -update\ngroups:" + rules,
		"prometheus/rules_test.yaml":       "# Written by `go test ./deploy -update`.\n" + ruleCases(t),
	} {
		if *update {
			write(t, path, want)
		}
		if read(t, path) != want {
			t.Errorf("deploy/%s is another text: run go test ./deploy -update", path)
		}
	}
}

// metric is a row of the table of metrics in docs/reference.md, which internal/app holds against
// the program.
type metric struct {
	labels  []string
	meaning string
}

func metrics(t *testing.T) map[string]metric {
	t.Helper()
	_, table, _ := strings.Cut(reference(t), "\n## Metrics\n")
	table, _, _ = strings.Cut(table, "\n## ")
	// A link leads nowhere from a board.
	table = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`).ReplaceAllString(table, "$1")
	all := make(map[string]metric)
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| ([^|]*)\\| (.*) \\|$").FindAllStringSubmatch(table, -1) {
		labels := strings.FieldsFunc(row[2], func(r rune) bool { return strings.ContainsRune(" ,`", r) })
		all[row[1]] = metric{labels, strings.TrimSuffix(row[3], ".")}
	}
	if len(all) < 40 {
		t.Fatalf("%d metrics in the table", len(all))
	}
	return all
}

// asked returns the metrics that an expression asks for. Series of a histogram have its name.
func asked(expr string) []string {
	names := regexp.MustCompile(`\b(?:bridge|go|process)_[a-z_]+\b`).FindAllString(expr, -1)
	for i := range names {
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			names[i] = strings.TrimSuffix(names[i], suffix)
		}
	}
	return names
}

// decoded is the board as Grafana reads it.
type decoded struct {
	Panels []struct {
		Title, Description string
		Targets            []struct{ Expr string }
	}
}

func board(t *testing.T) (b decoded) {
	t.Helper()
	must.OK(t, json.Unmarshal([]byte(read(t, "grafana/bridge.json")), &b))
	return b
}

// TestBoardAsksForWhatThereIs compares panels and alerts with the table of metrics, and with what
// the page says that the board does not show.
func TestBoardAsksForWhatThereIs(t *testing.T) {
	there, shown := metrics(t), make(map[string]bool)
	selector := regexp.MustCompile(`(bridge_[a-z_]+)(?:\{([^}]*)\})?`)
	label := regexp.MustCompile(`([a-z_]+)\s*(?:=~|!=|=)`)
	check := func(where, expr string) {
		for _, found := range selector.FindAllStringSubmatch(expr, -1) {
			name := asked(found[1])[0]
			shown[name] = true
			if _, ok := there[name]; !ok {
				t.Errorf("%s: there is no %s", where, name)
			}
			for _, l := range label.FindAllStringSubmatch(found[2], -1) {
				if l[1] != "job" && l[1] != "instance" && !slices.Contains(there[name].labels, l[1]) {
					t.Errorf("%s: %s has no label %s", where, name, l[1])
				}
			}
		}
	}
	for _, p := range board(t).Panels {
		for _, target := range p.Targets {
			check(p.Title, target.Expr)
		}
	}
	_, section, _ := strings.Cut(reference(t), "\n**The board**")
	section, _, _ = strings.Cut(section, "\n## ")
	for name := range there {
		if strings.Contains(section, "`"+name+"`") == shown[name] {
			t.Errorf("%s is on the board: %t, docs/reference.md says otherwise", name, shown[name])
		}
	}
	for _, a := range alerts(t) {
		check(a.Alert, a.Expr)
	}
}

// TestBoardsExpressionsParse has promtool read them as rules, with values for the variables.
func TestBoardsExpressionsParse(t *testing.T) {
	t.Parallel()
	variables := strings.NewReplacer("$__rate_interval", "1m", "$job", ".*", "$instance", ".*", "$stream", ".*")
	type recording struct {
		Record string `yaml:"record"`
		Expr   string `yaml:"expr"`
	}
	var rules []recording
	for _, p := range board(t).Panels {
		for _, target := range p.Targets {
			rules = append(rules, recording{"panel:" + strings.Repeat("a", len(rules)), variables.Replace(target.Expr)})
		}
	}
	dir := t.TempDir()
	write(t, filepath.Join(dir, "board.yaml"), marshal(t, map[string]any{"groups": []any{map[string]any{"name": "board", "rules": rules}}}))
	if _, err := testenv.Promtool(dir, "check", "rules", "board.yaml").Try(t); err != nil {
		t.Error(err)
	}
}

// TestPanelsSayWhatTheirMetricsMean, in the words of docs/reference.md.
func TestPanelsSayWhatTheirMetricsMean(t *testing.T) {
	there := metrics(t)
	for _, p := range board(t).Panels {
		for _, target := range p.Targets {
			for _, name := range asked(target.Expr) {
				if m, ok := there[name]; ok && !strings.Contains(p.Description, "`"+name+"`: "+m.meaning+".") {
					t.Errorf("the description of %s lacks\n`%s`: %s.", p.Title, name, m.meaning)
				}
			}
		}
	}
}
