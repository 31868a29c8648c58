package check

import (
	"slices"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/internal/config"
	"example.org/bridge/internal/inspect"
	"example.org/bridge/internal/progress"
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
		reset, goOn := progress.MeaningCommands(one.Key, one.Meaning, one.Progress.Position, differences)
		says := "put the setting back, or stop bridge, then to have the stream begin at its START again"
		if goOn != "" {
			says, reset = says+", or to go on after the rows that were published", reset+"\n"+goOn
		}
		r.Add(inspect.Unsafe, inspect.CheckpointMeaning, one.Key.Shard, "has a checkpoint that was made with another configuration: "+differences.String()).
			Says("%s", says).Types("%s", reset)
	}
	return r.Findings
}
