package check

import (
	"slices"

	"bridge/checkpoint"
	"bridge/internal/config"
	"bridge/internal/inspect"
	"bridge/internal/shard"
)

// meaningFindings returns a finding for each table of a stream whose checkpoint was made with
// another configuration.
func meaningFindings(cfg *config.Config, s *config.Stream, entries []checkpoint.Entry) []inspect.Finding {
	var r inspect.Report
	for _, entry := range entries {
		if entry.Key.Stream != s.Name || entry.State.Meaning == nil || !slices.Contains(s.Tables, entry.Key.Shard) {
			continue
		}
		differences := entry.State.Meaning.Differences(cfg.Meaning(s, entry.Key.Shard))
		if len(differences) == 0 {
			continue
		}
		reset, goOn := shard.MeaningCommands(entry.Key, &entry.State, differences)
		says := "put the setting back, or stop bridge, then to have the stream begin at its START again"
		if goOn != "" {
			says, reset = says+", or to go on after the rows that were published", reset+"\n"+goOn
		}
		r.Add(inspect.Unsafe, inspect.CheckpointMeaning, entry.Key.Shard, "has a checkpoint that was made with another configuration: "+differences.String()).
			Says("%s", says).Types("%s", reset)
	}
	return r.Findings
}
