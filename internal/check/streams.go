package check

import (
	"fmt"
	"strings"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/internal/config"
	"example.org/bridge/internal/inspect"
	"example.org/bridge/internal/option"
	"example.org/bridge/internal/terminal"
	"example.org/bridge/source"
)

// streamGroups returns a group for every stream, with the findings about its tables.
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
		g.Findings = append(g.Findings, unmatched(cfg, s)...)
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
		if s.Looked && len(s.Tables) == 0 {
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
		for _, pattern := range s.Patterns {
			parts = append(parts, matches(cfg, s, pattern))
		}
		g.Summary = strings.Join(append(parts, tailFrom(s, kept.Known, positions)), ", ")
		groups = append(groups, g)
	}
	return groups
}

// shownMatches is how many tables of a pattern are named.
const shownMatches = 5

// matches names the tables that a pattern has matched.
func matches(cfg *config.Config, s *config.Stream, pattern string) string {
	names := cfg.Matching(s, pattern)
	shown := strings.Join(names[:min(shownMatches, len(names))], ", ")
	if len(names) > shownMatches {
		shown += ", …"
	}
	if shown != "" {
		shown = " (" + shown + ")"
	}
	return fmt.Sprintf("%s matches %s%s", pattern, terminal.Count(len(names), "table"), shown)
}

// unmatched returns a finding for each pattern that no table matches.
func unmatched(cfg *config.Config, s *config.Stream) []inspect.Finding {
	var r inspect.Report
	for _, pattern := range s.Patterns {
		if s.Looked && len(cfg.Matching(s, pattern)) == 0 {
			r.Add(inspect.Unsafe, inspect.NoTable, pattern, "matches no table that the login may read: bridge waits for one").
				Says("correct %s, grant SELECT, or create the table", option.Table)
		}
	}
	return r.Findings
}

// orderOf describes how the ids of tables are handed out, and why if it is the same for all.
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

// tailFrom describes where the tail of a stream begins or resumes.
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
