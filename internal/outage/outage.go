package outage

import (
	"cmp"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"
)

const repeatEvery = time.Minute

// Log keeps the faults that last. It is safe for concurrent use.
type Log struct {
	logger *slog.Logger
	now    func() time.Time

	mu     sync.Mutex
	faults map[string]*fault
}

type fault struct {
	err    error
	since  time.Time
	logged time.Time
	count  int
}

// New returns a Log that writes to logger.
func New(logger *slog.Logger) *Log {
	return &Log{logger: logger, now: time.Now, faults: make(map[string]*fault)}
}

// Fail notes that what is tried at place failed once more. It writes a line when a fault begins and at most one a minute
// while it lasts.
func (l *Log) Fail(place string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	f := l.faults[place]
	if f == nil {
		f = &fault{since: now, logged: now, err: err, count: 1}
		l.faults[place] = f
		l.logger.Warn("fault begins, trying again until it ends", "place", place, "error", err)
		return
	}
	f.err = err
	f.count++
	if now.Sub(f.logged) >= repeatEvery {
		f.logged = now
		l.logger.Warn("fault lasts", "place", place, "error", err, "for", now.Sub(f.since).Round(time.Second), "failures", f.count)
	}
}

// OK notes that what is tried at place works. It writes a line when that ends a fault.
func (l *Log) OK(place string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.faults[place]
	if f == nil {
		return
	}
	delete(l.faults, place)
	l.logger.Info("fault ended", "place", place, "after", l.now().Sub(f.since).Round(time.Millisecond), "failures", f.count)
}

// Faults returns the faults that last now, in the order of their places.
func (l *Log) Faults() []Fault {
	l.mu.Lock()
	defer l.mu.Unlock()
	faults := make([]Fault, 0, len(l.faults))
	for place, f := range l.faults {
		faults = append(faults, Fault{Place: place, Err: f.err, Since: f.since})
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
