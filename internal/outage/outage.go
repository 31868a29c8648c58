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

const (
	repeatEvery = time.Minute
	// restFor is how long nothing must be wrong until what comes then is another fault.
	restFor = 10 * time.Second
)

// Log keeps the faults that last. Places that share what stands before their first '/', such as the partitions of a topic, are
// one group: the log tells of the first fault of a group and of the end of its last. A fault that comes back within 10 s of its end is
// the same one, which has a line when it ended first and one when it has ended for good. It is safe for concurrent use.
type Log struct {
	logger *slog.Logger

	mu     sync.Mutex
	groups map[string]*group
}

// group is what is wrong with places of one name.
type group struct {
	faults map[string]Fault
	since  time.Time
	logged time.Time
	count  int
	// times is how often it has ended, ended when it last did.
	times int
	ended time.Time
	// resting ends the group where nothing is wrong any more; nil while something is.
	resting *time.Timer
}

// New returns a Log that writes to logger.
func New(logger *slog.Logger) *Log {
	return &Log{logger: logger, groups: make(map[string]*group)}
}

func groupOf(place string) string {
	name, _, _ := strings.Cut(place, "/")
	return name
}

// Fail notes that what is tried at place failed once more. It writes a line when a fault begins and at most one a minute
// while it lasts.
func (l *Log) Fail(place string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	g := l.begin(place, now, err)
	f, lasts := g.faults[place]
	if !lasts {
		f = Fault{Place: place, Since: now}
	}
	f.Err = err
	g.faults[place] = f
	g.count++
	if now.Sub(g.logged) >= repeatEvery {
		g.logged = now
		l.logger.Warn("fault lasts", "place", place, "error", err, "for", now.Sub(g.since).Round(time.Second),
			"failures", g.count, "places", len(g.faults), "times", g.times+1)
	}
}

// begin returns the group of place, with a line when it is new.
func (l *Log) begin(place string, now time.Time, err error) *group {
	g := l.groups[groupOf(place)]
	switch {
	case g == nil:
		g = &group{faults: make(map[string]Fault), since: now, logged: now}
		l.groups[groupOf(place)] = g
		l.logger.Warn("fault begins, trying again until it ends", "place", place, "error", err)
	case g.resting != nil:
		g.resting.Stop()
		g.resting = nil
	}
	return g
}

// OK notes that what is tried at place works. It writes a line when that ends the last fault of its group, later when that comes and goes.
func (l *Log) OK(place string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	name := groupOf(place)
	g := l.groups[name]
	if g == nil || g.resting != nil {
		return
	}
	delete(g.faults, place)
	if len(g.faults) > 0 {
		return
	}
	g.times++
	g.ended = time.Now()
	if g.times == 1 {
		l.end(name, g)
	}
	g.resting = time.AfterFunc(restFor, func() { l.rested(name, g) })
}

func (l *Log) end(name string, g *group) {
	l.logger.Info("fault ended", "place", name, "after", g.ended.Sub(g.since).Round(time.Millisecond), "failures", g.count, "times", g.times)
}

// rested ends a group that nothing is wrong with any more.
func (l *Log) rested(name string, g *group) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.groups[name] != g || len(g.faults) > 0 || time.Since(g.ended) < restFor {
		return
	}
	if g.times > 1 {
		l.end(name, g)
	}
	delete(l.groups, name)
}

// Forget drops what is wrong with place without a line: nobody tries any more, whether it works is not known.
func (l *Log) Forget(place string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	g := l.groups[groupOf(place)]
	if g == nil || g.resting != nil {
		return
	}
	delete(g.faults, place)
	if len(g.faults) == 0 {
		delete(l.groups, groupOf(place))
	}
}

// Faults returns the faults that last now, in the order of their places.
func (l *Log) Faults() []Fault {
	l.mu.Lock()
	defer l.mu.Unlock()
	var faults []Fault
	for _, g := range l.groups {
		faults = slices.AppendSeq(faults, maps.Values(g.faults))
	}
	slices.SortFunc(faults, func(a, b Fault) int { return cmp.Compare(a.Place, b.Place) })
	return faults
}

// Err joins the faults that last now; nil when there is none.
func (l *Log) Err() error {
	faults := l.Faults()
	errs := make([]error, len(faults))
	for i, f := range faults {
		errs[i] = f
	}
	return errors.Join(errs...)
}

// Fault is a fault that lasts.
type Fault struct {
	// Place is where it is.
	Place string
	// Err is what happened last.
	Err error
	// Since is when it began.
	Since time.Time
}

func (f Fault) Error() string { return f.Place + ": " + f.Err.Error() }
func (f Fault) Unwrap() error { return f.Err }
