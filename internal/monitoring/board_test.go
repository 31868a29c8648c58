package monitoring

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"bridge/tests/testenv"
)

// decoded is the board as Grafana reads it.
type decoded struct {
	Panels []struct {
		ID                       int
		Type, Title, Description string
		GridPos                  struct{ X, Y, W, H int }
		FieldConfig              struct{ Defaults struct{ Unit string } }
		Targets                  []struct{ Expr string }
	}
	Templating struct{ List []struct{ Name string } }
}

func board(t *testing.T) (b decoded) {
	t.Helper()
	text, err := Board(Metrics(operations(t)))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &b); err != nil {
		t.Fatal(err)
	}
	return b
}

func TestBoardIsLaidOut(t *testing.T) {
	b := board(t)
	ids, taken := make(map[int]bool), make(map[[2]int]string)
	for _, p := range b.Panels {
		if ids[p.ID] {
			t.Errorf("two panels with the id %d", p.ID)
		}
		ids[p.ID] = true
		if p.GridPos.W < 1 || p.GridPos.X+p.GridPos.W > boardWidth {
			t.Errorf("%s is at %+v", p.Title, p.GridPos)
		}
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				at := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
				if other := taken[at]; other != "" {
					t.Fatalf("%s lies on %s", p.Title, other)
				}
				taken[at] = p.Title
			}
		}
		switch {
		case p.Type == "row":
			if !strings.HasSuffix(p.Title, "?") {
				t.Errorf("%q: a section is a question", p.Title)
			}
		case p.Description == "" && !strings.Contains(p.Targets[0].Expr, "go_") && !strings.Contains(p.Targets[0].Expr, "process_"):
			t.Errorf("%s says nothing about itself", p.Title)
		case p.Type == chart && p.FieldConfig.Defaults.Unit == "":
			t.Errorf("%s has no unit", p.Title)
		}
	}
	var names []string
	for _, v := range b.Templating.List {
		names = append(names, v.Name)
	}
	if want := []string{"datasource", "job", "instance", "stream"}; !slices.Equal(names, want) {
		t.Errorf("the variables %v, want %v", names, want)
	}
}

// TestBoardAsksForLabelsThatThereAre compares panels and alerts with the table of metrics.
func TestBoardAsksForLabelsThatThereAre(t *testing.T) {
	labels := make(map[string][]string)
	for _, m := range Metrics(operations(t)) {
		labels[m.Name] = m.Labels
	}
	if len(labels) < 40 {
		t.Fatalf("%d metrics in the table", len(labels))
	}
	selector := regexp.MustCompile(`(bridge_[a-z_]+)\{([^}]*)\}`)
	label := regexp.MustCompile(`([a-z_]+)\s*(?:=~|!=|=)`)
	check := func(where, expr string) {
		for _, found := range selector.FindAllStringSubmatch(expr, -1) {
			for _, name := range asked(found[1]) {
				for _, l := range label.FindAllStringSubmatch(found[2], -1) {
					if l[1] != "job" && l[1] != "instance" && !slices.Contains(labels[name], l[1]) {
						t.Errorf("%s: %s has no label %s", where, name, l[1])
					}
				}
			}
		}
	}
	for _, p := range board(t).Panels {
		for _, target := range p.Targets {
			check(p.Title, target.Expr)
		}
	}
	for _, a := range Alerts {
		check(a.Name, a.Expr)
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
	text, err := marshal(map[string]any{"groups": []any{map[string]any{"name": "board", "rules": rules}}})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "board.yaml"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := testenv.Promtool(t, dir, "check", "rules", "board.yaml"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestEachExceptionHasAReasonAndAMetric(t *testing.T) {
	_, told, _ := strings.Cut(operations(t), "\n**The board**")
	told, _, _ = strings.Cut(told, "\n## ")
	for name, reason := range DebugOnly {
		if strings.HasPrefix(name, "bridge_") && !strings.Contains(told, "`"+name+"`") {
			t.Errorf("docs/operations.md does not say that %s is not on the board", name)
		}
		if len(reason) < 20 {
			t.Errorf("%s is for debugging only because %q", name, reason)
		}
		for shown := range OnBoard() {
			if name == shown {
				t.Errorf("%s is on the board, too", name)
			}
		}
	}
	if got := Unshown([]string{"bridge_new_total", "go_info", "bridge_lag_seconds"}); !slices.Equal(got, []string{"bridge_new_total"}) {
		t.Errorf("what nobody shows is %v", got)
	}
}
