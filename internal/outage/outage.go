package outage

import (
	"cmp"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// Probed ends the name of a dependency that was asked whether it answers. Lines leave it out.
const Probed = "/probe"

const (
	repeatEvery = time.Minute
	// restFor is how long a group must work before its next failure counts as a new outage.
	restFor = 10 * time.Second
)

// Log keeps the current outages and logs when they begin and end. Dependencies with the same name
// before the first '/', such as the partitions of a topic, are one group: the log has a line for
// the first outage of a group and one for the end of its last. An outage that returns within 10 s
// of its end is the same one; it has a line when it first ends and returns, and one when it has
// ended for good: the last line never says that an outage has ended while it lasts. A Log is safe
// for concurrent use.
type Log struct {
	logger *slog.Logger

	mu     sync.Mutex
	closed bool
	groups map[string]*group
}

// group holds the outages of dependencies with the same name.
type group struct {
	faults map[string]Outage
	since  time.Time
	logged time.Time
	count  int
	// times counts how often it has ended; ended is when it last did, and endLogged says that this
	// was logged.
	times     int
	ended     time.Time
	endLogged bool
	// left says that nobody tried any more when the last outage was forgotten.
	left bool
	// resting removes the group once it has worked for restFor, or nobody has tried for so long;
	// nil during an outage.
	resting *time.Timer
}

// New returns a Log that writes to logger.
func New(logger *slog.Logger) *Log {
	return &Log{logger: logger, groups: make(map[string]*group)}
}

func groupOf(dependency string) string {
	name, _, _ := strings.Cut(dependency, "/")
	return name
}

// Fail records one more failure of a dependency. It logs a line when an outage begins and at most
// one a minute while it lasts.
func (l *Log) Fail(dependency string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	g := l.begin(dependency, now, err)
	f, lasts := g.faults[dependency]
	if !lasts {
		f = Outage{Dependency: dependency, Since: now}
	}
	f.Err = err
	g.faults[dependency] = f
	g.count++
	if now.Sub(g.logged) >= repeatEvery {
		g.logged = now
		l.logger.Warn("outage lasts", "dependency", strings.TrimSuffix(dependency, Probed), "error", err, "for", now.Sub(g.since).Round(time.Second),
			"failures", g.count, "dependencies", len(g.faults), "times", g.times+1)
	}
}

// begin returns the group of a dependency and logs a line when it is new, and when the log's last
// line says that it has ended.
func (l *Log) begin(dependency string, now time.Time, err error) *group {
	g := l.groups[groupOf(dependency)]
	if g == nil {
		g = &group{faults: make(map[string]Outage), since: now, endLogged: true}
		l.groups[groupOf(dependency)] = g
	}
	if g.resting != nil {
		g.resting.Stop()
		g.resting, g.left = nil, false
	}
	if g.endLogged {
		g.endLogged, g.logged = false, now
		dependency = strings.TrimSuffix(dependency, Probed)
		const remedy = "if it does not end soon, bridge check says what to do"
		if g.times == 0 {
			l.logger.Warn("outage begins, retrying until it ends", "dependency", dependency, "error", err, "remedy", remedy)
		} else {
			l.logger.Warn("outage is back, retrying until it ends", "dependency", dependency, "error", err, "remedy", remedy, "times", g.times+1)
		}
	}
	return g
}

// OK records that a dependency works. It logs a line when that ends the last outage of its group.
func (l *Log) OK(dependency string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	name := groupOf(dependency)
	g := l.groups[name]
	if g == nil || g.resting != nil && !g.left {
		return
	}
	delete(g.faults, dependency)
	if len(g.faults) > 0 {
		return
	}
	if g.left {
		g.resting.Stop()
		g.left = false
	}
	g.times++
	g.ended = time.Now()
	if g.times == 1 {
		g.endLogged = true
		l.end(name, g)
	}
	l.removeLater(name, g)
}

func (l *Log) removeLater(name string, g *group) {
	g.resting = time.AfterFunc(restFor, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.closed || l.groups[name] != g || len(g.faults) > 0 || time.Since(g.ended) < restFor {
			return
		}
		if !g.endLogged && !g.left {
			l.end(name, g)
		}
		delete(l.groups, name)
	})
	if l.closed {
		g.resting.Stop()
	}
}

// Close writes at once what would be written later, and nothing after that of what works.
func (l *Log) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for name, g := range l.groups {
		if g.resting != nil && g.resting.Stop() && !g.endLogged && !g.left {
			l.end(name, g)
			g.endLogged = true
		}
	}
}

func (l *Log) end(name string, g *group) {
	l.logger.Info("outage ended", "dependency", name, "after", g.ended.Sub(g.since).Round(time.Millisecond), "failures", g.count, "times", g.times)
}

// Forget drops the outage of a dependency without a line: nobody retries it, so whether it works is
// unknown. What fails or works within 10 s goes on with the outage or ends it.
func (l *Log) Forget(dependency string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	g := l.groups[groupOf(dependency)]
	if g == nil || g.resting != nil {
		return
	}
	delete(g.faults, dependency)
	if len(g.faults) == 0 {
		g.left, g.ended = true, time.Now()
		l.removeLater(groupOf(dependency), g)
	}
}

// Outages returns the current outages, ordered by dependency.
func (l *Log) Outages() []Outage {
	l.mu.Lock()
	defer l.mu.Unlock()
	var faults []Outage
	for _, g := range l.groups {
		faults = slices.AppendSeq(faults, maps.Values(g.faults))
	}
	slices.SortFunc(faults, func(a, b Outage) int { return cmp.Compare(a.Dependency, b.Dependency) })
	return faults
}

// Err joins the current outages; nil when there is none.
func (l *Log) Err() error {
	faults := l.Outages()
	errs := make([]error, len(faults))
	for i, f := range faults {
		errs[i] = f
	}
	return errors.Join(errs...)
}

// Outage is a dependency that is away.
type Outage struct {
	// Dependency names what is away, such as "nats" or "orders/3".
	Dependency string
	// Err is what happened last.
	Err error
	// Since is when it began.
	Since time.Time
}

func (f Outage) Error() string { return f.Dependency + ": " + f.Err.Error() }
func (f Outage) Unwrap() error { return f.Err }
