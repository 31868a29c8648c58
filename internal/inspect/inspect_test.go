package inspect_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"example.org/bridge/internal/inspect"
	"example.org/bridge/tests/must"
)

func TestEveryCodeIsExplained(t *testing.T) {
	read := func(path string, pattern string) []string {
		text := must.Get(os.ReadFile(path))(t)
		var codes []string
		for _, match := range regexp.MustCompile(pattern).FindAllStringSubmatch(string(text), -1) {
			codes = append(codes, match[1])
		}
		slices.Sort(codes)
		return codes
	}
	declared := read("inspect.go", `Code = "([a-z-]+)"`)
	_, findings, _ := strings.Cut(mustRead(t, "../../docs/findings.md"), "\n| code | severity |")
	findings, _, _ = strings.Cut(findings, "\n## ")
	var explained []string
	for _, match := range regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\|").FindAllStringSubmatch(findings, -1) {
		explained = append(explained, match[1])
	}
	slices.Sort(explained)
	if len(declared) == 0 || !slices.Equal(declared, explained) {
		t.Errorf("the package declares\n%q\ndocs/findings.md explains\n%q", declared, explained)
	}
}

func mustRead(t *testing.T, path string) string {
	t.Helper()
	text := must.Get(os.ReadFile(path))(t)
	return string(text)
}

func TestWorst(t *testing.T) {
	var r inspect.Report
	if got := inspect.Worst(r.Findings); got != inspect.OK {
		t.Errorf("nothing found is %v", got)
	}
	r.Add(inspect.Warning, inspect.Stride, "server", "counts in steps of 3")
	r.Add(inspect.Note, inspect.Clock, "server", "is 3 s ahead").Says("set the clock of host %s", "a").Types("ntpdate")
	if got := inspect.Worst(r.Findings); got != inspect.Warning {
		t.Errorf("a warning and a note are %v", got)
	}
	if got := r.Findings[1].String(); got != "server is 3 s ahead: set the clock of host a: ntpdate" {
		t.Errorf("printed as %q", got)
	}
}
