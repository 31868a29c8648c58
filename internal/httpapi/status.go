package httpapi

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"example.org/bridge/event"
	"example.org/bridge/internal/buscopy"
	"example.org/bridge/internal/null"
	"example.org/bridge/internal/shard"
	"example.org/bridge/internal/share"
	"example.org/bridge/internal/standby"
	"example.org/bridge/internal/stream"
	"example.org/bridge/internal/tap"
	"example.org/bridge/reconcile"
)

// Daemon is the process that the HTTP server shows. It is safe for concurrent use.
type Daemon interface {
	// Live returns nil while the loops turn, also while the source and the bus are away.
	Live() error
	// Ready returns why the process is not ready; nothing if source and bus can be reached and no
	// stream is stopped or degraded.
	Ready(ctx context.Context) []Reason
	// Status returns a snapshot of all streams.
	Status() Status
	// Working returns the process that works. The error says why none can be asked, and what to do.
	Working() (Peer, error)
	// Reconcile asks for a reconcile of a stream and returns without waiting for it. The error is
	// ErrNoStream or ErrCannotReconcile.
	Reconcile(stream string, mode reconcile.Mode) (Accepted, error)
	// Resend makes the owner of a shard send dead letters again, and waits for it. The error is
	// ErrNoStream, ErrCannotResend, or that of ctx.
	Resend(ctx context.Context, request ResendRequest) ([]shard.ResendOutcome, error)
	// ResendAll has the dead letters of a stream that the bus holds sent again, and waits for it.
	// The error is as that of Resend.
	ResendAll(ctx context.Context, stream string, dryRun bool) (ResentAll, error)
	// Pause pauses or resumes a stream or one of its tables, and returns once that is durable and,
	// for a while, until nothing is in flight. The error is ErrNoStream, ErrCannotPause, or that of
	// ctx.
	Pause(ctx context.Context, request PauseRequest) (Paused, error)
	// Republish publishes rows again, or cancels that, and returns once the request is durable. The
	// error is ErrNoStream, ErrCannotRepublish, or that of ctx.
	Republish(ctx context.Context, request RepublishRequest) (Republished, error)
	// Entity and EntityPage show entities of a capability stream. The error is ErrNoStream,
	// ErrNoEntity, ErrNotServed, ErrBadQuery, or one that a later question may not get.
	Entity(ctx context.Context, q EntityQuery) (Entity, error)
	EntityPage(ctx context.Context, q PageQuery) (EntityPage, error)
	// Tail returns a listener to the events of a stream, or of all where the name is empty. The
	// error is ErrNoStream or tap.ErrTooMany.
	Tail(stream string) (*tap.Listener, error)
}

// Reason says why the process is not ready. Stream and Shard are empty if it concerns all streams.
type Reason struct {
	Stream string `json:"stream,omitempty"`
	Shard  string `json:"shard,omitempty"`
	Reason string `json:"reason"`
}

// Status is the answer of /api/v1/status.
type Status struct {
	// Started is when the process began, or its configuration was reloaded, by the host's clock.
	Started time.Time `json:"started"`
	// Delivery is "at-least-once" or "exactly-once".
	Delivery string `json:"delivery"`
	// Epoch is the epoch of the messages of this process, 0 until a stream has caught up.
	Epoch uint64 `json:"epoch"`
	// Share is left out where one process works on all tables.
	Share *share.Share `json:"share,omitempty"`
	// Standby is left out where the process works alone.
	Standby *standby.Status `json:"standby,omitempty"`
	// Totals count all streams, also those that are not listed. The handler fills them in.
	Totals  *Totals        `json:"totals,omitempty"`
	Streams []StreamStatus `json:"streams"`
	// Version is the version of the program. Source, Bus and Checkpoint are what the process
	// depends on, and Progress the progress on the bus, left out unless it is kept there. A
	// checkpoint answers once it was saved.
	Version string            `json:"version,omitempty"`
	Source  *DependencyStatus `json:"source,omitempty"`
	// Sources are the sources where there are several, of which Source is the sum.
	Sources    []DependencyStatus `json:"sources,omitempty"`
	Bus        *DependencyStatus  `json:"bus,omitempty"`
	Checkpoint *DependencyStatus  `json:"checkpoint,omitempty"`
	Progress   *DependencyStatus  `json:"progress,omitempty"`
}

// DependencyStatus says whether something answers that the process depends on.
type DependencyStatus struct {
	// Name is the name of a source among several, left out else.
	Name string `json:"name,omitempty"`
	// Kind is "mysql", "kafka" or the like. Address is host:port, a path, or empty.
	Kind    string `json:"kind"`
	Address string `json:"address"`
	// Answers is null until it was used for the first time.
	Answers *bool `json:"answers"`
	// Since is when its oldest outage that lasts began, by the host's clock, and Error is what
	// happened last. Both are null while it answers.
	Since null.Time `json:"since"`
	Error null.Text `json:"error"`
}

// StreamStatus is the status of one stream. Its state is the worst of its shards'.
type StreamStatus struct {
	Name    string                `json:"name"`
	Kind    event.Kind            `json:"kind"`
	State   shard.State           `json:"state"`
	CatchUp stream.StreamProgress `json:"catchUp"`
	// Reason says why the stream has no table, or lacks one that matches a pattern of it; null if
	// it has all.
	Reason null.Text `json:"reason"`
	// Resendable says that rows which the bus refuses go to a destination that can be read, and so
	// can be sent again.
	Resendable bool `json:"resendable"`
	// Nominated entities wait until their rows are read in all tables of the stream.
	Nominated int `json:"nominated"`
	// Duplicates counts how often a key was found to have two rows since the start.
	Duplicates uint64 `json:"twins"`
	// List is the full list that was asked for last, null for none.
	List *shard.RepublishStatus `json:"list"`
	// Progress is left out unless it is kept on the bus, too.
	Progress *buscopy.Status `json:"progress,omitempty"`
	Shards   []shard.Status  `json:"shards"`
	// Summary is about all shards, also those that are not listed. The handler fills it in.
	Summary *StreamSummary `json:"summary,omitempty"`
}

// Totals count all streams and tables, whatever the request selects.
type Totals struct {
	Streams int `json:"streams"`
	Shards  int `json:"shards"`
	// States counts shards by state.
	States map[shard.State]int `json:"states"`
	// Matching counts the streams that the request selects; Streams of the status lists a page of
	// them, from Offset on.
	Matching int `json:"matching"`
	Offset   int `json:"offset"`
}

func totalsOf(streams []StreamStatus) *Totals {
	t := &Totals{Streams: len(streams), Matching: len(streams), States: make(map[shard.State]int, len(shard.WorstFirst))}
	for _, state := range shard.WorstFirst {
		t.States[state] = 0
	}
	for i := range streams {
		t.Shards += len(streams[i].Shards)
		for j := range streams[i].Shards {
			t.States[streams[i].Shards[j].State]++
		}
	}
	return t
}

// WorstShard is the shard of a stream that is in the worst state.
type WorstShard struct {
	Shard  string      `json:"shard"`
	State  shard.State `json:"state"`
	Reason null.Text   `json:"reason"`
	Remedy null.Text   `json:"remedy"`
	Cause  null.Text   `json:"cause"`
}

// StreamSummary sums up all shards of a stream.
type StreamSummary struct {
	Shards int `json:"shards"`
	// Matching counts the shards that the request selects; Shards of the stream lists a page of
	// them, from Offset on.
	Matching int `json:"matching"`
	Offset   int `json:"offset"`
	// States counts shards by state.
	States map[shard.State]int `json:"states"`
	// Worst is null while all shards run.
	Worst *WorstShard `json:"worst"`
	// PausedAt is since when the shard is paused that was paused first, null while none is.
	PausedAt null.Time `json:"pausedAt"`
	// LagSeconds is the longest lag that is known, null where none is. LagUnknown counts the shards
	// whose lag is not known.
	LagSeconds *float64 `json:"lagSeconds"`
	LagUnknown int      `json:"lagUnknown"`
	// Published, Late and DeadLetters are sums.
	shard.Traffic
	Gaps GapsSummary `json:"gaps"`
	// Backlog is null while all shards keep up. Percent and SecondsLeft are those of the shard that
	// takes the longest.
	Backlog   *shard.Backlog   `json:"backlog"`
	Reconcile ReconcileSummary `json:"reconcile"`
}

// GapsSummary sums up the ids that were not seen, see shard.Gaps.
type GapsSummary struct {
	Hot           uint64  `json:"hot"`
	Cold          uint64  `json:"cold"`
	InFlight      uint64  `json:"inFlight"`
	Unpolled      uint64  `json:"unpolled"`
	OldestSeconds float64 `json:"oldestSeconds"`
}

// ReconcileSummary sums up the last reconciles of the shards of a stream.
type ReconcileSummary struct {
	// Running and Waiting count shards, Guards those of which no delete is published.
	Running int `json:"running"`
	Waiting int `json:"waiting"`
	Guards  int `json:"guards"`
	// VerifiedThrough is the earliest of those of the shards, null while one was never verified.
	// Unverified counts those.
	VerifiedThrough null.Time `json:"verifiedThrough"`
	Unverified      int       `json:"unverified"`
	// EndedAt is the latest end of a run. Verdict and Absent are sums over the last runs.
	EndedAt null.Time `json:"endedAt"`
	reconcile.Verdict
	Absent uint64 `json:"absent"`
	// DryRun sums up the last dry runs, null before the first one since the start.
	DryRun *DryRunSummary `json:"dryRun"`
}

// DryRunSummary sums up the last dry runs of the shards of a stream.
type DryRunSummary struct {
	// Failed counts those that were cut short; Error is why one of them was.
	Failed int       `json:"failed"`
	Error  null.Text `json:"error"`
	reconcile.Verdict
	Absent uint64 `json:"absent"`
	// Differences are examples, at most maxExamples: deletes rather than others.
	Differences []ShardDifference `json:"differences"`
}

// ShardDifference is a difference in a shard.
type ShardDifference struct {
	Shard string `json:"shard"`
	reconcile.Difference
}

// maxExamples bounds the differences of a summary.
const maxExamples = 20

func summaryOf(shards []shard.Status) *StreamSummary {
	s := &StreamSummary{Shards: len(shards), Matching: len(shards), States: make(map[shard.State]int, len(shard.WorstFirst)), Traffic: shard.Traffic{DeadLetters: shard.DeadLetters{Reasons: []shard.DeadLetterCount{}}}}
	for _, state := range shard.WorstFirst {
		s.States[state] = 0
	}
	for i := range shards {
		s.add(&shards[i])
	}
	if s.Reconcile.Unverified > 0 {
		s.Reconcile.VerifiedThrough = null.Time{}
	}
	slices.SortStableFunc(s.DeadLetters.Reasons, func(a, b shard.DeadLetterCount) int { return cmp.Compare(b.Count, a.Count) })
	s.DeadLetters.Reasons = s.DeadLetters.Reasons[:min(len(s.DeadLetters.Reasons), mostReasons)]
	return s
}

// mostReasons bounds the reasons of dead letters in a summary.
const mostReasons = 10

func (s *StreamSummary) add(one *shard.Status) {
	s.States[one.State]++
	if one.State == shard.Gone {
		return
	}
	if one.State != shard.Running && (s.Worst == nil || one.State.Worse(s.Worst.State)) {
		s.Worst = &WorstShard{Shard: one.Shard, State: one.State, Reason: one.Reason, Remedy: one.Remedy, Cause: one.Cause}
	}
	if at := one.PausedAt; !at.IsZero() && (s.PausedAt.IsZero() || at.Before(s.PausedAt.Time)) {
		s.PausedAt = at
	}
	if one.LagSeconds == nil {
		s.LagUnknown++
	} else if s.LagSeconds == nil || *s.LagSeconds < *one.LagSeconds {
		s.LagSeconds = one.LagSeconds
	}
	addPublished(&s.Published, &one.Published)
	s.Late += one.Late
	addDeadLetters(&s.DeadLetters, &one.DeadLetters)
	g := &one.Gaps
	s.Gaps.Hot += g.Hot
	s.Gaps.Cold += g.Cold
	s.Gaps.InFlight += g.InFlight
	s.Gaps.Unpolled += g.Unpolled
	s.Gaps.OldestSeconds = max(s.Gaps.OldestSeconds, g.OldestSeconds)
	if one.Backlog != nil {
		s.addBacklog(one.Backlog)
	}
	if one.Reconcile != nil {
		s.Reconcile.add(one.Reconcile)
		s.Reconcile.addDry(one.Shard, one.Reconcile.LastDryRun)
	}
}

func addPublished(p, other *shard.Published) {
	p.Rows += other.Rows
	p.RowsPerSecond += other.RowsPerSecond
	p.LastHour = append(p.LastHour, make([]uint32, max(0, len(other.LastHour)-len(p.LastHour)))...)
	for i, n := range other.LastHour {
		p.LastHour[i] += n
	}
}

func addDeadLetters(d, other *shard.DeadLetters) {
	d.Count += other.Count
	for _, one := range other.Reasons {
		i := slices.IndexFunc(d.Reasons, func(r shard.DeadLetterCount) bool { return r.Reason == one.Reason })
		if i < 0 {
			d.Reasons = append(d.Reasons, one)
			continue
		}
		d.Reasons[i].Count += one.Count
	}
}

func (s *StreamSummary) addBacklog(b *shard.Backlog) {
	if s.Backlog == nil {
		sum := *b
		s.Backlog = &sum
		return
	}
	sum := s.Backlog
	if sum.IDs += b.IDs; sum.IDs < b.IDs {
		sum.IDs = math.MaxUint64
	}
	sum.IDsPerSecond += b.IDsPerSecond
	sum.Limit = cmp.Or(sum.Limit, b.Limit)
	// One that does not advance takes the longest.
	if sum.SecondsLeft != nil && (b.SecondsLeft == nil || *sum.SecondsLeft < *b.SecondsLeft) {
		sum.SecondsLeft, sum.Percent = b.SecondsLeft, b.Percent
	}
}

func (r *ReconcileSummary) add(one *reconcile.Status) {
	if one.Running {
		r.Running++
	}
	if one.Waiting > 0 {
		r.Waiting++
	}
	if one.Guard != "" {
		r.Guards++
	}
	switch through := one.VerifiedThrough; {
	case through.IsZero():
		r.Unverified++
	case r.VerifiedThrough.IsZero() || through.Before(r.VerifiedThrough.Time):
		r.VerifiedThrough = through
	}
	if one.EndedAt.After(r.EndedAt.Time) {
		r.EndedAt = one.EndedAt
	}
	r.Verdict.Add(one.Verdict)
	r.Absent += one.Absent
}

func (r *ReconcileSummary) addDry(shard string, report *reconcile.Report) {
	if report == nil {
		return
	}
	if r.DryRun == nil {
		r.DryRun = &DryRunSummary{Differences: []ShardDifference{}}
	}
	d := r.DryRun
	if report.Error != "" {
		d.Failed, d.Error = d.Failed+1, report.Error
	}
	d.Verdict.Add(report.Verdict)
	d.Absent += report.Absent
	for _, one := range report.Differences {
		if len(d.Differences) < maxExamples {
			d.Differences = append(d.Differences, ShardDifference{shard, one})
			continue
		}
		// A delete has the room of another one.
		last := slices.IndexFunc(d.Differences, func(other ShardDifference) bool { return other.What != deleted })
		if one.What == deleted && last >= 0 {
			d.Differences[last] = ShardDifference{shard, one}
		}
	}
}

// deleted is what a difference says of an entity that is gone.
const deleted = "deleted"
