package app

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"example.org/bridge/event"
	"example.org/bridge/internal/config"
	"example.org/bridge/internal/httpapi"
	"example.org/bridge/internal/null"
	"example.org/bridge/internal/option"
	"example.org/bridge/internal/outage"
	"example.org/bridge/internal/shard"
	"example.org/bridge/internal/standby"
	"example.org/bridge/internal/stream"
	"example.org/bridge/source/ledger"
)

// statusOf groups shards by stream. caught has the streams in the same order.
func statusOf(streams []*appStream, caught stream.CatchUpProgress, shards []shard.Status) httpapi.Status {
	status := httpapi.Status{Epoch: caught.Epoch, Streams: make([]httpapi.StreamStatus, 0, len(streams))}
	for i, stream := range streams {
		one := httpapi.StreamStatus{Name: stream.Name, Kind: stream.Kind, State: shard.Running, CatchUp: caught.Streams[i], Shards: []shard.Status{}}
		if err := one.CatchUp.Err; err != nil {
			one.CatchUp.Error = null.Text(config.StreamText(stream.Name)(err))
		}
		if stream.feed != nil {
			one.List = shard.RepublishStatusOf(stream.feed.Lists().Last())
		}
		if stream.movers != nil {
			one.Nominated, one.Duplicates = stream.movers.Waiting(), stream.movers.Duplicates()
		}
		if len(stream.Patterns) > 0 && len(stream.Tables)+len(stream.gone) == 0 && !stream.divided {
			one.State = shard.Waiting
		}
		for _, sh := range shards {
			if sh.Stream != stream.Name {
				continue
			}
			explain(&sh)
			one.Shards = append(one.Shards, sh)
			if sh.State.Worse(one.State) {
				one.State = sh.State
			}
		}
		if one.List != nil && one.List.EndedAt.IsZero() && len(one.Shards) > 0 {
			one.List.Waits = listWaits(stream.feed.Lists(), one.Shards)
		}
		one.Shards = append(one.Shards, stream.gone...)
		status.Streams = append(status.Streams, one)
	}
	return status
}

// explain sets the state of a shard to the worst of what tail and reconcile say, and says why it is
// not running and what to do.
func explain(s *shard.Status) {
	if s.Reconcile != nil && s.Reconcile.Guard != "" && shard.Degraded.Worse(s.State) {
		s.State = shard.Degraded
	}
	s.Reason, s.Remedy = s.LastError, null.Text(remedyOf(s))
	switch {
	case s.State == shard.Running:
		s.Reason = ""
	case s.State == shard.Degraded:
		s.Reason = s.Reconcile.Guard
		s.LastError = cmp.Or(s.LastError, s.Reconcile.Guard)
	case s.State == shard.Paused:
		s.Reason = null.Text("a person has paused it at " + s.PausedAt.UTC().Format(time.RFC3339) + ": nothing of it is read or published")
	case s.State == shard.Starting && s.LastError == "":
		s.Reason = "the table was not read yet: bridge reads from the bus what its checkpoint lacks, or records the table as it is"
	}
}

// addDependencies adds to a status whether source, bus and checkpoint answer, as far as the work of
// the shards has shown: nothing is asked.
func (h health) addDependencies(status *httpapi.Status) {
	bus := &h.opts.Config.Sink
	sources := make([]httpapi.DependencyStatus, len(h.sources.all))
	for i, d := range h.sources.all {
		sources[i] = httpapi.DependencyStatus{Name: d.Name, Kind: d.Scheme, Address: d.Addr}
	}
	status.Bus = &httpapi.DependencyStatus{Kind: bus.Scheme, Address: strings.Join(bus.Servers, ",")}
	status.Checkpoint = &httpapi.DependencyStatus{Kind: "file", Address: h.opts.Config.CheckpointPath}
	if h.copies != nil {
		status.Progress = &httpapi.DependencyStatus{Kind: bus.Scheme, Address: strings.Join(bus.Servers, ",")}
	}
	h.used(status, sources)
	for _, fault := range h.faults.Outages() {
		switch name := fault.Dependency; {
		case h.sources.withOutage(fault) >= 0:
			away(&sources[h.sources.withOutage(fault)], fault)
		case strings.HasPrefix(name, "checkpoint"):
			away(status.Checkpoint, fault)
		case strings.HasPrefix(name, "shard "), strings.HasPrefix(name, "keys of "):
			// One table alone: its shard says so.
		case name == standbyDependency:
			// The status of the group says so.
		case name == copiesDependency, name == sharesDependency:
			if status.Progress != nil {
				away(status.Progress, fault)
			}
		default:
			away(status.Bus, fault)
		}
	}
	if bus, ok := h.sink.(interface{ Outages() []outage.Outage }); ok {
		for _, fault := range bus.Outages() {
			away(status.Bus, fault)
		}
	}
	if status.Source = &sources[0]; len(sources) > 1 {
		status.Source, status.Sources = allOf(sources), sources
	}
}

// allOf sums several sources up as one: it answers if all of them do.
func allOf(sources []httpapi.DependencyStatus) *httpapi.DependencyStatus {
	var kinds, addrs, errs []string
	all, known := new(httpapi.DependencyStatus), true
	for i := range sources {
		d := &sources[i]
		if addrs = append(addrs, d.Address); !slices.Contains(kinds, d.Kind) {
			kinds = append(kinds, d.Kind)
		}
		if known = known && d.Answers != nil; d.Error == "" {
			continue
		}
		errs = append(errs, strings.TrimSpace("source "+d.Name)+": "+string(d.Error))
		if all.Since.IsZero() || d.Since.Before(all.Since.Time) {
			all.Since = d.Since
		}
	}
	if known || len(errs) > 0 {
		all.Answers = new(len(errs) == 0)
	}
	all.Kind, all.Address, all.Error = strings.Join(kinds, ","), strings.Join(addrs, ","), null.Text(strings.Join(errs, "; "))
	return all
}

func (h health) used(status *httpapi.Status, sources []httpapi.DependencyStatus) {
	if h.committer.Saved() {
		status.Checkpoint.Answers = new(true)
	}
	for i := range status.Streams {
		stream := &status.Streams[i]
		if stream.CatchUp.Ready {
			status.Bus.Answers = new(true)
		}
		if status.Progress != nil && stream.Progress != nil && !stream.Progress.WrittenAt.IsZero() {
			status.Progress.Answers = new(true)
		}
		for j := range stream.Shards {
			if s := &stream.Shards[j]; !s.LastPoll.IsZero() {
				d, _ := h.sources.of(s.Shard)
				sources[slices.Index(h.sources.all, d)].Answers = new(true)
			}
		}
	}
}

// away notes an outage. The oldest one tells since when; the last one what happened.
func away(d *httpapi.DependencyStatus, fault outage.Outage) {
	d.Answers, d.Error = new(false), null.Text(config.Text(fault.Err))
	if d.Since.IsZero() || fault.Since.Before(d.Since.Time) {
		d.Since.Time = fault.Since
	}
}

// group returns what the process knows of its standby group, nil where it works alone.
func (h health) group() *standby.Status {
	if h.member == nil {
		return nil
	}
	return new(h.member.Status())
}

// waiting returns what the process knows of its group while it waits, else nil.
func (h health) waiting() *standby.Status {
	if s := h.group(); s != nil && !s.Works {
		return s
	}
	return nil
}

func worker(s *standby.Status) string {
	switch {
	case s.Claim.Member == "":
		return "which is not known now"
	case s.Claim.Since.IsZero():
		return s.Claim.String()
	}
	return fmt.Sprintf("%s since %s", &s.Claim, s.Claim.Since.UTC().Format("2006-01-02T15:04:05Z"))
}

// noTables returns why a stream has no table, or lacks some that match its patterns; empty if it
// has them. waits says that it waits for one.
func (h health) noTables(s *appStream) (why string, waits bool) {
	has := len(s.Tables)+len(s.gone) > 0 || s.divided
	if left := h.leftOut.Load(); left != nil && (*left)[s.Name].why != "" {
		return (*left)[s.Name].why, (*left)[s.Name].waits || !has
	}
	if has {
		return "", false
	}
	return "no table matches " + strings.Join(s.Patterns, ", ") + ": bridge looks once a minute", true
}

func goneStatus(s *appStream, table string, position uint64) shard.Status {
	one := shard.Status{
		Stream: s.Name, Shard: table, State: shard.Gone, Position: position, Gaps: shard.Gaps{Oldest: []ledger.Gap{}},
		Traffic: shard.Traffic{DeadLetters: shard.DeadLetters{Reasons: []shard.DeadLetterCount{}}},
		Reason:  "the server that takes the writes has no such table: what was published of it stays",
		Remedy:  "Nothing: if it comes back, bridge goes on with it.",
	}
	if s.Kind == event.Capability {
		one.Remedy = null.Text("Nothing, if its entities are to stay. To have them deleted, create it again without rows, then bridge reconcile --allow-deletes " + s.Name)
	}
	return one
}

const waitingRemedy = "Bring back what does not answer, or do what the reason says; bridge check says more. The shard then goes on by itself, and nothing is lost."

// remedyOf returns what to do about a shard; it is empty for one that runs.
func remedyOf(s *shard.Status) string {
	switch s.State {
	case shard.Starting:
		return "Nothing while the stream catches up, or while the process waits as a standby. bridge health --ready says what it waits for."
	case shard.Stopped:
		return remedies[s.Cause].of(s.Stream)
	case shard.Waiting:
		return waitingRemedy
	case shard.Paused:
		return fmt.Sprintf("bridge resume %s has all its tables go on, with --table %s this one.", s.Stream, s.Shard)
	case shard.Degraded:
		return remedies[degraded].of(s.Stream)
	}
	return ""
}

const (
	// streamName stands for the name of the stream in a remedy.
	streamName = "{stream}"
	// degraded is the cause of a shard that holds deletes back.
	degraded shard.Cause = "degraded"
)

// remedy is a text with %s where it names a setting, and streamName where it names the stream.
type remedy struct {
	text    string
	setting option.Name
}

func (r remedy) of(stream string) string {
	text := r.text
	if r.setting != "" {
		text = option.Sprintf(config.Naming(stream), text, r.setting)
	}
	return strings.ReplaceAll(text, streamName, stream)
}

// remedies are those of docs/operations.md, "A stream is stopped".
var remedies = map[shard.Cause]remedy{
	shard.CauseMissing:         {text: "Create the table, column or database, or correct the variables that name it; but where the table was renamed, stop bridge and type bridge checkpoint move {stream} <former name> <new name> before it runs with the new one, under which it would begin at START. bridge tries again every 10 s."},
	shard.CauseDenied:          {text: "Type the GRANT that the error names. bridge tries again every 10 s."},
	shard.CauseUnfit:           {text: "Change the table or the variables as the error says. bridge tries again every 10 s."},
	shard.CauseIDsReused:       {text: "Check that the table is right. Capability stream: bridge reconcile --allow-deletes {stream} reads it from its first row. Release stream: type the command that the error names where the checkpoint is; a pod without a volume forgets it, unless the checkpoint is on the bus (%s=bus:).", setting: option.CheckpointURL},
	shard.CauseConfiguration:   {text: "Change the variables back, or type the command that the error names."},
	shard.CauseSchema:          {"Increase %s, or give the table its column back.", option.EventVersion},
	shard.CauseBusLost:         {text: "Restart bridge: it reads what the bus still has and publishes the other rows again. If messages have expired, too: stop bridge and type bridge checkpoint rebuild {stream}."},
	shard.CauseBusUnreadable:   {text: "Grant the right to read that the error names, or use another stream of the bus. bridge tries again every 10 s."},
	shard.CauseSuperseded:      {text: "Find the other bridge with the same streams, end one of the two, and restart the one that is to go on."},
	shard.CauseRefused:         {"Increase the limit of the bus, or set %s to put such rows aside, then restart bridge.", option.DeadLetter},
	shard.CauseDeadLetterLimit: {text: "See with bridge deadletter list what is refused, fix the rows or the bus, then restart bridge."},
	shard.CauseBadValue:        {"Repair the row, or set %s=null, then restart bridge.", option.OnBadValue},
	shard.CauseCheckpoint:      {text: "Restart bridge: it sets the damaged checkpoint aside and reads the bus."},
	shard.CauseOther:           {text: "Do what the error says. If it says nothing to do, restart bridge."},
	degraded: {text: "Look at the table first: was it truncated, restored or exchanged? A dry run names the entities that are gone. " +
		"If the rows were deleted on purpose, allow the deletes (bridge reconcile --allow-deletes {stream})."},
}
