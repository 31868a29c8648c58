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

// Err joins the faults that last now, in the order of their places; nil when there is none.
func (l *Log) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	places := make([]string, 0, len(l.faults))
	for place := range l.faults {
		places = append(places, place)
	}
	slices.SortFunc(places, cmp.Compare[string])
	errs := make([]error, 0, len(places))
	for _, place := range places {
		errs = append(errs, placeError{place, l.faults[place].err})
	}
	return errors.Join(errs...)
}

type placeError struct {
	place string
	err   error
}

func (e placeError) Error() string { return e.place + ": " + e.err.Error() }
func (e placeError) Unwrap() error { return e.err }
