package shard

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"example.org/bridge/internal/null"
	"example.org/bridge/reconcile"
	"example.org/bridge/source"
	"example.org/bridge/source/ledger"
)

// State is what a shard is doing.
type State string

// The states of a shard.
const (
	// Starting: the checkpoint is being read and compared with the bus.
	Starting State = "starting"
	// Running: the shard is polled and published.
	Running State = "running"
	// Waiting: the source or the bus is away; the shard goes on by itself once it is back.
	Waiting State = "waiting"
	// Stopped: a person has to do something; the last error says what.
	Stopped State = "stopped"
	// Degraded: the guard of its reconcile has tripped. It publishes everything but deletes that
	// reconcile finds, until a person agrees. The daemon says so of a shard that runs or waits.
	Degraded State = "degraded"
	// Paused: a person has paused the table or its stream, and nothing of it is in flight.
	Paused State = "paused"
	// Gone: the table has matched a pattern, and its server has it no more. It has no Shard.
	Gone State = "gone"
)

// WorstFirst has the states in the order in which they need a person.
var WorstFirst = []State{Stopped, Degraded, Waiting, Starting, Paused, Gone, Running}

// Worse reports whether a state comes before another one in WorstFirst.
func (s State) Worse(other State) bool {
	return slices.Index(WorstFirst, s) < slices.Index(WorstFirst, other)
}

var states = []State{Starting, Running, Paused, Waiting, Stopped}

// Status is a snapshot of one shard, which /api/v1/status shows. Times are by the host's clock.
type Status struct {
	Stream string `json:"-"`
	Shard  string `json:"shard"`
	State  State  `json:"state"`
	// Position is the saved position: everything up to this id is published and saved.
	Position uint64 `json:"position"`
	// NoTail says that the ids have no order: reconcile publishes the rows, and the position says
	// nothing. Such a shard has no backlog.
	NoTail bool `json:"noTail"`
	// Highest is the highest id of the table when it was read last.
	Highest uint64 `json:"highest"`
	// OpenGaps counts the ranges of ids below the position that have not been seen.
	OpenGaps int `json:"openGaps"`
	// Gaps describes the ids below the position that have not been seen.
	Gaps Gaps `json:"gaps"`
	// PausedAt is when a person has paused the table or its stream, null while neither is.
	PausedAt null.Time `json:"pausedAt"`
	// LagSeconds is the age of the oldest committed row that is not published: 0 when drained, null
	// while it is not known because the source cannot be read, or is not, as of a paused table.
	LagSeconds *float64 `json:"lagSeconds"`
	// LastError is the latest fault, null while there is none.
	LastError null.Text `json:"lastError"`
	// LastPoll is when the source last answered, null before the first time.
	LastPoll null.Time `json:"lastPoll"`
	// Reconcile is the state of the reconcile of the table. The daemon fills it in, and Reason and
	// Remedy.
	Reconcile *reconcile.Status `json:"reconcile"`
	// Reason says why the shard is not running, Remedy what to do; null while it runs. Cause is why
	// it is stopped, in one word, else null: see docs/operations.md.
	Reason null.Text `json:"reason"`
	Remedy null.Text `json:"remedy"`
	Cause  Cause     `json:"cause"`
	Traffic
	// Republish is what was asked last to be published again, null for nothing.
	Republish *RepublishStatus `json:"republish"`
	// Backlog is null while the shard keeps up.
	Backlog *Backlog `json:"backlog"`

	// RepublishWaits is RepublishStatus.Waits.
	RepublishWaits string `json:"-"`
	// SaveHangs says that it waits for a save of the checkpoint that does not end.
	SaveHangs bool `json:"-"`
	// LastHeartbeat is the oldest of the loops' last heartbeats, and Loop is whose it is: owner or
	// publisher. Loops show heartbeats while source and bus are away, too; an idle one is left out.
	LastHeartbeat time.Time `json:"-"`
	Loop          string    `json:"-"`
}

// Backlog says how far a shard is behind its table.
type Backlog struct {
	// IDs is how many ids lie between the position and the highest one; some may have no row.
	IDs uint64 `json:"ids"`
	// Percent is the part that is done since the backlog began, 0 to 100.
	Percent float64 `json:"percent"`
	// IDsPerSecond is how fast the position advances, over the last 30 s. SecondsLeft is how long
	// the rest takes at that rate, null while it does not advance.
	IDsPerSecond float64  `json:"idsPerSecond"`
	SecondsLeft  *float64 `json:"secondsLeft"`
	// Limit says what of the configuration holds it back, null while nothing does.
	Limit null.Text `json:"limit"`
}

// The limits that a person has set.
const (
	LimitRate        null.Text = "rate"
	LimitConnections null.Text = "connections"
)

// limits notes by what a shard is held back.
type limits struct {
	// rate says that the last poll has left rows for it.
	rate bool
	// asked is when the shard began to wait for a connection, zero while it does not, had when it
	// had the last one; much says that it has waited for that for a good part of the time.
	asked, had time.Time
	much       bool
}

// waitShare is the part of its time that a shard may wait for connections before that is worth a
// word, waitLong how long it may wait for one.
const (
	waitShare = 5
	waitLong  = 2 * time.Second
)

func (l *limits) by(now time.Time) null.Text {
	switch {
	case l.rate:
		return LimitRate
	case l.much, !l.asked.IsZero() && now.Sub(l.asked) > waitLong:
		return LimitConnections
	}
	return ""
}

// connecting notes that a read waits for a connection, connected that it has one; it returns how
// long that took.
func (t *tracker) connecting(now time.Time) { t.update(func(*Status) { t.limits.asked = now }) }

func (t *tracker) connected(now time.Time) (waited time.Duration) {
	t.update(func(*Status) {
		l := &t.limits
		waited = now.Sub(l.asked)
		*l = limits{rate: l.rate, had: now, much: waited > now.Sub(l.had)/waitShare}
	})
	return waited
}

func (t *tracker) limitRate(limited bool) { t.update(func(*Status) { t.limits.rate = limited }) }

// Gaps describes the ids of a shard that have not been seen.
type Gaps struct {
	// Hot ids are looked up at every poll, cold ones every minute. Ids in flight are hot ids that
	// an open transaction has inserted.
	Hot      uint64 `json:"hot"`
	Cold     uint64 `json:"cold"`
	InFlight uint64 `json:"inFlight"`
	// Unpolled ids were not seen until GAP_TTL; reconcile compares them with the table.
	Unpolled uint64 `json:"unpolled"`
	// OldestSeconds is the age of the oldest gap, 0 if there is none. Oldest lists the lowest few
	// ranges.
	OldestSeconds float64      `json:"oldestSeconds"`
	Oldest        []ledger.Gap `json:"oldest"`
	// Ranges is how many gaps they form, Bytes the memory that they take.
	Ranges int `json:"-"`
	Bytes  int `json:"-"`
}

// gapsShown is how many gaps a status and a checkpoint list.
const gapsShown = 10

// tracker keeps a shard's status. It is safe for concurrent use.
type tracker struct {
	mu     sync.Mutex
	status Status
	// faults are what the latest tries of the stages failed with, empty where they did not.
	faults [stages]string
	// stopped says that the shard waits for a person, since when, and err why.
	stopped bool
	since   time.Time
	err     error
	// rests says that nothing is in flight of a shard that is paused.
	rests   bool
	lag     lag
	limits  limits
	traffic traffic
	// short is the lag up to which the shard counts as drained.
	short time.Duration
	// sent is when the batch in flight was begun, zero when there is none.
	sent time.Time
	// saving is when the commit under way began, zero while there is none.
	saving time.Time
	// beats are the last heartbeats of the loops, zero for one that is idle.
	beats [loops]time.Time
	// accepted has an element where a person has agreed to ids that are used again, until the shard
	// goes on.
	accepted chan struct{}
	// text returns what the status says of an error.
	text func(error) string
}

// stage is a part of a shard that can fail by itself.
type stage int

const (
	reading stage = iota
	saving
	// consulting reads the saved view.
	consulting
	stages
)

// slowPublish is how long a batch may be in flight before the shard counts as waiting for the bus,
// and a save before it counts as waiting for the disk.
const slowPublish = 4 * time.Second

func (t *tracker) init(stream, shard string, pollInterval, window time.Duration) {
	t.short, t.accepted = shortLag+2*window, make(chan struct{}, 1)
	t.status = Status{Stream: stream, Shard: shard, State: Starting, Gaps: Gaps{Oldest: []ledger.Gap{}}}
	t.lag.fresh = lookGrace + 3*pollInterval
}

// lookGrace is how late a look at the table may be before it no longer counts.
const lookGrace = 10 * time.Second

func (t *tracker) update(change func(*Status)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	change(&t.status)
}

func (t *tracker) heartbeat(l loop) { t.update(func(*Status) { t.beats[l] = time.Now() }) }

// idle notes that a loop waits for something to do, which may take any time, or has ended.
func (t *tracker) idle(l loop) { t.update(func(*Status) { t.beats[l] = time.Time{} }) }

func (t *tracker) fault(at stage, err error) {
	t.update(func(*Status) { t.faults[at] = t.text(err) })
}

// unread notes a read of the source that failed and is tried again.
func (t *tracker) unread() { t.update(func(*Status) { t.lag.unreadable = true }) }

func (t *tracker) healed(at stage) {
	t.update(func(*Status) { t.faults[at] = "" })
}

// polled notes when the source answered, and the highest id of the table. It ends an outage and a
// stop, and returns how long that has lasted.
func (t *tracker) polled(highest uint64, at time.Time) (stopped time.Duration) {
	t.update(func(s *Status) {
		s.Highest = highest
		s.LastPoll.Time = at
		t.faults[reading] = ""
		t.lag.unreadable, t.lag.stopped = false, false
		if t.stopped {
			s.LastError, s.Cause, t.stopped, t.err = "", "", false, nil
			stopped = time.Since(t.since)
		}
	})
	return stopped
}

// hot reports whether there are ids to look for at every poll.
func (t *tracker) hot() (is bool) {
	t.update(func(s *Status) { is = s.Gaps.Hot > 0 })
	return is
}

// highest returns the highest id of the table when it was read last.
func (t *tracker) highest() (id uint64) {
	t.update(func(s *Status) { id = s.Highest })
	return id
}

func (t *tracker) stop(err error) (fresh bool) {
	t.update(func(s *Status) {
		text := t.text(err)
		fresh = !t.stopped || string(s.LastError) != text
		if !t.stopped {
			t.since = time.Now()
		}
		s.LastError, s.Cause, t.stopped, t.err = null.Text(text), causeOf(err), true, err
		t.lag.stop(errors.Is(err, source.ErrMissing) || errors.Is(err, source.ErrDenied))
		t.sent = time.Time{}
		// What was agreed to before is void.
		select {
		case <-t.accepted:
		default:
		}
	})
	return fresh
}

// accept notes that a person agrees to ids that are used again, and reports whether the shard has
// stopped for them.
func (t *tracker) accept() (stopped bool) {
	t.update(func(s *Status) {
		if stopped = t.stopped && s.Cause == CauseIDsReused; stopped {
			signal(t.accepted)
		}
	})
	return stopped
}

// saved notes the position that is saved, and counts rows that the bus has acknowledged, and those
// that appeared inside a gap.
func (t *tracker) saved(position uint64, rows, late int) {
	t.update(func(s *Status) {
		s.Position, t.faults[saving] = position, ""
		t.traffic.late += uint64(late)
		t.traffic.save(position, false)
		t.traffic.publish(rows, position, time.Now())
	})
}

func (t *tracker) published() (rows, position uint64) {
	t.update(func(s *Status) {
		if position = s.Position; t.traffic.recent != nil {
			rows = t.traffic.recent.rows
		}
	})
	return rows, position
}

func (t *tracker) putAside(reason string) { t.update(func(*Status) { t.traffic.putAside(reason) }) }

// saves notes since when a batch is being committed, zero for none.
func (t *tracker) saves(since time.Time) { t.update(func(*Status) { t.saving = since }) }

// leave notes since when the oldest row has existed that a finder leaves for later.
func (t *tracker) leave(f finder, since time.Time) { t.update(func(*Status) { t.lag.left[f] = since }) }

// looked notes a look for all that may wait, that began at a time.
func (t *tracker) looked(at time.Time) {
	t.update(func(s *Status) {
		// What waited at a stop is found again by then.
		t.lag.looked, t.lag.left[findStopped] = at, time.Time{}
		if lag, known := t.lag.at(time.Now()); known && lag <= t.short {
			t.traffic.save(s.Position, true)
		}
	})
}

// hand notes when a batch was handed over, zero once it is committed, and since when its oldest row
// has existed.
func (t *tracker) hand(at, born time.Time) {
	t.update(func(*Status) { t.lag.handed, t.sent = born, at })
}

// publishes reports whether a batch is handed over that is not committed.
func (t *tracker) publishes() (is bool) {
	t.update(func(*Status) { is = !t.sent.IsZero() })
	return is
}

// abandon notes that nothing is handed over any more: the next poll finds again what was.
func (t *tracker) abandon() {
	t.update(func(*Status) {
		t.lag.abandon()
		t.sent = time.Time{}
	})
}

// polledEvery notes how long it may take from a poll to the next.
func (t *tracker) polledEvery(pause time.Duration) {
	t.update(func(*Status) { t.lag.fresh = lookGrace + 3*pause })
}

// Status returns what the shard is doing now, without its traffic and its backlog.
func (s *Shard) Status() Status {
	t := &s.status
	t.mu.Lock()
	defer t.mu.Unlock()
	status, _ := t.at(time.Now())
	return status
}

// FullStatus is Status with the traffic and the backlog.
func (s *Shard) FullStatus() Status {
	t := &s.status
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	status, lag := t.at(now)
	if r := s.Republish(); r != nil {
		r.Waits = null.Text(status.RepublishWaits)
		if r.EndedAt.IsZero() && status.State != Running && status.State != Waiting {
			r.Waits = null.Text("the table is " + string(status.State))
		}
		if r.List != "" && r.EndedAt.IsZero() && !status.NoTail {
			// It ends with the table.
			r.To = status.Position
			r.Percent = 100 * float64(min(r.Cursor, r.To)) / float64(max(1, r.To))
		}
		status.Republish = r
	}
	ids := 0.0
	status.Traffic, ids = t.traffic.at(status.Position, now)
	if !status.NoTail && lag > t.short && status.Position < status.Highest {
		status.Backlog = t.traffic.backlog(status.Position, status.Highest, ids)
		status.Backlog.Limit = t.limits.by(now)
	}
	return status
}

// at is Status at a time, and the lag, 0 where it is not known. The caller holds the lock.
func (t *tracker) at(now time.Time) (status Status, lag time.Duration) {
	status = t.status
	stillest, last := loop(0), now
	for l, at := range t.beats {
		if !at.IsZero() && at.Before(last) {
			stillest, last = loop(l), at
		}
	}
	status.LastHeartbeat, status.Loop = last, stillest.String()
	lag, known := t.lag.at(now)
	if known = known && !t.rests; known {
		seconds := lag.Seconds()
		status.LagSeconds = &seconds
	}
	slow := !t.sent.IsZero() && now.Sub(t.sent) > slowPublish
	switch {
	case t.stopped:
		status.State = Stopped
	case t.rests:
		status.State = Paused
	case t.faults != [stages]string{}:
		status.State, status.LastError = Waiting, null.Text(cmp.Or(t.faults[:]...))
	case !t.saving.IsZero() && now.Sub(t.saving) > slowPublish:
		status.State, status.SaveHangs = Waiting, true
		status.LastError = null.Text(fmt.Sprintf("a save of the checkpoint has not ended for %s: does its disk answer?", now.Sub(t.saving).Round(time.Second)))
	case slow:
		status.State = Waiting
		status.LastError = null.Text(fmt.Sprintf("the bus has not acknowledged a batch for %s", now.Sub(t.sent).Round(time.Second)))
	case !status.LastPoll.IsZero():
		status.State = Running
	}
	return status, lag
}
