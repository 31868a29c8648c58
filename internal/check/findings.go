package check

import (
	"slices"
	"strings"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/event"
	"example.org/bridge/internal/config"
	"example.org/bridge/internal/inspect"
	"example.org/bridge/internal/option"
	"example.org/bridge/internal/stream"
)

// meaningFindings returns a finding for each table of a stream whose checkpoint was made with
// another configuration.
func meaningFindings(cfg *config.Config, s *config.Stream, shards []store.ShardState) []inspect.Finding {
	var r inspect.Report
	for _, one := range shards {
		if one.Key.Stream != s.Name || one.Meaning == nil || !slices.Contains(s.Tables, one.Key.Shard) {
			continue
		}
		differences := one.Meaning.Differences(cfg.Meaning(s, one.Key.Shard))
		if len(differences) == 0 {
			continue
		}
		reset, goOn := stream.MeaningCommands(one.Key, one.Meaning, one.Progress.Position, differences)
		says := "put the setting back, or stop bridge, then to have the stream begin at its START again"
		if goOn != "" {
			says, reset = says+", or to go on after the rows that were published", reset+"\n"+goOn
		}
		r.Add(inspect.Unsafe, inspect.CheckpointMeaning, one.Key.Shard, "has a checkpoint that was made with another configuration: "+differences.String()).
			Says("%s", says).Types("%s", reset)
	}
	return r.Findings
}

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
		b := stream.BreakOf(one.Schema, schema)
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

// resolveUnreadable says what it means that a destination cannot be read back: a capability stream
// needs that, a release stream goes on by its checkpoint.
func resolveUnreadable(r *inspect.Report, cfg *config.Config) {
	if !cfg.Sink.Readable() {
		r.Summary += ", for looking: what is printed cannot be read back"
		return
	}
	for i := range r.Findings {
		f := &r.Findings[i]
		if f.Code != inspect.TopicUnreadable && f.Code != inspect.StreamUnreadable || cfg.Sink.ExactlyOnce || cfg.Standby.Group != "" || carriesCapability(cfg, f.Subject) {
			continue
		}
		f.Severity = inspect.Warning
		f.What += "; rows may be published again after a kill"
	}
}

// carriesCapability reports whether a capability stream may publish to the topic or stream that a
// finding is about. Which stream of JetStream takes a subject, only the server knows.
func carriesCapability(cfg *config.Config, subject string) bool {
	return slices.ContainsFunc(cfg.Streams, func(s config.Stream) bool {
		if s.Kind != event.Capability {
			return false
		}
		topic, ok := strings.CutPrefix(subject, "topic ")
		if !ok || topic == s.DeadLetter {
			return true
		}
		return slices.ContainsFunc(s.Tables, func(table string) bool {
			return cfg.Destination(&s, table) == topic
		})
	})
}
