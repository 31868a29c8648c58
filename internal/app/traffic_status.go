package app

import (
	"strings"

	"bridge/internal/httpapi"
	"bridge/internal/shard"
)

func deadLettersStatus(counts []shard.DeadLetterCount) httpapi.DeadLettersStatus {
	status := httpapi.DeadLettersStatus{Reasons: make([]httpapi.DeadLetterCount, 0, len(counts))}
	for _, c := range counts {
		status.Count += c.Count
		status.Reasons = append(status.Reasons, httpapi.DeadLetterCount(c))
	}
	return status
}

// backlogStatus returns nil while a shard keeps up.
func backlogStatus(s *shard.Status) *httpapi.BacklogStatus {
	if !s.Backlog {
		return nil
	}
	b := &httpapi.BacklogStatus{IDs: s.Highest - s.Position, IDsPerSecond: s.Traffic.IDsPerSecond}
	if from := min(s.Traffic.Drained, s.Position); s.Highest > from {
		b.Percent = 100 * float64(s.Position-from) / float64(s.Highest-from)
	}
	if b.IDsPerSecond > 0 {
		left := float64(b.IDs) / b.IDsPerSecond
		b.SecondsLeft = &left
	}
	return b
}

// reason returns why a shard is not running, empty while it is.
func (s *snapshot) reason() string {
	switch s.state() {
	case shard.Running:
		return ""
	case httpapi.Degraded:
		return s.reconcile.Guard
	case shard.Starting:
		if s.LastError == "" {
			return "the table was not read yet: bridge reads from the bus what its checkpoint lacks, or records the table as it is"
		}
	}
	return s.LastError
}

// remedy returns what to do about a shard that is not running, empty where nothing is.
func (s *snapshot) remedy() string {
	switch s.state() {
	case shard.Stopped:
		return remedies[s.Cause].of(s.Stream)
	case shard.Waiting:
		return "Bring back what does not answer. The shard then goes on by itself, and nothing is lost."
	case httpapi.Degraded:
		return remedy("Look at the table first: was it truncated, restored or exchanged? A dry run names the entities that are gone. " +
			"If the rows were deleted on purpose, allow the deletes (bridge reconcile --allow-deletes %s).").of(s.Stream)
	}
	return ""
}

// remedy is what a person does; %s stands for the stream.
type remedy string

func (r remedy) of(stream string) string { return strings.ReplaceAll(string(r), "%s", stream) }

// remedies are those of docs/operations.md, "What stops a shard".
var remedies = map[shard.Cause]remedy{
	shard.CauseMissing:         "Create the table, column or database, or correct the variables that name it. bridge tries again every 10 s.",
	shard.CauseDenied:          "Type the GRANT that the error names. bridge tries again every 10 s.",
	shard.CauseUnfit:           "Change the table or the variables as the error says. bridge tries again every 10 s.",
	shard.CauseIDsReused:       "Check that the table is right. Capability stream: bridge reconcile --allow-deletes %s reads it from its first row. Release stream: type the command that the error names.",
	shard.CauseConfiguration:   "Change the variables back, or follow the command that the error names.",
	shard.CauseSchema:          "Increase BRIDGE_STREAM_…_EVENT_VERSION, or give the table its column back.",
	shard.CauseBusLost:         "Restart bridge: it reads what the bus still has and publishes the other rows again. If messages have expired, too: stop bridge and type bridge checkpoint rebuild %s.",
	shard.CauseBusUnreadable:   "Grant the right to read that the error names, or use another stream of the bus, then restart bridge.",
	shard.CauseSuperseded:      "Find the other bridge with the same streams, end one of the two, and restart the one that is to go on.",
	shard.CauseRefused:         "Increase the limit of the bus, or set BRIDGE_DEAD_LETTER to put such rows aside, then restart bridge.",
	shard.CauseDeadLetterLimit: "See with bridge deadletter list what is refused, mend the rows or the bus, then restart bridge.",
	shard.CauseBadValue:        "Repair the row, or set BRIDGE_ON_BAD_VALUE=null, then restart bridge.",
	shard.CauseCheckpoint:      "Restart bridge: it sets the damaged checkpoint aside and reads the bus.",
	shard.CauseOther:           "Do what the error says. If it says nothing to do, restart bridge.",
}
