package standby

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"example.org/bridge/client/backoff"
	"example.org/bridge/internal/null"
	"example.org/bridge/internal/option"
)

var (
	// ErrLost is returned when a member that worked must not publish any more: another one works
	// or may work by now.
	ErrLost = errors.New("this process is not the one of its standby group that works any more")
	// ErrConflict is returned by a Register that holds another revision than the caller knows.
	ErrConflict = errors.New("the entry was changed by another member")
)

// Elector tells which member of a group works. It serves one goroutine.
type Elector interface {
	// Step shows the bus once that self lives, and returns the claim of the member that works: that
	// of self, with Since, where it is elected, and the zero Claim where nobody works or where self
	// was removed. It elects no claim that is refused, and one that is not ready only where no
	// other one is. The bus has heard of self at a time that is heard, by the clock of this host,
	// or later. An error says nothing about who works. It blocks no longer than three quarters of
	// the timeout of the group.
	Step(ctx context.Context, self Claim) (working Claim, heard time.Time, err error)
	// Members returns the claims of the members as the last Step has heard of them, for people: one
	// that waits may be missing, or have ended some timeouts ago. The one that works may be among
	// them. The caller does not change them.
	Members() []Claim
	// Leave has another member be elected at once. After it Step begins from the start.
	Leave(ctx context.Context, self Claim) error
	// Check returns nil where the login may take part in the election, as far as that shows without
	// a change. The error says what to grant.
	Check(ctx context.Context) error
	// Close releases connections. It leaves nothing.
	Close() error
}

// Options set up a Member.
type Options struct {
	// Group names the group, for the log.
	Group   string
	Elector Elector
	// Member and Host are those of the Claim.
	Member, Host string
	Settings     Settings
	// Timeout is how long the one that works may not be heard of until another one is elected. It
	// is the same for the Elector.
	Timeout time.Duration
	// Ready reports whether the process can go on at once.
	Ready func() bool
	Log   *slog.Logger
	// Fault is called with each error of the Elector, and with nil when it ends.
	Fault func(error)
}

const (
	// steps there are a timeout: a member that left in order is followed within one of them.
	steps = 20
	// refusedTimeouts is how many timeouts must pass without anybody who works until a member with
	// other settings may be elected.
	refusedTimeouts = 3
)

// Member is a process that waits until it is elected, and then works.
type Member struct {
	opts    Options
	elected chan struct{}

	// mu is held to change what follows, which Run does alone but for the settings of self.
	mu sync.Mutex
	// self is our claim, with Since while we work; working that of the member that works.
	self, working Claim
	// seen is when working was told last.
	seen time.Time
	// other is the claim of another member that worked last, heard when it was told last.
	other Claim
	heard time.Time
	// members are as the bus told them last.
	members []Claim
	// logged are the settings that differ, as logged last.
	logged string
	err    error
}

// New returns a member; Run begins it.
func New(o Options) *Member {
	m := &Member{opts: o, elected: make(chan struct{}), self: Claim{Member: o.Member, Host: o.Host}}
	m.Agree(o.Settings)
	return m
}

// Listens sets the Addr of the member's claim, and whether it speaks TLS there. It is called before
// Run.
func (m *Member) Listens(addr string, tls bool) { m.self.Addr, m.self.TLS = addr, tls }

// Agree sets the settings of the member's claim, when its configuration is another one.
func (m *Member) Agree(settings Settings) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.self.Settings, m.self.Later = make(Settings), make(Settings)
	for name, hash := range settings {
		to := m.self.Settings
		if strings.HasSuffix(name, "_"+string(option.ReconcileMaxDeletes)) {
			to = m.self.Later
		}
		to[name] = hash
	}
}

// Elected is closed when this process is to work. It works until Run returns.
func (m *Member) Elected() <-chan struct{} { return m.elected }

// Run takes part until ctx ends, then leaves and returns nil. It returns an error that wraps
// ErrLost when a member that worked must stop: a tenth of the timeout before another one can be
// elected for its silence, and at once where another one works.
func (m *Member) Run(ctx context.Context) error {
	var until time.Time
	for {
		if m.works() && !time.Now().Before(until) {
			return m.lost(fmt.Errorf("the bus was not reached for %s: %w", m.opts.Timeout, cmp.Or(m.err, errSilent)))
		}
		begun := time.Now()
		working, heard, err := m.step(ctx, until)
		if ctx.Err() != nil {
			return m.leave(ctx)
		}
		next := heard.Add(m.opts.Timeout - m.opts.Timeout/10)
		switch {
		case err != nil:
			m.opts.Fault(err)
			m.mu.Lock()
			m.err = err
			m.mu.Unlock()
		case working.Member != m.self.Member && m.works():
			if working.Member == "" {
				return m.lost(errors.New("the bus has not heard of it in time"))
			}
			return m.lost(fmt.Errorf("%s works now", &working))
		case working.Member != m.self.Member:
			m.wait(working)
		case time.Now().Before(next):
			until = next
			m.work(&working)
		}
		if backoff.Pause(ctx, time.Until(begun.Add(m.opts.Timeout/steps))) != nil {
			return m.leave(ctx)
		}
	}
}

// works reports whether this member works. Others than Run hold mu.
func (m *Member) works() bool { return !m.self.Since.IsZero() }

// step asks the elector, no longer than a member that works may.
func (m *Member) step(ctx context.Context, until time.Time) (Claim, time.Time, error) {
	if m.works() {
		limited, cancel := context.WithDeadlineCause(ctx, until, errSilent)
		defer cancel()
		ctx = limited
	}
	m.mu.Lock()
	self := m.self
	self.Refused = len(m.differing()) > 0
	m.mu.Unlock()
	// One that works stays ready: a claim that changes has all members join once more.
	self.Ready = !self.Since.IsZero() || m.opts.Ready()
	working, heard, err := m.opts.Elector.Step(ctx, self)
	m.mu.Lock()
	m.members = m.opts.Elector.Members()
	m.mu.Unlock()
	return working, heard, err
}

var errSilent = errors.New("no answer in time")

// String names a member for people.
func (c *Claim) String() string {
	if c.Host == "" {
		return c.Member
	}
	return fmt.Sprintf("%.100s on %.100s", c.Member, c.Host)
}

func (m *Member) lost(why error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.self.Since = time.Time{}
	return fmt.Errorf("%w: %w", ErrLost, why)
}

func (m *Member) leave(ctx context.Context) error {
	limited, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), m.opts.Timeout/4, errSilent)
	defer cancel()
	m.mu.Lock()
	self := m.self
	m.self.Since = time.Time{}
	m.mu.Unlock()
	if err := m.opts.Elector.Leave(limited, self); err != nil {
		// Others wait for the timeout instead.
		m.opts.Log.Warn("the standby group was not left in order", "group", m.opts.Group, "error", err)
		return nil
	}
	if !self.Since.IsZero() {
		m.opts.Log.Info("another member of the standby group may work now", "group", m.opts.Group)
	}
	return nil
}

func (m *Member) work(claim *Claim) {
	m.opts.Fault(nil)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.err, m.seen = nil, time.Now()
	if m.works() {
		return
	}
	m.opts.Log.Info("this process works from now on", "group", m.opts.Group, "member", m.self.Member, "former", m.other.Member)
	m.self.Since = claim.Since
	m.working = m.self
	close(m.elected)
}

func (m *Member) wait(working Claim) {
	m.opts.Fault(nil)
	m.mu.Lock()
	defer m.mu.Unlock()
	if working.Member != m.working.Member && working.Member != "" {
		m.opts.Log.Info("this process waits", "group", m.opts.Group, "member", m.self.Member, "working", working.Member, "host", working.Host)
	}
	m.err, m.seen, m.working = nil, time.Now(), working
	if working.Member != "" {
		m.other, m.heard = working, m.seen
	}
	if differing := strings.Join(m.differing(), ", "); differing != m.logged {
		if m.logged = differing; differing != "" {
			m.opts.Log.Error("this process does not take over: another configuration works", "group", m.opts.Group,
				"working", m.other.Member, "host", m.other.Host, "variables", differing)
		}
	}
}

// differing returns the settings for which this member is refused. The caller holds mu.
func (m *Member) differing() []string {
	if m.works() || m.other.Member == "" || time.Since(m.heard) >= refusedTimeouts*m.opts.Timeout {
		return nil
	}
	return m.self.differing(&m.other)
}

// Status is what a process knows of its standby group.
type Status struct {
	Group string `json:"group"`
	// Member and Host are those of this process. Works says that it is the one that works.
	Member string `json:"member"`
	Host   string `json:"host"`
	Works  bool   `json:"works"`
	// Working is the member that works, null while none is known. Since is when it began to, by
	// the clock of a host of the group.
	Working     null.Text `json:"working"`
	WorkingHost string    `json:"workingHost"`
	WorkingAddr string    `json:"workingAddr"`
	Since       null.Time `json:"since"`
	// Waiting are the members that wait, as the bus tells it: one that has joined or ended within
	// the timeout of the group may be missing, or be there.
	Waiting []Waiting `json:"waiting"`
	// HeardAt is when the bus last told who works, null before the first time. Error is why it
	// does not, null while it does.
	HeardAt null.Time `json:"heardAt"`
	Error   null.Text `json:"error"`
	// Differing are the variables in which the one that works differs: this process does not take
	// over from it.
	Differing []string `json:"differing"`
	// Claim is that of the member that works, and Other of the one that does or did a moment ago.
	Claim Claim `json:"-"`
	Other Claim `json:"-"`
}

// Waiting is a member of a standby group that waits. Ready says that it has read what the bus
// holds. Differing are the variables in which it differs from the one that works: it does not take
// over from that.
type Waiting struct {
	Member    string   `json:"member"`
	Host      string   `json:"host"`
	Addr      string   `json:"addr"`
	Ready     bool     `json:"ready"`
	Differing []string `json:"differing"`
}

// Status returns what is known now.
func (m *Member) Status() Status {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := Status{
		Group: m.opts.Group, Member: m.self.Member, Host: m.self.Host, Works: m.works(), Waiting: m.waiting(), HeardAt: null.At(m.seen),
		Working: null.Text(m.working.Member), WorkingHost: m.working.Host, WorkingAddr: m.working.Addr, Since: null.At(m.working.Since),
		Differing: append([]string{}, m.differing()...), Claim: m.working, Other: m.other,
	}
	if m.err != nil {
		s.Error = null.Text(m.err.Error())
	}
	return s
}

// waiting returns the members that wait, this one among them where it does, by host and member. The
// caller holds mu.
func (m *Member) waiting() []Waiting {
	works := m.other
	if m.works() {
		works = m.self
	}
	waiting := []Waiting{}
	for i := range m.members {
		c := &m.members[i]
		if c.Member == m.working.Member {
			continue
		}
		w := Waiting{c.Member, c.Host, c.Addr, c.Ready, []string{}}
		if works.Member != "" && c.Refused {
			w.Differing = append(w.Differing, c.differing(&works)...)
		}
		waiting = append(waiting, w)
	}
	slices.SortFunc(waiting, func(a, b Waiting) int { return cmp.Or(cmp.Compare(a.Host, b.Host), cmp.Compare(a.Member, b.Member)) })
	return waiting
}
