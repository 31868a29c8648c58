package monitoring

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Runbook is the page whose paragraphs the alerts link to, unless they are given another URL.
const Runbook = "docs/operations.md"

// Alert is one rule. In Expr, {5m} stands for that time in seconds, and [5m] is a range.
type Alert struct {
	Name, Severity string
	Expr           string
	// For is how long Expr must hold.
	For time.Duration
	// Summary and Description are for the person on call; Description says what to do. Both may
	// hold templates of Prometheus.
	Summary, Description string
	// Anchor is the paragraph of the runbook.
	Anchor string
}

// The severities: a person is called at once, looks within the day, or reads of it.
const (
	critical = "critical"
	warning  = "warning"
	info     = "info"
)

// rule and the types below are the form of Prometheus.
type rule struct {
	Alert       string            `yaml:"alert"`
	Expr        string            `yaml:"expr"`
	For         string            `yaml:"for,omitempty"`
	Labels      map[string]string `yaml:"labels"`
	Annotations annotations       `yaml:"annotations"`
}

type annotations struct {
	Summary     string `yaml:"summary"`
	Description string `yaml:"description"`
	Runbook     string `yaml:"runbook_url"`
}

type ruleGroup struct {
	Name  string `yaml:"name"`
	Rules []rule `yaml:"rules"`
}

// Rules returns the alerts as a file of rules, with all times divided by scale.
func Rules(scale int) ([]byte, error) {
	group := ruleGroup{Name: "bridge"}
	for i := range Alerts {
		a := &Alerts[i]
		group.Rules = append(group.Rules, rule{
			Alert: a.Name, Expr: scaled(a.Expr, scale), For: duration(a.For / time.Duration(scale)),
			Labels: map[string]string{"severity": a.Severity},
			Annotations: annotations{
				Summary: a.Summary, Description: strings.Join(strings.Fields(a.Description), " "), Runbook: Runbook + "#" + a.Anchor,
			},
		})
	}
	return marshal(map[string][]ruleGroup{"groups": {group}})
}

func marshal(document any) ([]byte, error) {
	var b bytes.Buffer
	encoder := yaml.NewEncoder(&b)
	encoder.SetIndent(2)
	if err := encoder.Encode(document); err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	return b.Bytes(), nil
}

var timeInExpr = regexp.MustCompile(`\{\d+[smhd]\}|\[\d+[smhd]\]`)

// leastRange holds the two scrapes that a rate takes, where tests scrape every four seconds.
const leastRange = 10 * time.Second

// scaled returns an expression with its times divided by scale.
func scaled(expr string, scale int) string {
	return timeInExpr.ReplaceAllStringFunc(strings.TrimSpace(expr), func(found string) string {
		d := parseTime(found[1:len(found)-1]) / time.Duration(scale)
		if found[0] == '{' {
			return strconv.FormatFloat(d.Seconds(), 'f', -1, 64)
		}
		return "[" + duration(max(d, leastRange)) + "]"
	})
}

// parseTime reads a time that timeInExpr matches, which may be in days.
func parseTime(text string) time.Duration {
	unit := map[byte]time.Duration{'s': time.Second, 'm': time.Minute, 'h': time.Hour, 'd': 24 * time.Hour}[text[len(text)-1]]
	n, _ := strconv.Atoi(text[:len(text)-1]) // there are digits only
	return time.Duration(n) * unit
}

// duration renders a time for Prometheus in its largest whole unit; empty for 0.
func duration(d time.Duration) string {
	switch {
	case d == 0:
		return ""
	case d%time.Hour == 0:
		return fmt.Sprintf("%dh", d/time.Hour)
	case d%time.Minute == 0:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d%time.Second == 0:
		return fmt.Sprintf("%ds", d/time.Second)
	}
	return fmt.Sprintf("%dms", d/time.Millisecond)
}
