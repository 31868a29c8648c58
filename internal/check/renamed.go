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
// another source, which the stream does not name any more; nil where it is not.
func FormerName(s *config.Stream, table string, known map[store.Key]store.Progress) *inspect.Finding {
	if _, has := known[store.Key{Stream: s.Name, Shard: table}]; has {
		return nil
	}
	former := ""
	for key := range known {
		if key.Stream == s.Name && config.SameTable(key.Shard, table) && !slices.Contains(s.Tables, key.Shard) && (former == "" || key.Shard < former) {
			former = key.Shard
		}
	}
	if former == "" {
		return nil
	}
	var r inspect.Report
	position, says := known[store.Key{Stream: s.Name, Shard: former}].Position, "to go on under the new name behind the rows that were published"
	if s.Kind == event.Capability && len(s.Key) == 0 {
		// Its entities belong to the former table.
		position, says = 0, "to publish all its rows under the new name"
	}
	return r.Add(inspect.Unsafe, inspect.CheckpointMeaning, table,
		fmt.Sprintf("was published as %s, which %sTABLE does not name any more: under another name its rows would be published again, with other ids", former, config.StreamPrefix(s.Name))).
		Says("%s", "keep the former name ("+config.SourceHint(former)+"); or stop bridge, then "+says).
		Types("bridge checkpoint set %s %s %d", s.Name, table, position)
}
