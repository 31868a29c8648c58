package monitoring

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"bridge/tests/testenv"
)

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
	for _, a := range Alerts {
		if !slices.Contains(there, a.Anchor) {
			t.Errorf("%s links %s#%s, which is not there", a.Name, Runbook, a.Anchor)
		}
	}
}

func TestEachAlertSaysWhatToDo(t *testing.T) {
	seen := make(map[string]bool)
	for _, a := range Alerts {
		if seen[a.Name] || !strings.HasPrefix(a.Name, "Bridge") {
			t.Errorf("the name %s", a.Name)
		}
		seen[a.Name] = true
		if !slices.Contains([]string{critical, warning, info}, a.Severity) || a.Summary == "" || len(a.Description) < 80 {
			t.Errorf("%s: severity %q, summary %q, description %q", a.Name, a.Severity, a.Summary, a.Description)
		}
	}
}

func TestEachAlertHasACaseInWhichItFires(t *testing.T) {
	fired := make(map[string]bool)
	for _, c := range alertCases {
		for _, alert := range c.fires {
			name, _, _ := strings.Cut(alert, "{")
			fired[name] = true
		}
	}
	for _, a := range Alerts {
		if !fired[a.Name] {
			t.Errorf("no case in which %s fires", a.Name)
		}
	}
}

// TestRulesFire has promtool evaluate the cases: exactly the alerts of a case fire at its end.
func TestRulesFire(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(top, "deploy", "prometheus")
	if out, err := testenv.Promtool(t, dir, "check", "rules", "rules.yaml"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if out, err := testenv.Promtool(t, dir, "test", "rules", "rules_test.yaml"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestNothingAtAllIsAnAlert(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rules, err := Rules(1)
	if err != nil {
		t.Fatal(err)
	}
	tests, err := marshal(ruleTests{
		RuleFiles: []string{"rules.yaml"}, EvaluationInterval: "1m", Tests: []ruleTest{{
			Name: "Prometheus knows no bridge", Interval: "1m", Input: []inputSerie{{`up{job="node"}`, "1x10"}},
			Exprs: []exprTest{{Expr: `ALERTS{alertstate="firing"}`, At: "5m", Samples: []sample{{`ALERTS{alertname="BridgeAbsent", alertstate="firing", severity="critical"}`, 1}}}},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{"rules.yaml": rules, "tests.yaml": tests} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := testenv.Promtool(t, dir, "test", "rules", "tests.yaml"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestScaledTimes(t *testing.T) {
	const expr = `rate(bridge_late_records_total{stream="a"}[15m]) > {30m} and x[1d]`
	for scale, want := range map[int]string{
		1:  `rate(bridge_late_records_total{stream="a"}[15m]) > 1800 and x[24h]`,
		60: `rate(bridge_late_records_total{stream="a"}[15s]) > 30 and x[24m]`,
		// A rate takes two scrapes.
		600: `rate(bridge_late_records_total{stream="a"}[10s]) > 3 and x[144s]`,
	} {
		if got := scaled(expr, scale); got != want {
			t.Errorf("by %d: %s, want %s", scale, got, want)
		}
	}
}
