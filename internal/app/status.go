package app

import (
	"bridge/internal/catchup"
	"bridge/internal/config"
	"bridge/internal/httpapi"
	"bridge/internal/shard"
	"bridge/reconcile"
)

// snapshot is one shard as it stands.
type snapshot struct {
	shard.Status
	reconcile reconcile.Status
	// traffic is filled in for a status alone.
	traffic shard.Traffic
}

// state is the worst of what tail and reconcile say.
func (s *snapshot) state() shard.State {
	if s.reconcile.Guard != "" && severity(httpapi.Degraded) > severity(s.State) {
		return httpapi.Degraded
	}
	return s.State
}

// statusOf groups the snapshots of shards by stream. caught has the streams in the same order.
func statusOf(streams []*stream, caught catchup.Progress, shards []snapshot) httpapi.Status {
	status := httpapi.Status{Epoch: caught.Epoch, Streams: make([]httpapi.StreamStatus, 0, len(streams))}
	for i, stream := range streams {
		one := httpapi.StreamStatus{Name: stream.Name, Kind: string(stream.Kind), CatchUp: catchUpStatus(&caught.Streams[i]), Shards: []httpapi.ShardStatus{}}
		if stream.movers != nil {
			one.Nominated, one.Twins = stream.movers.Waiting(), stream.movers.Twins()
		}
		worst, remedies := shard.Running, newRemedyTexts(stream.Name)
		for _, sh := range shards {
			if sh.Stream != stream.Name {
				continue
			}
			one.Shards = append(one.Shards, shardStatus(sh, remedies))
			if state := sh.state(); severity(state) > severity(worst) {
				worst = state
			}
		}
		one.State = string(worst)
		status.Streams = append(status.Streams, one)
	}
	return status
}

func catchUpStatus(p *catchup.StreamProgress) httpapi.CatchUpStatus {
	s := httpapi.CatchUpStatus{
		Ready: p.Ready, Messages: p.Messages, Left: p.Left,
		OffsetsPerSecond: p.Rate, SecondsLeft: p.ETA.Seconds(), Seconds: p.Elapsed.Seconds(),
	}
	if p.Err != nil {
		s.Error = httpapi.Given(config.StreamText(p.Stream)(p.Err))
	}
	return s
}

func shardStatus(s snapshot, remedies *remedyTexts) httpapi.ShardStatus {
	one := httpapi.ShardStatus{
		Shard:     s.Shard,
		State:     string(s.state()),
		Position:  s.Position,
		NoTail:    s.NoTail,
		Highest:   s.Highest,
		OpenGaps:  s.OpenGaps,
		LastError: httpapi.Given(s.LastError),
		LastPoll:  httpapi.Moment(s.LastPoll),
		Reconcile: reconcileStatus(s.reconcile),
		Cause:     httpapi.Given(string(s.Cause)),
		Late:      s.traffic.Late,
		Published: httpapi.PublishedStatus{Rows: s.traffic.Rows, RowsPerSecond: s.traffic.RowsPerSecond, LastHour: s.traffic.Minutes},
		Backlog:   backlogStatus(&s.Status, &s.traffic),
	}
	one.DeadLetters = deadLettersStatus(s.traffic.DeadLetters)
	one.Reason, one.Remedy = httpapi.Given(s.reason()), httpapi.Given(remedies.of(&s))
	if s.LagKnown {
		seconds := s.Lag.Seconds()
		one.LagSeconds = &seconds
	}
	if one.State == httpapi.Degraded && one.LastError == nil {
		one.LastError = httpapi.Given(s.reconcile.Guard)
	}
	one.Gaps = httpapi.GapsStatus{
		Hot: s.Gaps.Hot, Cold: s.Gaps.Cold, InFlight: s.Gaps.InFlight, Unpolled: s.Gaps.Unpolled,
		OldestSeconds: s.Gaps.OldestAge.Seconds(), Oldest: []httpapi.GapStatus{},
	}
	for _, g := range s.Gaps.Oldest {
		one.Gaps.Oldest = append(one.Gaps.Oldest, httpapi.GapStatus{First: g.First, Last: g.Last, Missed: g.Missed.UTC()})
	}
	return one
}

// severity orders states from good to bad.
func severity(s shard.State) int {
	switch s {
	case shard.Stopped:
		return 4
	case httpapi.Degraded:
		return 3
	case shard.Waiting:
		return 2
	case shard.Starting:
		return 1
	}
	return 0
}
