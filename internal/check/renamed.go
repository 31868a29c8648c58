package check

import (
	"fmt"
	"slices"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/event"
	"example.org/bridge/internal/config"
	"example.org/bridge/internal/inspect"
)

// FormerName returns a finding where a table that has no progress is known under a name with
// another source, which the stream neither names nor matches any more; nil where it is not.
func FormerName(cfg *config.Config, s *config.Stream, table string, known map[store.Key]store.Progress) *inspect.Finding {
	if known[store.Key{Stream: s.Name, Shard: table}].Started {
		return nil
	}
	former := ""
	for key, p := range known {
		if key.Stream == s.Name && p.Started && config.SameTable(key.Shard, table) && !slices.Contains(s.Tables, key.Shard) && !cfg.Matched(s, key.Shard) && (former == "" || key.Shard < former) {
			former = key.Shard
		}
	}
	if former == "" {
		return nil
	}
	var r inspect.Report
	f := r.Add(inspect.Unsafe, inspect.CheckpointMeaning, table,
		fmt.Sprintf("was published as %s, which %sTABLE does not name any more: under another name its rows would be published again, with other ids", former, config.StreamPrefix(s.Name)))
	keep, all := "keep the former name ("+config.SourceHint(former)+"); or stop bridge, then ", fmt.Sprintf("bridge checkpoint set %s %s 0", s.Name, table)
	switch {
	case s.Kind == event.Release:
		return f.Says("%s", keep+"to go on under the new name, where it is the same table, behind its rows and with its gaps; where it is another table, "+all+" publishes all its rows").
			Types("bridge checkpoint move %s %s %s", s.Name, former, table)
	case len(s.Key) == 0:
		// Its entities belong to the former table.
		return f.Says("%s", keep+"to publish all its rows under the new name").Types("%s", all)
	}
	return f.Says("%s", keep+"to have all its rows read again, and those published that have changed").Types("%s", all)
}
