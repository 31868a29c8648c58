package app

import (
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// debugOnly are metrics that no panel of the board shows, with the reason. A name that ends in _
// stands for all that begin with it.
var debugOnly = map[string]string{
	"go_":                                  "what the Go runtime says of itself: the panels of the process show memory and goroutines",
	"process_max_fds":                      "a limit of the system",
	"process_virtual_memory_":              "address space, which costs nothing",
	"process_network_":                     "bytes of all connections together; the rates of rows and bytes in flight say more",
	"bridge_reconcile_rows":                "how far one run is: bridge status shows it with the percentage and the time left",
	"bridge_limit_wait_seconds_total":      "bridge status and the page say which limit holds a backlog back",
	"bridge_progress_bytes":                "the size of what is kept on the bus; it matters when its limit of 8 MiB is met, which the log says",
	"bridge_standby_working_since_seconds": "bridge status shows it with the host",
}

// TestBoardAndAlertsAskForWhatThereIs compares them with the metrics that are registered.
func TestBoardAndAlertsAskForWhatThereIs(t *testing.T) {
	t.Parallel()
	there := []string(registered())
	for _, found := range regexp.MustCompile(`(?m)^# TYPE ((?:go|process)_[a-z_]+) `).FindAllStringSubmatch(newMetrics(t), -1) {
		there = append(there, found[1])
	}
	page, rules := readFile(t, "../../docs/reference.md"), readFile(t, "../../deploy/prometheus/rules.yaml")
	var board struct {
		Panels []struct{ Targets []struct{ Expr string } }
	}
	if err := json.Unmarshal([]byte(readFile(t, "../../deploy/grafana/bridge.json")), &board); err != nil {
		t.Fatal(err)
	}
	shown := make(map[string]bool)
	for _, p := range board.Panels {
		for _, target := range p.Targets {
			for _, name := range metricNames(target.Expr) {
				shown[name] = true
				if !slices.Contains(there, name) {
					t.Errorf("the board asks for %s, which is not registered", name)
				}
			}
		}
	}
	for _, name := range metricNames(rules) {
		if !slices.Contains(there, name) {
			t.Errorf("an alert names %s, which is not registered", name)
		}
	}
	for _, name := range there {
		listed := slices.ContainsFunc(slices.Collect(maps.Keys(debugOnly)), func(listed string) bool {
			return name == listed || strings.HasSuffix(listed, "_") && strings.HasPrefix(name, listed)
		})
		if !shown[name] && !listed {
			t.Errorf("%s is not on the board deploy/grafana/bridge.json: add a panel, or its reason to debugOnly", name)
		}
	}
	_, section, _ := strings.Cut(page, "\n**The board**")
	section, _, _ = strings.Cut(section, "\n## ")
	for name := range debugOnly {
		if strings.HasPrefix(name, "bridge_") && !strings.Contains(section, "`"+name+"`") {
			t.Errorf("docs/reference.md does not say that %s is not on the board", name)
		}
		if shown[name] {
			t.Errorf("%s is on the board, too", name)
		}
	}
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// metricNames returns the metrics in a text. Series of a histogram have its name.
func metricNames(text string) []string {
	names := regexp.MustCompile(`\b(?:bridge|go|process)_[a-z_]+\b`).FindAllString(text, -1)
	for i := range names {
		names[i] = regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(names[i], "")
	}
	return names
}
