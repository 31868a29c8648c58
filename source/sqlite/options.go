package sqlite

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"path/filepath"
	"time"
)

// Options say where the database is and how to use it.
type Options struct {
	// Path is the database file. It need not exist yet. Required.
	Path string
	// TimeZone is the zone of times in DATETIME columns that do not name one. Defaults to UTC.
	TimeZone *time.Location
	// Epoch is the unit of Unix times: a second or a millisecond. Defaults to 1 s.
	Epoch time.Duration
	// MaxConns bounds the connections that read at the same time; one more is kept for Ready.
	// Defaults to 4.
	MaxConns int
	// StatementTimeout bounds a statement, with the time that it waits for a lock of the
	// application. Defaults to 30 s.
	StatementTimeout time.Duration
	// Logger receives changes of columns. Defaults to none.
	Logger *slog.Logger
}

const (
	// lockWait is how long SQLite itself waits for a lock, deaf to a cancelled context; longer
	// waits are ours.
	lockWait = 50 * time.Millisecond
	// cacheKiB bounds the memory of a connection; pages are read once, in order.
	cacheKiB = 512
)

func (o Options) withDefaults() Options {
	o.TimeZone = cmp.Or(o.TimeZone, time.UTC)
	o.Epoch = cmp.Or(o.Epoch, time.Second)
	o.MaxConns = cmp.Or(o.MaxConns, 4)
	o.StatementTimeout = cmp.Or(o.StatementTimeout, 30*time.Second)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	return o
}

func (o Options) check() error {
	switch {
	case o.Path == "":
		return errors.New("no path")
	case o.MaxConns < 1:
		return errors.New("MaxConns must be at least 1")
	case o.StatementTimeout < time.Millisecond:
		return errors.New("StatementTimeout must be at least 1ms")
	}
	if o.Epoch != time.Second && o.Epoch != time.Millisecond {
		return errors.New("the epoch's unit must be 1s or 1ms")
	}
	return nil
}

// dsn names the file for the driver. As a URI, because mode=ro is silently dropped from a plain
// name.
func (o Options) dsn() string {
	// Invariant 8: mode=ro opens the file for reading only, query_only refuses statements that
	// write.
	u := url.URL{Scheme: "file", Path: filepath.ToSlash(o.Path), RawQuery: fmt.Sprintf(
		"mode=ro&_query_only=1&_dqs=0&_error_rc=1&_busy_timeout=%d&_pragma=cache_size(-%d)", lockWait.Milliseconds(), cacheKiB)}
	return u.String()
}
