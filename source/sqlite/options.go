package sqlite

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"example.org/bridge/source"
)

// Options say where the database is and how to use it.
type Options struct {
	// Path is the database file. It need not exist yet. Required.
	Path string
	// TimeZone is the zone of times in DATETIME columns that do not name one. Defaults to UTC.
	TimeZone *time.Location
	// Epoch is the unit of Unix times: a second or a millisecond. Defaults to 1 s.
	Epoch time.Duration
	// Conns bounds the connections. Its Readers defaults to 4.
	Conns source.Conns
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
	o.Conns.Readers = cmp.Or(o.Conns.Readers, 4)
	o.StatementTimeout = cmp.Or(o.StatementTimeout, 30*time.Second)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	return o
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

// ParseURL reads "sqlite:///absolute/path.db?epoch=s" or "sqlite:relative/path.db". A relative path
// starts at the working directory of the process. A ?, # or % in the path is percent-encoded.
// Parameters:
//
//	epoch=s    numbers in columns of times are Unix times in seconds, the default
//	epoch=ms   in milliseconds
//
// Nothing is read from disk.
func ParseURL(text string) (Options, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "sqlite" || u.User != nil || u.Host != "" || u.Fragment != "" {
		return Options{}, errors.New("must look like sqlite:///absolute/path.db, with three slashes, or sqlite:relative/path.db, with none; " +
			"special characters in the path percent-encoded (? is %3F, # is %23, % is %25)")
	}
	path := u.Path
	if u.Opaque != "" {
		if path, err = url.PathUnescape(u.Opaque); err != nil {
			return Options{}, errors.New("malformed path: a % is written %25")
		}
	}
	switch {
	case path == "" || strings.HasSuffix(path, "/"):
		return Options{}, errors.New("the path must name the database file, as in sqlite:///var/lib/app/app.db")
	case path == ":memory:":
		return Options{}, errors.New("a database in memory belongs to the process that made it: name a file, as in sqlite:///var/lib/app/app.db")
	case strings.ContainsRune(path, 0):
		return Options{}, errors.New("the path must not hold a NUL")
	}
	parameters, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return Options{}, errors.New("malformed parameters: they look like ?epoch=ms")
	}
	epoch := parameters.Get("epoch")
	if delete(parameters, "epoch"); len(parameters) > 0 {
		return Options{}, errors.New("unknown parameter: known is epoch")
	}
	unit, known := map[string]time.Duration{"": 0, "s": time.Second, "ms": time.Millisecond}[epoch]
	if !known {
		return Options{}, errors.New("epoch must be s or ms")
	}
	return Options{Path: path, Epoch: unit}, nil
}
