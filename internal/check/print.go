package check

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"example.org/bridge/internal/inspect"
	"example.org/bridge/internal/terminal"
)

// MostStatements is how many statements of like findings are printed; --json has all.
const MostStatements = 4

// colours are escape sequences by label.
var colours = map[string]string{"ok": "\x1b[32m", "note": "\x1b[36m", "warning": "\x1b[33m", "unsafe": "\x1b[1;31m", "blocks": "\x1b[1;31m"}

// Tally counts findings by label. Those that differ only in their subject count once.
func Tally(groups []Group) map[string]int {
	counts := make(map[string]int)
	for _, g := range groups {
		for _, m := range Merge(g.Findings) {
			counts[m.Label()]++
		}
	}
	return counts
}

// Text returns groups for people, in colour if colour is set.
func Text(groups []Group, colour bool) string {
	out := &findingPrinter{colour: colour}
	width := 0
	for _, g := range groups {
		width = max(width, utf8.RuneCountInString(g.title()))
	}
	for _, g := range groups {
		out.group(g, width)
	}
	counts := Tally(groups)
	switch {
	case counts["blocks"]+counts["unsafe"] > 0:
	case counts["warning"]+counts["note"] == 0:
		out.text.WriteString("\nnothing found: bridge run can be started\n")
	default:
		fmt.Fprintf(&out.text, "\nnothing unsafe: %s, %s\n", terminal.Count(counts["warning"], "warning"), terminal.Count(counts["note"], "note"))
	}
	return out.text.String()
}

func (g *Group) title() string {
	if g.Kind == "stream" {
		return terminal.Visible("stream " + g.Name)
	}
	return strings.TrimSuffix(g.Kind+" "+g.Source, " ")
}

// findingPrinter writes lines.
type findingPrinter struct {
	text   strings.Builder
	colour bool
}

// group writes a line for the group and a paragraph for each finding.
func (o *findingPrinter) group(g Group, width int) {
	head := fmt.Sprintf("%-*s  ", width, g.title())
	o.text.WriteString(head)
	if g.Skipped {
		o.text.WriteString("-        ")
	} else {
		o.label(worstLabel(g.Findings))
	}
	o.wrap(g.Summary, width+2+9)
	for _, m := range Merge(g.Findings) {
		o.finding(&m)
	}
}

func (o *findingPrinter) label(label string) {
	word := fmt.Sprintf("%-9s", label)
	if o.colour {
		trimmed := strings.TrimRight(word, " ")
		word = colours[label] + trimmed + "\x1b[0m" + word[len(trimmed):]
	}
	o.text.WriteString(word)
}

func (o *findingPrinter) finding(m *Merged) {
	const indent = 4
	o.text.WriteString(strings.Repeat(" ", indent))
	o.label(m.Label())
	// A colon reads as the end of what and the beginning of do.
	what := m.SubjectText() + " " + m.What
	if m.Do != "" {
		what += ". " + capital(m.Do)
	}
	if len(m.Statements) > 0 {
		what += ":"
	}
	o.wrap(what, indent+9)
	for _, statement := range m.Statements[:min(len(m.Statements), MostStatements)] {
		o.text.WriteString(strings.Repeat(" ", indent+9+2) + terminal.Visible(statement) + "\n")
	}
	if more := len(m.Statements) - MostStatements; more > 0 {
		fmt.Fprintf(&o.text, "%s… and %d more, see --json\n", strings.Repeat(" ", indent+9+2), more)
	}
}

func capital(text string) string {
	r, size := utf8.DecodeRuneInString(text)
	if strings.HasPrefix(text, "bridge ") {
		return text
	}
	return string(unicode.ToUpper(r)) + text[size:]
}

// worstLabel returns the label of the worst finding. A finding that blocks bridge is worst.
func worstLabel(findings []inspect.Finding) string {
	for _, f := range findings {
		if f.Blocks() {
			return f.Label()
		}
	}
	return inspect.Worst(findings).String()
}

// wrap writes text from a column on, broken between words, and a line end.
func (o *findingPrinter) wrap(text string, column int) {
	o.text.WriteString(terminal.Wrap(terminal.Visible(text), column) + "\n")
}

// Report is what --json prints.
type Report struct {
	Severity inspect.Severity `json:"severity"`
	Groups   []Group          `json:"groups"`
}

// NewReport returns groups for programs. clean is applied to all texts.
func NewReport(groups []Group, clean func(string) string) Report {
	r := Report{Groups: append([]Group{}, groups...)}
	for i := range r.Groups {
		g := &r.Groups[i]
		worst := inspect.Worst(g.Findings)
		r.Severity, g.Severity = max(r.Severity, worst), worst.String()
		if g.Skipped {
			g.Severity = "skipped"
		}
		g.Summary, g.Findings = clean(g.Summary), append([]inspect.Finding{}, g.Findings...)
		for j := range g.Findings {
			f := &g.Findings[j]
			f.What, f.Do, f.Statement = clean(f.What), clean(f.Do), clean(f.Statement)
		}
	}
	return r
}
