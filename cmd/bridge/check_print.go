package main

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"bridge/internal/inspect"
)

const (
	// pageWidth fits a terminal of 80 columns; statements are never broken.
	pageWidth = 79
	// mostStatements are printed of many like ones; --json has all.
	mostStatements = 4
)

// colours are escape sequences by severity.
var colours = map[inspect.Severity]string{inspect.OK: "\x1b[32m", inspect.Note: "\x1b[36m", inspect.Warning: "\x1b[33m", inspect.Unsafe: "\x1b[1;31m"}

// tally counts findings by severity, those that differ in their subject only once.
func tally(groups []group) map[inspect.Severity]int {
	counts := make(map[inspect.Severity]int)
	for _, g := range groups {
		for _, m := range merge(g.Findings) {
			counts[m.Severity]++
		}
	}
	return counts
}

// printFindings prints groups for people.
func (p *process) printFindings(groups []group) error {
	out := &findingPrinter{colour: p.colourful()}
	width := 0
	for _, g := range groups {
		width = max(width, utf8.RuneCountInString(g.title()))
	}
	for _, g := range groups {
		out.group(g, width)
	}
	counts := tally(groups)
	switch {
	case counts[inspect.Unsafe] > 0:
	case counts[inspect.Warning]+counts[inspect.Note] == 0:
		out.text.WriteString("\nnothing found: bridge run can be started\n")
	default:
		fmt.Fprintf(&out.text, "\nnothing unsafe: %s, %s\n", count(counts[inspect.Warning], "warning"), count(counts[inspect.Note], "note"))
	}
	_, err := fmt.Fprint(p.stdout, p.secrets.clean(out.text.String()))
	return err
}

// colourful reports whether stdout may be coloured: on a terminal, unless NO_COLOR or a dumb terminal says otherwise.
func (p *process) colourful() bool {
	return isTerminal(p.stdout) && p.variable("NO_COLOR") == "" && p.variable("TERM") != "dumb"
}

// variable returns a variable of the environment that is not of bridge.
func (p *process) variable(name string) string {
	value := ""
	for _, entry := range p.environ {
		if v, ok := strings.CutPrefix(entry, name+"="); ok {
			value = v
		}
	}
	return value
}

func (g *group) title() string {
	if g.kind == "stream" {
		return visible("stream " + g.name)
	}
	return g.kind
}

// findingPrinter writes lines.
type findingPrinter struct {
	text   strings.Builder
	colour bool
}

// group writes a line for the group and a paragraph for each finding.
func (o *findingPrinter) group(g group, width int) {
	head := fmt.Sprintf("%-*s  ", width, g.title())
	o.text.WriteString(head)
	if g.skipped {
		o.text.WriteString("-        ")
	} else {
		o.severity(inspect.Worst(g.Findings))
	}
	o.wrap(g.Summary, width+2+9)
	for _, m := range merge(g.Findings) {
		o.finding(&m)
	}
}

func (o *findingPrinter) severity(s inspect.Severity) {
	word := fmt.Sprintf("%-9s", s)
	if o.colour {
		trimmed := strings.TrimRight(word, " ")
		word = colours[s] + trimmed + "\x1b[0m" + word[len(trimmed):]
	}
	o.text.WriteString(word)
}

func (o *findingPrinter) finding(m *merged) {
	const indent = 4
	o.text.WriteString(strings.Repeat(" ", indent))
	o.severity(m.Severity)
	// A colon reads as the end of what and the beginning of do.
	what := m.subject() + " " + m.What
	if m.Do != "" {
		what += ". " + capital(m.Do)
	}
	if len(m.statements) > 0 {
		what += ":"
	}
	o.wrap(what, indent+9)
	for _, statement := range m.statements[:min(len(m.statements), mostStatements)] {
		o.text.WriteString(strings.Repeat(" ", indent+9+2) + visible(statement) + "\n")
	}
	if more := len(m.statements) - mostStatements; more > 0 {
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

// wrap writes text from column at on, broken between words, and ends the line.
func (o *findingPrinter) wrap(text string, at int) {
	column := at
	for i, word := range strings.Fields(visible(text)) {
		length := utf8.RuneCountInString(word)
		switch {
		case i > 0 && column+1+length > pageWidth:
			o.text.WriteString("\n" + strings.Repeat(" ", at))
			column = at
		case i > 0:
			o.text.WriteByte(' ')
			column++
		}
		o.text.WriteString(word)
		column += length
	}
	o.text.WriteByte('\n')
}

// visible replaces what a terminal would obey.
func visible(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
}

// findingView is a finding as --json shows it.
type findingView struct {
	Severity  inspect.Severity `json:"severity"`
	Code      inspect.Code     `json:"code"`
	Subject   string           `json:"subject"`
	What      string           `json:"what"`
	Do        string           `json:"do,omitempty"`
	Statement string           `json:"statement,omitempty"`
}

// groupView is a group as --json shows it.
type groupView struct {
	Group  string `json:"group"`
	Stream string `json:"stream,omitempty"`
	// Severity is "skipped" for what could not be looked at because something else is away.
	Severity string        `json:"severity"`
	Summary  string        `json:"summary"`
	Findings []findingView `json:"findings"`
}

// printFindingsJSON prints groups for programs.
func (p *process) printFindingsJSON(groups []group) error {
	clean := p.secrets.clean
	worst := inspect.OK
	views := make([]groupView, 0, len(groups))
	for _, g := range groups {
		view := groupView{Group: g.kind, Stream: g.name, Severity: inspect.Worst(g.Findings).String(), Summary: clean(g.Summary), Findings: []findingView{}}
		if g.skipped {
			view.Severity = "skipped"
		}
		worst = max(worst, inspect.Worst(g.Findings))
		for _, f := range g.Findings {
			view.Findings = append(view.Findings, findingView{f.Severity, f.Code, f.Subject, clean(f.What), clean(f.Do), clean(f.Statement)})
		}
		views = append(views, view)
	}
	return p.printJSON(struct {
		Severity inspect.Severity `json:"severity"`
		Groups   []groupView      `json:"groups"`
	}{worst, slices.Clip(views)})
}
