package shard_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"example.org/bridge/checkpoint/store"
	storememory "example.org/bridge/checkpoint/store/storetest/memory"
	"example.org/bridge/internal/shard"
	"example.org/bridge/reconcile"
	"example.org/bridge/source"
	"example.org/bridge/tests/script"
)

// stage is a bench on which scripts are played.
type stage struct {
	*bench
	script.Player
	// shard is that of the process of the moment, stop ends it.
	shard *shard.Shard
	stop  func()
	// events are what the bus has said, open are rows of open transactions.
	events []string
	open   []uint64
	copied store.Store
	full   *faultyStore
	free   func()
	gate   gate
	began  time.Time
}

func (b *bench) play(t testing.TB, steps string) *stage {
	t.Helper()
	s := &stage{bench: b, Player: script.Player{TB: t}}
	s.play(steps)
	return s
}

// viewScripts plays each script on a bench of a capability stream with MODIFIED or without it, on a
// clock of its own; rowScripts does of a release stream.
func viewScripts(t *testing.T, modified bool, list map[string]string) {
	for name, steps := range list {
		instantly(t, name, func(t *testing.T) { newViewBench(t, modified).play(t, steps) })
	}
}

func rowScripts(t *testing.T, list map[string]string) {
	for name, steps := range list {
		instantly(t, name, func(t *testing.T) { newBench(t).play(t, steps) })
	}
}

func (s *stage) play(steps string) {
	s.Helper()
	s.Play(steps, func(name string, w []string) bool {
		s.Helper()
		return s.option(name, w) || s.onTable(name, w) || s.onBus(name, w) || s.process(name, w) || s.check(name, w)
	})
}

// values are those of a row: now and old are times, as are ago=TIME, @moment, that of the last
// such step, and @second, the second of that.
func (s *stage) values(words []string) (values []string) {
	for _, word := range words {
		before, isAgo := strings.CutPrefix(word, "ago=")
		switch {
		case isAgo:
			word = ago(s.Duration(before))
		case word == "now":
			word = now()
		case word == "old":
			word = old
		case word == "@moment":
			word = s.began.UTC().Format(stamp)
		case word == "@second":
			word = s.began.UTC().Truncate(time.Second).Format(stamp)
		}
		values = append(values, word)
	}
	return values
}

// option sets an option of the next processes.
func (s *stage) option(name string, w []string) bool {
	s.Helper()
	times := map[string]*time.Duration{
		"poll-every": &s.opts.PollInterval, "look": &s.tick, "look-back": &s.opts.LookBack, "reach": &s.opts.Reach, "window": &s.opts.Window,
		"ttl": &s.opts.GapTTL, "recheck": &s.opts.Recheck, "shutdown": &s.opts.ShutdownTimeout,
	}
	switch d := times[name]; {
	case d != nil:
		*d = s.Duration(w[0])
	case name == "latest":
		s.opts.Start.Latest = true
	case name == "unordered":
		s.opts.IDOrder = source.OrderNone
	case name == "shared":
		s.opts.Shared = true
	case name == "dead-letters":
		s.opts.DeadLetter = deadTopic
	case name == "gives-up":
		s.opts.GapTTL, s.opts.HotFor, s.opts.SweepEvery = time.Nanosecond, time.Millisecond, time.Millisecond
	case name == "keep": // N rows published last
		s.opts.PublishedRows = int(s.Number(w[0]))
	case name == "batch":
		s.opts.BatchRows = int(s.Number(w[0]))
	default:
		return false
	}
	return true
}

func (s *stage) onTable(name string, w []string) bool {
	s.Helper()
	switch name {
	case "insert": // N rows of a release stream
		s.insert(int(s.Number(w[0])))
	case "row": // VALUE...
		s.table.Insert(s.values(w)...)
	case "at": // ID VALUE...
		s.table.InsertAt(s.Number(w[0]), s.values(w[1:])...)
	case "begin": // VALUE... a transaction with a row
		s.open = append(s.open, s.table.Open(s.values(w)...))
	case "commit":
		for _, id := range s.open {
			s.table.Commit(id)
		}
		s.open = nil
	case "update": // ID VALUE...
		s.table.Update(s.Number(w[0]), s.values(w[1:])...)
	case "replace": // VALUE...
		s.table.Replace(s.values(w)...)
	case "delete": // ID...
		for _, id := range s.Numbers(w) {
			s.table.Delete(id)
		}
	case "write": // NAME FIRST N: rows that differ
		write(s.table, w[0], int(s.Number(w[1])), int(s.Number(w[2])))
	case "fail-over": // LAST: to a server that ends there; or LAST replica
		s.fails(s.Number(w[0]), "second")
		s.table.Move("second", len(w) > 1)
	case "truncate":
		s.table.Truncate()
	case "begin-update": // ID VALUE...
		s.table.OpenUpdate(s.Number(w[0]), s.values(w[1:])...)
	case "commit-update": // ID...
		s.table.CommitUpdate(s.Numbers(w)...)
	case "roll-back": // ID
		s.table.RollbackUpdate(s.Number(w[0]))
	case "server": // NAME, or NAME replica
		s.table.Move(w[0], len(w) > 1)
	case "set-back": // TIME, of the database's clock
		d := s.Duration(w[0])
		s.table.Clock = func() time.Time { return time.Now().Add(-d) }
	case "drop-index", "make-index":
		s.table.Index(name == "make-index")
	case "away", "missing": // at N reads, or for ever
		n, err := -1, map[string]error{"away": errAway, "missing": source.ErrMissing}[name]
		if len(w) > 0 {
			n = int(s.Number(w[0]))
		}
		s.table.Fail(n, err)
	case "back":
		s.table.Fail(0, nil)
	default:
		return false
	}
	return true
}

func (s *stage) onBus(name string, w []string) bool {
	s.Helper()
	switch name {
	case "refuse": // TEXT, or FIRST LAST of rows
		if s.bus.Reject(refuseText(w[0])); len(w) > 1 {
			s.bus.Reject(refuseRows(s.Number(w[0]), s.Number(w[1])))
		}
	case "accept":
		s.bus.Reject(nil)
	case "hold": // N: the bus stands still behind N messages
		s.free = s.bus.Pause(int(s.Number(w[0])))
	case "free":
		s.free()
	case "expire": // messages below N
		s.bus.Expire(topic, s.Number(w[0]))
	case "lose": // N messages
		s.bus.Lose(topic, int(s.Number(w[0])))
	case "full", "room":
		if s.full == nil {
			s.full = &faultyStore{Store: s.store}
			s.store = s.full
		}
		if s.full.fail(nil); name == "full" {
			s.full.fail(store.ErrOutage)
		}
	case "copy":
		s.copied = copyStore(s.store)
	case "restore":
		s.store = s.copied
	case "lost":
		s.store = storememory.New()
	case "set": // POSITION
		s.set(s.TB, s.Number(w[0]))
	case "rebuild":
		s.apply(s.TB, rebuildOf)
	default:
		return false
	}
	return true
}

// process has something happen to the process.
func (s *stage) process(name string, w []string) bool {
	s.Helper()
	switch name {
	case "run":
		s.shard, s.stop = s.run(s.TB)
	case "stop":
		s.stop()
	case "run-to": // POSITION
		s.runTo(s.TB, s.Number(w[0]))
	case "stop-for-good":
		s.shard.Stop(errDead)
	case "pause", "resume":
		setPause(s.TB, s.bench, s.shard, name == "pause")
	case "wait": // TIME
		wait(s.TB, s.Duration(w[0]))
	case "pass": // TIME of a bubble
		wait(s.TB, s.Duration(w[0]))
		synctest.Wait()
	case "polls": // N
		s.polls(s.TB, int(s.Number(w[0])))
	case "between": // STEP | STEP... that happen between two reads
		s.gate.between(func() { s.play(strings.ReplaceAll(strings.Join(w, " "), "|", ";")) })
	case "moment":
		s.began = time.Now()
	case "soon": // behind moment
		s.Want(time.Since(s.began) <= time.Minute, true)
	case "nominate": // FIRST-LAST ENTITY... = VERDICT
		n, verdict, judged := s.nomination(w)
		if got := nominate(s.TB, s.shard, n); judged {
			s.Want(got, verdict)
		}
	case "nominate-fails":
		n, _, _ := s.nomination(w)
		if v, err := s.shard.Nominate(s.Context(), n); err == nil {
			s.Errorf("%s: the verdict is %+v", s.Step, v)
		}
	case "reconciled": // as is due
		demand, due := s.shard.ReconcileDue()
		s.Want([]any{due, s.shard.Reconciled(s.Context(), demand)}, []any{true, nil})
	case "reaches":
		eventually(s.TB, "the shard reaches", func() bool { _, ok := s.shard.Reach(); return ok })
	case "resend", "resend-first": // STATE... of all dead letters, as a dry run has said
		list := s.deadLetters(s.TB)
		if name == "resend-first" {
			list = list[:1]
		}
		before := s.count(topic)
		dry := resendAll(s.TB, s.shard, list, true)
		s.Want(s.count(topic), before)
		real := resendAll(s.TB, s.shard, list, false)
		expectStates(s.TB, statesOf(real, list), strings.Join(w, " "))
		for i := range real {
			if dry[i] != real[i] && real[i].State != shard.ResendRefused {
				s.Errorf("%s: a dry resend says %+v, the resend %+v", s.Step, dry[i], real[i])
			}
		}
	default:
		return false
	}
	return true
}

// nomination is one in words, with the verdict that is expected.
func (s *stage) nomination(words []string) (n reconcile.Nomination, v reconcile.Verdict, judged bool) {
	kinds := map[string]*uint64{"added": &v.Added, "modified": &v.Modified, "deleted": &v.Deleted, "missed": &v.Missed}
	for _, word := range words {
		kind, count, counts := strings.Cut(word, "=")
		first, last, ranged := strings.Cut(word, "-")
		switch {
		case word == "=":
			judged = true
		case counts:
			*kinds[kind] = s.Number(count)
		case ranged:
			n.Rows = append(n.Rows, source.Range{First: s.Number(first), Last: s.Number(last)})
		default:
			n.Entities = append(n.Entities, entity(word))
		}
	}
	return n, v, judged
}

// event holds an event against previous=N, id=N, unlike=N (its id), of event N or the first dead
// letter, its row=N, origin=O and reason=R.
func (s *stage) event(one said, wants []string) {
	s.Helper()
	id := func(of string) string {
		if of == "dead" {
			return s.deadLetters(s.TB)[0].Event
		}
		return s.said(s.TB)[s.Number(of)].id
	}
	for _, want := range wants {
		switch what, value, _ := strings.Cut(want, "="); what {
		case "previous":
			s.Want(one.predecessor, id(value))
		case "id":
			s.Want(one.id, id(value))
		case "unlike":
			s.Want(one.id == id(value), false)
		case "row":
			s.Want(one.row, value)
		case "origin":
			s.Want(one.origin, value)
		case "reason":
			s.Want(one.reason, value)
		default:
			s.Fatalf("%s: unknown %s", s.Step, what)
		}
	}
}

// check fails the test unless something is so, or becomes so.
func (s *stage) check(name string, w []string) bool {
	s.Helper()
	soon := func(condition func() bool) { s.Helper(); eventually(s.TB, s.Step, condition) }
	switch name {
	case "said", "on-bus": // EVENT, EVENT...: the bus says that behind what it said
		if len(w) > 0 {
			s.events = append(s.events, strings.Split(strings.Join(w, " "), ", ")...)
		}
		if name == "said" {
			s.expectSaid(s.TB, s.events...)
		} else {
			s.expectOnBus(s.TB, strings.Join(s.events, ", "))
		}
	case "says": // the same at this moment, in any order
		news := s.news(s.TB, len(s.events))
		slices.Sort(news)
		s.Want(strings.Join(news, ", "), strings.Join(w, " "))
	case "saved": // POSITION
		s.saved(s.TB, s.Number(w[0]))
	case "position": // N, or one of several
		s.WantOne(s.position(s.TB), w)
	case "count": // N messages
		soon(func() bool { return s.count(topic) == int(s.Number(w[0])) })
	case "count-later":
		later(s.TB, s.Step, func() bool { return s.count(topic) == int(s.Number(w[0])) })
	case "dead": // N dead letters
		soon(func() bool { return s.count(deadTopic) == int(s.Number(w[0])) })
	case "ids": // ROW...
		s.Want(s.ids(topic), s.Numbers(w))
	case "alike": // DESTINATION M N
		all := s.bus.Messages(w[0])
		one, other := all[s.Number(w[1])], all[s.Number(w[2])]
		s.Want([]string{other.ID, string(other.Value)}, []string{one.ID, string(one.Value)})
	case "sorted-ids": // ROW...
		ids := s.ids(topic)
		slices.Sort(ids)
		s.Want(ids, s.Numbers(w))
	case "event": // N with WHAT=IT
		s.event(s.said(s.TB)[s.Number(w[0])], w[1:])
	case "error": // WORDS
		expectText(s.TB, s.shard.Status().LastError, strings.Join(w, " "))
	case "reused":
		soon(func() bool { return s.shard.Status().Cause == shard.CauseIDsReused })
	case "has": // ROW
		soon(func() bool { return slices.Contains(s.ids(topic), s.Number(w[0])) })
	case "running", "waiting", "paused", "stopped":
		soon(func() bool { return string(s.shard.Status().State) == name })
	case "is": // STATE
		s.Want(s.shard.Status().State, w[0])
	case "unpolled": // N ids
		soon(func() bool { return s.shard.Status().Gaps.Unpolled == s.Number(w[0]) })
	case "flying": // N ids
		soon(func() bool { return s.shard.Status().Gaps.InFlight == s.Number(w[0]) })
	case "idle":
		later(s.TB, "the shard is idle", func() bool { synctest.Wait(); return s.shard.Idle() })
	case "busy":
		s.Want(s.shard.Idle(), false)
	case "drained":
		drained(s.TB, s.shard)
	case "gaps": // N
		soon(func() bool { return uint64(s.shard.Status().OpenGaps) == s.Number(w[0]) })
	case "recorded": // all of the table as it stood at its start
		soon(func() bool { return s.snapshotTaken(s.TB) })
	default:
		return false
	}
	return true
}
