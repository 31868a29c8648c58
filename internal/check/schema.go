package check

import (
	"slices"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/internal/config"
	"example.org/bridge/internal/inspect"
	"example.org/bridge/internal/option"
	"example.org/bridge/internal/progress"
)

// schemasOf returns the configured shards of whose events the checkpoint knows what they looked
// like.
func schemasOf(cfg *config.Config, shards []store.ShardState) (keys []store.Key) {
	for _, one := range shards {
		if s := cfg.Stream(one.Key.Stream); s != nil && one.Schema != nil && slices.Contains(s.Tables, one.Key.Shard) {
			keys = append(keys, one.Key)
		}
	}
	return keys
}

// addSchemaFindings adds to the groups of streams a finding for each table whose events, now, lack
// something that those published last have.
func addSchemaFindings(groups []Group, cfg *config.Config, shards []store.ShardState, now map[store.Key]*store.Schema) {
	for _, one := range shards {
		schema := now[one.Key]
		if schema == nil {
			continue
		}
		b := progress.BreakOf(one.Schema, schema)
		at := slices.IndexFunc(groups, func(g Group) bool { return g.Kind == "stream" && g.Name == one.Key.Stream })
		if b == nil || at < 0 {
			continue
		}
		severity, goesOn := inspect.Warning, "the stream goes on"
		if cfg.Stream(one.Key.Stream).OnSchemaChange == "stop" {
			severity, goesOn = inspect.Unsafe, "the stream stops"
		}
		groups[at].Add(severity, inspect.SchemaChanged, one.Key.Shard, "makes events that break what consumers rely on, and "+goesOn+": "+b.String()).
			Says("change the table back, or set %s to another version than %s", option.EventVersion, b.Version)
	}
}
