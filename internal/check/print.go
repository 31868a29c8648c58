package check

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/event"
	"example.org/bridge/internal/config"
	"example.org/bridge/internal/inspect"
	"example.org/bridge/internal/option"
	"example.org/bridge/internal/terminal"
	"example.org/bridge/source"
)

// keyFindings returns a finding for each table whose KEY has another form than that of the first
// table of the stream.
func keyFindings(s *config.Stream, inspected map[store.Key]source.TableInspection) []inspect.Finding {
	var r inspect.Report
	first := -1
	for i, name := range s.Tables {
		switch is := inspected[store.Key{Stream: s.Name, Shard: name}]; {
		case is.Order == "" || s.Kind == event.Release || len(s.Key) == 0:
		case first < 0:
			first = i
		default:
			was := inspected[store.Key{Stream: s.Name, Shard: s.Tables[first]}]
			if is.KeyForm != was.KeyForm {
				r.Add(inspect.Warning, inspect.KeyType, name, fmt.Sprintf("has its KEY in another form (%s) than %s (%s): one value is two entities",
					cmp.Or(is.KeyForm, "as it is"), s.Tables[first], cmp.Or(was.KeyForm, "as it is"))).
					Says("give the columns of %s one type in all tables", option.Key)
			}
		}
	}
	return r.Findings
}

func streamGroups(cfg *config.Config, inspected map[store.Key]source.TableInspection, kept *store.Inspection, positions map[store.Key]uint64) []Group {
	var groups []Group
	known := make(map[store.Key]store.Progress)
	for _, one := range kept.Shards {
		known[one.Key] = one.Progress
	}
	for i := range cfg.Streams {
		s := &cfg.Streams[i]
		g := Group{Kind: "stream", Name: s.Name}
		g.Findings = meaningFindings(cfg, s, kept.Shards)
		var patterns []string
		for _, pattern := range s.Patterns {
			names := cfg.Matching(s, pattern)
			if slices.Contains(s.Unlisted, pattern) {
				patterns = append(patterns, pattern+" not looked at")
				continue
			}
			if s.Looked && len(names) == 0 {
				g.Add(inspect.Unsafe, inspect.NoTable, pattern, "matches no table that the login may read: bridge waits for one").
					Says("correct %s, grant SELECT, or create the table", option.Table)
			}
			shown := strings.Join(names[:min(shownMatches, len(names))], ", ")
			if len(names) > shownMatches {
				shown += ", …"
			}
			if shown != "" {
				shown = " (" + shown + ")"
			}
			patterns = append(patterns, fmt.Sprintf("%s matches %s%s", pattern, terminal.Count(len(names), "table"), shown))
		}
		var tables []source.TableInspection
		for _, name := range s.Tables {
			if former := FormerName(cfg, s, name, known); former != nil {
				g.Findings = append(g.Findings, *former)
			}
			if table, is := inspected[store.Key{Stream: s.Name, Shard: name}]; is {
				tables = append(tables, table)
				g.Findings = append(g.Findings, table.Findings...)
			}
		}
		g.Findings = append(g.Findings, keyFindings(s, inspected)...)
		if s.Looked && len(s.Tables)+len(s.Unlisted) == 0 {
			g.Summary = terminal.Count(0, "table")
			groups = append(groups, g)
			continue
		}
		if len(tables) == 0 {
			g.Skipped, g.Summary = true, terminal.Count(len(s.Tables), "table")+", not looked at"
			groups = append(groups, g)
			continue
		}
		parts := []string{terminal.Count(len(s.Tables), "table")}
		if left := len(s.Tables) - len(tables); left > 0 {
			parts[0] += fmt.Sprintf(" (%d not looked at)", left)
		}
		if order := orderOf(tables); order != "" {
			parts = append(parts, "ids "+order)
		}
		g.Summary = strings.Join(append(append(parts, patterns...), tailFrom(s, kept.Known, positions)), ", ")
		groups = append(groups, g)
	}
	return groups
}

const shownMatches = 5

func orderOf(tables []source.TableInspection) string {
	var orders []string
	counts := make(map[string]int)
	why := ""
	for _, table := range tables {
		order := string(table.Order)
		if order == "" {
			continue
		}
		if counts[order]++; counts[order] == 1 {
			orders = append(orders, order)
		}
		why = table.Why
	}
	if len(orders) == 1 {
		return orders[0] + " (" + why + ")"
	}
	for i, order := range orders {
		orders[i] = fmt.Sprintf("%s in %s", order, terminal.Count(counts[order], "table"))
	}
	return strings.Join(orders, ", ")
}

func tailFrom(s *config.Stream, known bool, positions map[store.Key]uint64) string {
	begun := 0
	var position uint64
	for _, table := range s.Tables {
		if id, ok := positions[store.Key{Stream: s.Name, Shard: table}]; ok {
			begun, position = begun+1, id
		}
	}
	begin := "at the first row"
	switch {
	case s.Start.Latest:
		begin = "after the latest row"
	case s.Start.After > 0:
		begin = fmt.Sprintf("after id %d", s.Start.After)
	}
	switch {
	case !known:
		return "tail goes on where the checkpoint says"
	case begun == 1 && len(s.Tables) == 1:
		return fmt.Sprintf("tail goes on after id %d", position)
	case begun == len(s.Tables):
		return "tails go on after their checkpoints"
	case begun > 0:
		return fmt.Sprintf("tails: %d after their checkpoints, %d %s", begun, len(s.Tables)-begun, begin)
	}
	return "tail begins " + begin + ", if the bus has nothing of it"
}

// Merged is one finding about one or more tables.
type Merged struct {
	inspect.Finding
	Subjects, Statements []string
}

// SubjectText names the first subjects.
func (m *Merged) SubjectText() string {
	if len(m.Subjects) > 1 {
		return "each of " + firstFew(m.Subjects)
	}
	return m.Subject
}

// Merge joins findings that differ only in subject and statement.
func Merge(findings []inspect.Finding) []Merged {
	type same struct {
		code     inspect.Code
		what, do string
	}
	var all []Merged
	at := make(map[same]int)
	for _, f := range findings {
		key := same{f.Code, f.What, f.Do}
		i, known := at[key]
		if !known {
			i = len(all)
			at[key] = i
			all = append(all, Merged{Finding: f})
		}
		all[i].Subjects = append(all[i].Subjects, f.Subject)
		if f.Statement != "" {
			all[i].Statements = append(all[i].Statements, strings.Split(f.Statement, "\n")...)
		}
	}
	return all
}

// MostStatements is how many statements of like findings are printed; --json has all.
const MostStatements = 4

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

type findingPrinter struct {
	text   strings.Builder
	colour bool
}

func (o *findingPrinter) group(g Group, width int) {
	fmt.Fprintf(&o.text, "%-*s  ", width, g.title())
	// A finding that blocks bridge is worst.
	blocks := slices.IndexFunc(g.Findings, inspect.Finding.Blocks)
	switch {
	case g.Skipped:
		o.text.WriteString("-        ")
	case blocks >= 0:
		o.label(g.Findings[blocks].Label())
	default:
		o.label(inspect.Worst(g.Findings).String())
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
		do := m.Do
		if first, size := utf8.DecodeRuneInString(do); !strings.HasPrefix(do, "bridge ") {
			do = string(unicode.ToUpper(first)) + do[size:]
		}
		what += ". " + do
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
