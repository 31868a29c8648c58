package monitoring

import (
	"regexp"
	"strings"
)

// Metric is a row of the table of metrics in docs/operations.md.
type Metric struct {
	Name    string
	Labels  []string
	Meaning string
}

var metricRow = regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| ([^|]*) \\| (.*) \\|$")

// Metrics reads the table of metrics of a page of operations.
func Metrics(page string) []Metric {
	_, table, _ := strings.Cut(page, "\n## Metrics\n")
	table, _, _ = strings.Cut(table, "\n## ")
	var all []Metric
	for _, row := range metricRow.FindAllStringSubmatch(table, -1) {
		m := Metric{Name: row[1], Meaning: plain(row[3])}
		for label := range strings.SplitSeq(row[2], ",") {
			if label = strings.Trim(label, " `"); label != "" {
				m.Labels = append(m.Labels, label)
			}
		}
		all = append(all, m)
	}
	return all
}

var link = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)

// plain drops the links of a text: they lead nowhere from a board.
func plain(text string) string { return link.ReplaceAllString(text, "$1") }

// DebugOnly are metrics that no panel shows, with the reason. A name that ends in _ stands for all
// that begin with it.
var DebugOnly = map[string]string{
	"go_":                                  "what the Go runtime says of itself: the panels of the process show memory and goroutines",
	"process_max_fds":                      "a limit of the system",
	"process_virtual_memory_":              "address space, which costs nothing",
	"process_network_":                     "bytes of all connections together; the rates of rows and bytes in flight say more",
	"bridge_reconcile_rows":                "how far one run is: bridge status shows it with the percentage and the time left",
	"bridge_progress_bytes":                "the size of what is kept on the bus; it matters when its limit of 8 MiB is met, which the log says",
	"bridge_standby_working_since_seconds": "bridge status shows it with the host",
}

// inDebugOnly reports whether no panel has to show a metric.
func inDebugOnly(name string) bool {
	for listed := range DebugOnly {
		if name == listed || strings.HasSuffix(listed, "_") && strings.HasPrefix(name, listed) {
			return true
		}
	}
	return false
}

var metricName = regexp.MustCompile(`\b(?:bridge|go|process)_[a-z_]+\b`)

// OnBoard returns the metrics that the panels ask for. Series of a histogram have its name.
func OnBoard() map[string]bool {
	names := make(map[string]bool)
	for i := range sections {
		for j := range sections[i].panels {
			for _, q := range sections[i].panels[j].queries {
				for _, name := range asked(q.expr) {
					names[name] = true
				}
			}
		}
	}
	return names
}

// asked returns the metrics that an expression asks for.
func asked(expr string) []string {
	names := metricName.FindAllString(expr, -1)
	for i := range names {
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			names[i] = strings.TrimSuffix(names[i], suffix)
		}
	}
	return names
}

// Unshown returns those of registered metrics that are neither on the board nor for debugging only.
func Unshown(registered []string) (names []string) {
	shown := OnBoard()
	for _, name := range registered {
		if !shown[name] && !inDebugOnly(name) {
			names = append(names, name)
		}
	}
	return names
}

// Unknown returns the metrics that the board and the alerts ask for and that are not registered.
func Unknown(registered []string) (names []string) {
	there := make(map[string]bool)
	for _, name := range registered {
		there[name] = true
	}
	for name := range OnBoard() {
		if !there[name] {
			names = append(names, name)
		}
	}
	for i := range Alerts {
		for _, name := range asked(Alerts[i].Expr) {
			if !there[name] {
				names = append(names, name)
			}
		}
	}
	return names
}
