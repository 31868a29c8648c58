package main

import (
	"fmt"
	"strings"

	"bridge/checkpoint"
	"bridge/internal/inspect"
	"bridge/source"
)

// streamGroups returns a group for every stream, with the findings about its tables.
func streamGroups(cfg *Config, from source.Inspection, store *checkpoint.Inspection, positions map[checkpoint.Key]uint64) []group {
	var groups []group
	rest := from.Tables
	for i := range cfg.Streams {
		s := &cfg.Streams[i]
		g := group{kind: "stream", name: s.Name}
		if from.Tables == nil {
			g.skipped, g.Summary = true, count(len(s.Tables), "table")+", not looked at"
			groups = append(groups, g)
			continue
		}
		tables := rest[:len(s.Tables)]
		rest = rest[len(s.Tables):]
		for _, table := range tables {
			g.Findings = append(g.Findings, table.Findings...)
		}
		parts := []string{count(len(s.Tables), "table")}
		if order := orderOf(tables); order != "" {
			parts = append(parts, "ids "+order)
		}
		g.Summary = strings.Join(append(parts, tailFrom(s, store.Known, positions)), ", ")
		groups = append(groups, g)
	}
	return groups
}

// orderOf says how the ids of tables are taken to be handed out, and why where it is the same for all.
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
		orders[i] = fmt.Sprintf("%s in %s", order, count(counts[order], "table"))
	}
	return strings.Join(orders, ", ")
}

// tailFrom says where the tail of a stream begins or goes on.
func tailFrom(s *Stream, known bool, positions map[checkpoint.Key]uint64) string {
	begun := 0
	var position uint64
	for _, table := range s.Tables {
		if id, ok := positions[checkpoint.Key{Stream: s.Name, Shard: table}]; ok {
			begun, position = begun+1, id
		}
	}
	begin := "at the first row"
	switch {
	case s.Start.latest:
		begin = "behind the latest row"
	case s.Start.after > 0:
		begin = fmt.Sprintf("behind id %d", s.Start.after)
	}
	switch {
	case !known:
		return "tail goes on where the checkpoint says"
	case begun == 1 && len(s.Tables) == 1:
		return fmt.Sprintf("tail goes on behind id %d", position)
	case begun == len(s.Tables):
		return "tails go on behind their checkpoints"
	case begun > 0:
		return fmt.Sprintf("tails: %d behind their checkpoints, %d %s", begun, len(s.Tables)-begun, begin)
	}
	return "tail begins " + begin
}

// merged is one finding about one or more tables.
type merged struct {
	inspect.Finding
	subjects, statements []string
}

// subject names the first subjects.
func (m *merged) subject() string {
	if len(m.subjects) > 1 {
		return "each of " + firstFew(m.subjects)
	}
	return m.Subject
}

// merge makes one of the findings that differ in their subject and statement only.
func merge(findings []inspect.Finding) []merged {
	type same struct {
		code     inspect.Code
		what, do string
	}
	var all []merged
	at := make(map[same]int)
	for _, f := range findings {
		key := same{f.Code, f.What, f.Do}
		i, known := at[key]
		if !known {
			i = len(all)
			at[key] = i
			all = append(all, merged{Finding: f})
		}
		all[i].subjects = append(all[i].subjects, f.Subject)
		if f.Statement != "" {
			all[i].statements = append(all[i].statements, strings.Split(f.Statement, "\n")...)
		}
	}
	return all
}
