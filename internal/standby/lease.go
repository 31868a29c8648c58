package standby

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"
)

// Register has the entries of a group on a bus, each replaced only by those who know its revision.
type Register interface {
	// Get returns an entry and its revision, 0 if there is none. An old one may be returned.
	Get(ctx context.Context, name Entry) (text []byte, revision uint64, err error)
	// Put replaces an entry of a revision, 0 for none, and returns the new revision. The error is
	// ErrConflict if the entry has another one. After any other error it may be replaced or not.
	Put(ctx context.Context, name Entry, text []byte, revision uint64) (uint64, error)
	// Check is the check of an Elector.
	Check(ctx context.Context) error
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

var _ Elector = (*Lease)(nil)

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
		if working.Left || time.Since(l.seen) >= l.timeout {
			working = Claim{} // it works no more, as far as is known
		}
		return working, nil
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

// Check implements Elector.
func (l *Lease) Check(ctx context.Context) error { return l.register.Check(ctx) }

// Close implements Elector.
func (l *Lease) Close() error { return l.register.Close() }

// Claim is what a member says of itself to the others.
type Claim struct {
	// Member names the process, and no other one. It is empty in the claim of nobody.
	Member string `json:"member"`
	// Host is for people.
	Host string `json:"host,omitempty"`
	// Addr is host:port of the member's HTTP server, as other hosts may reach it. It is empty where
	// the member has none.
	Addr string `json:"addr,omitempty"`
	// TLS says that the member speaks TLS there.
	TLS bool `json:"tls,omitempty"`
	// Since is when the member began to work, by the clock of a host; zero while it waits. It is
	// for people: nothing is decided by it.
	Since time.Time `json:"since,omitzero"`
	// Ready says that the member has read what the bus holds, so that it can go on at once.
	Ready bool `json:"ready,omitempty"`
	// Refused says that the member must not be elected: its settings differ from those of a member
	// that works, or did a moment ago.
	Refused bool `json:"refused,omitempty"`
	// Left says that the member works no more and left in order.
	Left bool `json:"left,omitempty"`
	// Settings must be the same for all members, Later for those that have it: a former version
	// does not know what is in it.
	Settings Settings `json:"settings,omitempty"`
	Later    Settings `json:"later"`
}

func (c *Claim) differing(other *Claim) []string {
	names := c.Settings.Differing(other.Settings)
	if c.Later != nil && other.Later != nil {
		names = append(names, c.Later.Differing(other.Later)...)
	}
	return names
}

// Settings has a hash of each setting that members must agree on, by its variable. One that is not
// there has its default.
type Settings map[string]string

// Differing returns the variables that differ, sorted.
func (s Settings) Differing(other Settings) []string {
	all := make(Settings)
	maps.Copy(all, s)
	maps.Copy(all, other)
	maps.DeleteFunc(all, func(name, _ string) bool { return s[name] == other[name] })
	return slices.Sorted(maps.Keys(all))
}

// Encode returns the claim as the bus keeps it.
func (c *Claim) Encode() []byte {
	// Nothing in it can fail to be encoded.
	text, _ := json.Marshal(c)
	return text
}

// DecodeClaim is the inverse of Encode. Members that are not known are passed over: a later version
// may have written them.
func DecodeClaim(text []byte) (c Claim, err error) {
	return c, json.Unmarshal(text, &c)
}

// roster is what a member knows of those that wait. They keep one entry of the bus together, for
// people: nothing is decided by it.
type roster struct {
	members []Claim
	// looked is when the entry was looked at last, beats what it said of each member, since when.
	looked time.Time
	beats  map[string]beat
}

// beat is a count that a member advances each time it shows that it lives.
type beat struct {
	count uint64
	since time.Time
}

type listed struct {
	Claim
	Beat uint64 `json:"beat"`
}

// looks there are a timeout.
const looks = 4

// update reads the entry now and then, and shows a member that waits in it. One that was not heard
// of for a timeout, by the clock of this host, is left out. An error keeps what is known: it is the
// election that shows and names faults of the bus.
func (r *roster) update(ctx context.Context, register Register, self *Claim, timeout time.Duration) {
	if time.Since(r.looked) < timeout/looks {
		return
	}
	r.looked = time.Now()
	text, revision, err := register.Get(ctx, WaitingMembers)
	if err != nil {
		return
	}
	var all map[string]listed
	if json.Unmarshal(text, &all) != nil || all == nil {
		all = make(map[string]listed)
	}
	r.observe(all, timeout)
	if !self.Since.IsZero() {
		delete(all, self.Member)
		r.members = claimsOf(all)
		return
	}
	all[self.Member] = listed{*self, all[self.Member].Beat + 1}
	r.members = claimsOf(all)
	// It holds nothing that fails to be encoded.
	text, _ = json.Marshal(all)
	if _, err = register.Put(ctx, WaitingMembers, text, revision); errors.Is(err, ErrConflict) {
		// Another member was faster: with the next step.
		r.looked = time.Time{}
	}
}

// observe drops those that were not heard of for the timeout.
func (r *roster) observe(all map[string]listed, timeout time.Duration) {
	beats := make(map[string]beat, len(all))
	for name := range all {
		b, known := r.beats[name]
		if !known || b.count != all[name].Beat {
			b = beat{all[name].Beat, r.looked}
		}
		beats[name] = b
		if r.looked.Sub(b.since) >= timeout {
			delete(all, name)
		}
	}
	r.beats = beats
}

func claimsOf(all map[string]listed) []Claim {
	claims := make([]Claim, 0, len(all))
	for name := range all {
		claims = append(claims, all[name].Claim)
	}
	return claims
}
