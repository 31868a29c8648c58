package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"example.org/bridge/client/bus"
	"example.org/bridge/source"
)

// named are the tables that TABLE names without a pattern.
func (s *Stream) named() []string {
	if len(s.Patterns) == 0 {
		return s.items
	}
	return slices.DeleteFunc(slices.Clone(s.items), source.IsPattern)
}

// HasPatterns reports whether a stream has tables that match a pattern.
func (c *Config) HasPatterns() bool {
	return slices.ContainsFunc(c.Streams, func(s Stream) bool { return len(s.Patterns) > 0 })
}

// PatternsOf returns the patterns of a stream that are of a source.
func (all Sources) PatternsOf(s *Stream, of *Source) (patterns []string) {
	for _, pattern := range s.Patterns {
		if src, _ := all.SourceOf(pattern); src.Name == of.Name {
			patterns = append(patterns, pattern)
		}
	}
	return patterns
}

// Matcher returns a function that returns the name that a table of a source has in a stream, by the
// first pattern that it matches; false where it matches none.
func (all Sources) Matcher(s *Stream, of *Source) func(t source.TableName) (name, pattern string, ok bool) {
	patterns := all.PatternsOf(s, of)
	return func(t source.TableName) (name, pattern string, ok bool) {
		for _, pattern := range patterns {
			_, rest := all.SourceOf(pattern)
			begin := strings.TrimSuffix(pattern, rest)
			if of.Alone {
				// Every file calls its database main.
				rest = rest[strings.LastIndex(rest, ".")+1:]
				t.Database = of.Database
			}
			switch {
			case !t.Match(rest, of.Database):
			case strings.Contains(rest, "."):
				return begin + t.Database + "." + t.Table, pattern, true
			default:
				return begin + t.Table, pattern, true
			}
		}
		return "", "", false
	}
}

// Matched reports whether a stream may have a table by this name because of its patterns alone.
func (all Sources) Matched(s *Stream, name string) bool {
	return all.matchedBy(s.Patterns, name) && !slices.Contains(s.items, name)
}

func (all Sources) matchedBy(patterns []string, name string) bool {
	src, rest := all.SourceOf(name)
	database, table, qualified := strings.Cut(rest, ".")
	if !qualified {
		database, table = src.Database, rest
	}
	matched, _, ok := all.Matcher(&Stream{Patterns: patterns}, src)(source.TableName{Database: database, Table: table})
	return ok && matched == name
}

// Matching returns the tables of a stream that match one of its patterns.
func (all Sources) Matching(s *Stream, pattern string) []string {
	return slices.DeleteFunc(slices.Clone(s.Tables), func(table string) bool { return !all.matchedBy([]string{pattern}, table) })
}

// WithTables returns the configuration with those tables that match patterns, by stream. One that
// is named as well is there once.
func (c *Config) WithTables(matched map[string][]string) *Config {
	with := *c
	with.Streams = slices.Clone(c.Streams)
	for i := range with.Streams {
		s := &with.Streams[i]
		if len(s.Patterns) == 0 {
			continue
		}
		s.Tables, s.Looked = with.Share.owned(s, s.named()), true
		named := c.Has(s)
		for _, table := range matched[s.Name] {
			if !named(table) && with.Share.Owns(s, table) {
				s.Tables = append(s.Tables, table)
			}
		}
	}
	return &with
}

// Has returns a function that reports whether a stream has a table by a name, or by another one.
func (all Sources) Has(s *Stream) func(name string) bool {
	full := func(name string) string { database, table := all.physical(name); return database + "." + table }
	known := make(map[string]bool)
	for _, table := range s.Tables {
		known[full(table)] = true
	}
	return func(name string) bool { return known[full(name)] }
}

// ErrName is returned for a table that no setting can give to a stream.
var ErrName = errors.New("TABLE cannot name it")

// CanPublish returns why a stream cannot have a table that matches a pattern, nil if it can: what
// Load refuses of a table that is named.
func (c *Config) CanPublish(s *Stream, table string) error {
	if items, err := source.ExpandTables(table); err != nil || len(items) != 1 || items[0] != table || source.IsPattern(table) || !c.Matched(s, table) {
		return ErrName
	}
	if !c.Sink.Destinations.Topics || len(s.routed) > 0 {
		// DESTINATIONS has been checked, and bounds every row.
		return nil
	}
	switch topic := c.Destination(s, table); {
	case bus.CheckTopic(topic) != nil:
		return fmt.Errorf("DESTINATION makes a name of it that no Kafka topic can have: %w", bus.CheckTopic(topic))
	case topic == s.DeadLetter, topic == c.CheckpointTopic:
		return errors.New("DESTINATION leads to the topic of DEAD_LETTER or of the checkpoint with it")
	}
	return nil
}

// sample returns a table that may match a pattern; a name stays as it is.
func sample(item string) string { return strings.NewReplacer("*", "x", "?", "x").Replace(item) }

func (l *loader) checkOverlap(cfg *Config, first, second *Stream) {
	for at, b := range second.items {
		for before, a := range first.items {
			if (source.IsPattern(a) || source.IsPattern(b)) && cfg.mayShare(a, b) {
				l.add(StreamPrefix(second.Name)+"TABLE", "has item %d, which may match a table that item %d of %sTABLE has too: a table of a pattern belongs to one stream, make them differ",
					at+1, before+1, StreamPrefix(first.Name))
				return
			}
		}
	}
}

// mayShare reports whether a table can be meant by two items.
func (all Sources) mayShare(a, b string) bool {
	ofA, _ := all.SourceOf(a)
	ofB, _ := all.SourceOf(b)
	if ofA.Name != ofB.Name {
		return false
	}
	databaseA, tableA := all.physical(a)
	databaseB, tableB := all.physical(b)
	return source.MayShare(databaseA, databaseB) && source.MayShare(tableA, tableB)
}
