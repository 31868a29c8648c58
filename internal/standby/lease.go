package standby

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"
)

// Register has the entries of a group on a bus, each replaced only by those who know its revision.
type Register interface {
	// Get returns an entry and its revision, 0 where there is none. An old one may be returned.
	Get(ctx context.Context, name Entry) (text []byte, revision uint64, err error)
	// Put replaces an entry of a revision, 0 for none, and returns the new revision. The error is
	// ErrConflict if the entry has another one. After any other error it may be replaced or not.
	Put(ctx context.Context, name Entry, text []byte, revision uint64) (uint64, error)
	// Close releases connections.
	Close() error
}

// Entry names an entry of a group.
type Entry string

const (
	// Work is the entry with the claim of the member that works.
	Work Entry = "work"
	// WaitingMembers is the entry with the claims of those that wait.
	WaitingMembers Entry = "waiting"
)

// Lease is an Elector over a Register. The member that works replaces the entry at every step, and
// another one replaces it when it has seen the same revision for the timeout, by its own clock.
type Lease struct {
	register Register
	timeout  time.Duration
	// held says that revision is that of our own entry.
	held     bool
	revision uint64
	// seen is when this revision was read first, sent when our last Put began.
	seen, sent time.Time
	roster     roster
}

var (
	_ Elector = (*Lease)(nil)
	_ Checker = (*Lease)(nil)
)

// NewLease returns an Elector whose members work as long as they replace the entry within timeout.
func NewLease(r Register, timeout time.Duration) *Lease {
	return &Lease{register: r, timeout: timeout}
}

// Step implements Elector.
func (l *Lease) Step(ctx context.Context, self Claim) (Claim, time.Time, error) {
	begun := time.Now()
	if !l.held {
		working, err := l.read(ctx, self, 0)
		if err == nil && !l.held {
			l.roster.update(ctx, l.register, &self, l.timeout)
		}
		return working, begun, err
	}
	// The bus has heard of us at the latest with the Put before.
	before := l.sent
	l.sent = begun
	revision, err := l.register.Put(ctx, Work, self.Encode(), l.revision)
	if errors.Is(err, ErrConflict) {
		// Our own Put, whose answer was lost, may have replaced it.
		l.held = false
		working, err := l.read(ctx, self, l.revision)
		return working, before, err
	}
	if err != nil {
		return Claim{}, begun, err
	}
	l.revision = revision
	l.roster.update(ctx, l.register, &self, l.timeout)
	return self, begun, nil
}

// Members implements Elector.
func (l *Lease) Members() []Claim { return l.roster.members }

// errOldEntry is returned inside the package for an entry of our own that was replaced.
var errOldEntry = errors.New("an old entry was read")

// read looks at the entry, and replaces it where nobody works. An entry of ours is to have a
// revision above after.
func (l *Lease) read(ctx context.Context, self Claim, after uint64) (Claim, error) {
	entry, revision, err := l.register.Get(ctx, Work)
	if err != nil {
		return Claim{}, err
	}
	var working Claim
	if revision > 0 {
		if working, err = DecodeClaim(entry); err != nil {
			return Claim{}, fmt.Errorf("the entry of the group is damaged: %w: delete it", err)
		}
	}
	if working.Member == self.Member && !working.Left && revision <= after {
		l.held = true // to be tried again
		return Claim{}, errOldEntry
	}
	if revision != l.revision || l.seen.IsZero() {
		l.revision, l.seen = revision, time.Now()
	}
	if working.Member == self.Member && !working.Left {
		l.held = true
		return working, nil
	}
	if time.Since(l.seen) < l.wait(&working, &self) {
		return l.alive(working), nil
	}
	self.Since = time.Now().UTC().Truncate(time.Millisecond)
	l.sent = time.Now()
	revision, err = l.register.Put(ctx, Work, self.Encode(), l.revision)
	if errors.Is(err, ErrConflict) {
		// Another one was faster, or the entry that was read is an old one.
		return Claim{}, nil
	}
	if err != nil {
		return Claim{}, err
	}
	l.held, l.revision = true, revision
	return self, nil
}

// alive returns the claim of a member that works as far as is known, else the zero Claim.
func (l *Lease) alive(c Claim) Claim {
	if c.Left || time.Since(l.seen) >= l.timeout {
		return Claim{}
	}
	return c
}

// wait returns how long an entry must not change until a member replaces it: one that is not ready
// lets others go first, one that is refused never replaces it.
func (l *Lease) wait(working, self *Claim) time.Duration {
	wait := l.timeout
	if working.Member == "" || working.Left {
		wait = 0
	}
	switch {
	case self.Refused:
		return math.MaxInt64
	case !self.Ready:
		wait += l.timeout
	}
	return wait
}

// Leave implements Elector.
func (l *Lease) Leave(ctx context.Context, self Claim) error {
	if !l.held {
		return nil
	}
	l.held = false
	self.Left = true
	_, err := l.register.Put(ctx, Work, self.Encode(), l.revision)
	if errors.Is(err, ErrConflict) {
		return nil
	}
	return err
}

// Check implements Checker, where the register does.
func (l *Lease) Check(ctx context.Context) error {
	if c, ok := l.register.(Checker); ok {
		return c.Check(ctx)
	}
	return nil
}

// Close implements Elector.
func (l *Lease) Close() error { return l.register.Close() }
