package standby

import (
	"cmp"
	"slices"
	"time"
)

// Status is what a member knows of its group.
type Status struct {
	Group string
	// Member and Host are those of this process, which works if Works is set.
	Member, Host string
	Works        bool
	// Working is the claim of the member that works, the zero Claim while none is known. Seen is
	// when the bus told that last, zero before the first time.
	Working Claim
	Seen    time.Time
	// Differing are the variables in which Other, the member that works or did a moment ago,
	// differs from this process: it is not elected.
	Differing []string
	Other     Claim
	// Waiting are the members that wait, this one among them where it does, by host and member.
	Waiting []Waiting
	// Err is why the bus did not tell who works, nil while it does.
	Err error
}

// Waiting is a member that waits.
type Waiting struct {
	Claim
	// Differing are the variables in which it differs from the one that works, or did a moment ago:
	// it is not elected.
	Differing []string
}

// Status returns what is known now.
func (m *Member) Status() Status {
	m.mu.Lock()
	defer m.mu.Unlock()
	return Status{
		Group: m.opts.Group, Member: m.self.Member, Host: m.self.Host, Works: !m.self.Since.IsZero(),
		Working: m.working, Seen: m.seen, Differing: m.differing(), Other: m.other, Waiting: m.waiting(), Err: m.err,
	}
}

// waiting returns the members that wait. The caller holds mu.
func (m *Member) waiting() []Waiting {
	works := m.other
	if !m.self.Since.IsZero() {
		works = m.self
	}
	var waiting []Waiting
	for i := range m.members {
		c := m.members[i]
		if c.Member == m.working.Member {
			continue
		}
		w := Waiting{Claim: c}
		if works.Member != "" && c.Refused {
			w.Differing = c.Settings.Differing(works.Settings)
		}
		waiting = append(waiting, w)
	}
	slices.SortFunc(waiting, func(a, b Waiting) int { return cmp.Or(cmp.Compare(a.Host, b.Host), cmp.Compare(a.Member, b.Member)) })
	return waiting
}
