package monitoring

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
)

var update = flag.Bool("update", false, "write the board, the rules and their tests")

const updateCommand = "go test ./internal/monitoring -update"

// top is the top of the repository.
const top = "../../"

func operations(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(top + "docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// head stands above generated files of YAML.
const head = "# Written by `" + updateCommand + "`.\n"

// rulesHead says how the plain file is used.
const rulesHead = head + `# Alerts for Prometheus 2.42 or later: name the file in rule_files. The tests are in rules_test.yaml: promtool test rules rules_test.yaml
# Before the first answer of a bridge its alerts know it by a job whose name contains "bridge".
# runbook_url is a path in the repository: replace docs/operations.md with where your people read it.
`

// files returns the generated files by their paths.
func files(t *testing.T) map[string]string {
	t.Helper()
	rules, err := Rules(1)
	if err != nil {
		t.Fatal(err)
	}
	board, err := Board(Metrics(operations(t)))
	if err != nil {
		t.Fatal(err)
	}
	tests, err := testFile()
	if err != nil {
		t.Fatal(err)
	}
	return map[string]string{
		"deploy/grafana/bridge.json":              string(board),
		"deploy/prometheus/rules.yaml":            rulesHead + string(rules),
		"deploy/prometheus/rules_test.yaml":       head + string(tests),
		"deploy/helm/bridge/files/rules.yaml":     head + string(rules),
		"deploy/helm/bridge/files/dashboard.json": string(board),
	}
}

func TestFilesAreWhatTheListsSay(t *testing.T) {
	for name, want := range files(t) {
		path := filepath.Join(top, name)
		if *update {
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != want {
			t.Errorf("%s is not what the lists say: run %s", name, updateCommand)
		}
	}
}
