package deploy_test

import (
	"bytes"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"example.org/bridge/tests/must"
	"example.org/bridge/tests/testenv"
)

// alert is a rule of prometheus/rules.yaml.
type alert struct {
	Alert, Expr string
	Labels      map[string]string
	Annotations struct {
		Summary, Description string
		Runbook              string `yaml:"runbook_url"`
	}
}

func alerts(t *testing.T) []alert {
	t.Helper()
	var file struct{ Groups []struct{ Rules []alert } }
	must.OK(t, yaml.Unmarshal([]byte(read(t, "prometheus/rules.yaml")), &file))
	return file.Groups[0].Rules
}

func marshal(t *testing.T, document any) string {
	t.Helper()
	var b bytes.Buffer
	encoder := yaml.NewEncoder(&b)
	encoder.SetIndent(2)
	must.OK(t, encoder.Encode(document))
	return b.String()
}

var heading = regexp.MustCompile(`(?m)^#{1,6} (.*)$`)

// anchors returns those of the headings of a page, as GitHub makes them.
func anchors(page string) (all []string) {
	for _, found := range heading.FindAllStringSubmatch(page, -1) {
		slug := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z':
				return r
			}
			return -1
		}, strings.ToLower(found[1]))
		all = append(all, slug)
	}
	return all
}

func TestEachAlertLinksAParagraph(t *testing.T) {
	there := anchors(operations(t))
	for _, a := range alerts(t) {
		if page, anchor, _ := strings.Cut(a.Annotations.Runbook, "#"); page != "docs/operations.md" || !slices.Contains(there, anchor) {
			t.Errorf("%s links %s, which is not there", a.Alert, a.Annotations.Runbook)
		}
	}
}

func TestEachAlertSaysWhatToDo(t *testing.T) {
	seen := make(map[string]bool)
	for _, a := range alerts(t) {
		if seen[a.Alert] || !strings.HasPrefix(a.Alert, "Bridge") {
			t.Errorf("the name %s", a.Alert)
		}
		seen[a.Alert] = true
		severity, text := a.Labels["severity"], a.Annotations
		if !slices.Contains([]string{"critical", "warning", "info"}, severity) || text.Summary == "" || len(text.Description) < 80 {
			t.Errorf("%s: severity %q, summary %q, description %q", a.Alert, severity, text.Summary, text.Description)
		}
	}
}

func TestEachAlertHasACaseInWhichItFires(t *testing.T) {
	fired := make(map[string]bool)
	for _, c := range alertCases {
		for _, alert := range listed(c.fires) {
			name, _, _ := strings.Cut(alert, "{")
			fired[name] = true
		}
	}
	for _, a := range alerts(t) {
		if !fired[a.Alert] {
			t.Errorf("no case in which %s fires", a.Alert)
		}
	}
}

// TestRulesFire has promtool evaluate the cases: exactly the alerts of a case fire at its end.
func TestRulesFire(t *testing.T) {
	t.Parallel()
	const dir = "prometheus"
	must.Get(testenv.Promtool(dir, "check", "rules", "rules.yaml").Try(t))(t)
	if _, err := testenv.Promtool(dir, "test", "rules", "rules_test.yaml").Try(t); err != nil {
		t.Error(err)
	}
}

func TestNothingAtAllIsAnAlert(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "rules.yaml"), read(t, "prometheus/rules.yaml"))
	write(t, filepath.Join(dir, "tests.yaml"), marshal(t, ruleTests{
		RuleFiles: []string{"rules.yaml"}, EvaluationInterval: "1m", Tests: []ruleTest{{
			Name: "Prometheus knows no bridge", Interval: "1m", Input: []inputSerie{{`up{job="node"}`, "1x10"}},
			Exprs: []exprTest{{Expr: `ALERTS{alertstate="firing"}`, At: "5m", Samples: []sample{{`ALERTS{alertname="BridgeAbsent", alertstate="firing", severity="critical"}`, 1}}}},
		}},
	}))
	if _, err := testenv.Promtool(dir, "test", "rules", "tests.yaml").Try(t); err != nil {
		t.Error(err)
	}
}
