package standby

import "time"

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
	// Err is why the bus did not tell who works, nil while it does.
	Err error
}

// Status returns what is known now.
func (m *Member) Status() Status {
	m.mu.Lock()
	defer m.mu.Unlock()
	return Status{
		Group: m.opts.Group, Member: m.self.Member, Host: m.self.Host, Works: !m.self.Since.IsZero(),
		Working: m.working, Seen: m.seen, Differing: m.differing(), Other: m.other, Err: m.err,
	}
}
