package shard

import (
	"context"
	"time"
)

const (
	// askAgainAfter and askAtLeastEvery bound the pause between two questions for the traits of a server: where several servers
	// answer in turns the pause doubles with each question.
	askAgainAfter   = time.Second
	askAtLeastEvery = time.Minute
)

// questions keeps questions for the traits of servers apart. The zero value lets the first one through.
type questions struct {
	asked time.Time
	pause time.Duration
}

// due reports whether the traits may be asked for now, and counts that as a question.
func (q *questions) due(now time.Time) bool {
	since := now.Sub(q.asked)
	switch {
	case q.asked.IsZero() || since >= 2*q.pause:
		q.pause = askAgainAfter
	case since < q.pause:
		return false
	default:
		q.pause = min(2*q.pause, askAtLeastEvery)
	}
	q.asked = now
	return true
}

// meet asks for the traits where an answer has come from another server than they hold for. Call it with every page before anything
// is concluded from what it does not hold; afterwards knows tells whether the traits hold for that server.
func (s *Shard) meet(ctx context.Context, server string) error {
	if s.knows(server) || !s.gaps.questions.due(time.Now()) {
		return nil
	}
	return s.askTraits(ctx)
}

// knows reports whether the traits hold for a server.
func (s *Shard) knows(server string) bool { return s.gaps.traits.Server == server }

const (
	// dropFor is how long evidence is dropped, poll after poll, because it comes from another server than the page. Then time alone
	// decides, and evidence is tried again once in each retryEvery.
	dropFor    = time.Minute
	retryEvery = time.Minute
)

// agreement tells whether page and evidence come from the same server.
type agreement struct {
	// since is when they began to differ, zero while they do not; tried is when evidence was asked for last since then.
	since, tried time.Time
	// warned is when that was logged.
	warned time.Time
}

// skips reports whether no evidence is asked for at this poll, since it has not fitted for long.
func (a *agreement) skips(now time.Time) bool {
	return !a.since.IsZero() && now.Sub(a.since) >= dropFor && now.Sub(a.tried) < retryEvery
}

// differs notes that they differ and reports whether that is worth a warning.
func (a *agreement) differs(now time.Time) (warn bool) {
	a.tried = now
	if !a.since.IsZero() {
		return false
	}
	a.since = now
	if !a.warned.IsZero() && now.Sub(a.warned) < askAtLeastEvery {
		return false
	}
	a.warned = now
	return true
}
