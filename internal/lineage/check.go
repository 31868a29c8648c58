package lineage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"bridge/internal/option"
	"bridge/sink"
)

// ErrOtherDatabase is returned when the rows that the bus has are those of another database.
var ErrOtherDatabase = errors.New("the rows on the bus are those of another database")

// Options describe a Check.
type Options struct {
	Reader  sink.Reader
	Streams []Stream
	// Most returns how many messages of a TP may be read for a stream, at least Window.
	Most func(ctx context.Context, stream string) uint64
	// Since returns, for each table of a stream, the epoch below which messages do not count.
	Since func(ctx context.Context, stream string) (map[string]uint64, error)
	// Tables opens the tables of a stream.
	Tables func(stream string) ([]Table, error)
	// Found, where it is not nil, is given the newest facts of a stream.
	Found func(stream string, found Found)
	// Retry calls do until it succeeds or fails for good: the source may be away.
	Retry func(ctx context.Context, do func() error) error
	// Within is how long the last streams are waited for. Defaults to 10 s.
	Within time.Duration
}

// Check compares the tables of a source with what the bus has of them, each stream once, and tells
// whether the source is the one that the bus has rows of. It is safe for concurrent use.
type Check struct {
	opts Options

	mu       sync.Mutex
	verdicts map[string][]Verdict
	// changed is closed when there is another verdict.
	changed chan struct{}
}

// NewCheck returns a Check.
func NewCheck(o Options) *Check {
	if o.Within == 0 {
		o.Within = 10 * time.Second
	}
	return &Check{opts: o, verdicts: make(map[string][]Verdict), changed: make(chan struct{})}
}

// Stream compares the tables of a stream, and returns an error that wraps ErrOtherDatabase where
// rows are others and no table of the source has a row that the bus has. It waits for the streams
// that are compared at the same time, for a while: a row of theirs may have survived.
func (c *Check) Stream(ctx context.Context, name string) error {
	verdicts, err := c.compare(ctx, name)
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.verdicts[name] = verdicts
	close(c.changed)
	c.changed = make(chan struct{})
	c.mu.Unlock()
	limit := time.NewTimer(c.opts.Within)
	defer limit.Stop()
	for {
		all, done, changed := c.so()
		if done {
			return conclude(all)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-limit.C:
			return conclude(all)
		case <-changed:
		}
	}
}

// All compares all streams, and returns what Stream does.
func (c *Check) All(ctx context.Context) error {
	var g errgroup.Group
	for i := range c.opts.Streams {
		g.Go(func() error { return c.Stream(ctx, c.opts.Streams[i].Name) })
	}
	return g.Wait()
}

// so returns the verdicts so far, whether no more are needed, and what is closed when there are
// more.
func (c *Check) so() (all []Verdict, done bool, changed <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.opts.Streams {
		all = append(all, c.verdicts[c.opts.Streams[i].Name]...)
	}
	survived := slices.ContainsFunc(all, func(v Verdict) bool { return v.Survived })
	return all, survived || len(c.verdicts) == len(c.opts.Streams), c.changed
}

// compare compares the tables of a stream, up to the first of which a row has survived.
func (c *Check) compare(ctx context.Context, name string) ([]Verdict, error) {
	s := &c.opts.Streams[slices.IndexFunc(c.opts.Streams, func(s Stream) bool { return s.Name == name })]
	since, err := c.opts.Since(ctx, name)
	if err != nil {
		return nil, err
	}
	s.Since = since
	found, err := Scan(ctx, c.opts.Reader, s, c.opts.Most(ctx, name), nil)
	if errors.Is(err, sink.ErrUnreadable) {
		// Rule 24 says what follows.
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if c.opts.Found != nil {
		c.opts.Found(name, found)
	}
	tables, err := c.opts.Tables(name)
	if err != nil {
		return nil, err
	}
	var verdicts []Verdict
	for i := range tables {
		t := &tables[i]
		if len(found.Tables[t.Name]) == 0 {
			continue
		}
		values := func(ctx context.Context, rows []uint64) (map[uint64][]byte, error) {
			return Values(ctx, c.opts.Reader, s, t.Name, rows)
		}
		var v Verdict
		err := c.opts.Retry(ctx, func() (err error) {
			v, err = t.compare(ctx, found.Tables[t.Name], values)
			return err
		})
		if err != nil {
			return nil, err
		}
		v.Stream = name
		if verdicts = append(verdicts, v); v.Survived {
			break
		}
	}
	return verdicts, nil
}

// mostValues is how many messages of a TP are read for the values of rows.
const mostValues = 64_000

// Values returns the values of the newest messages of rows of a table, as far as they are found.
func Values(ctx context.Context, reader sink.Reader, s *Stream, table string, rows []uint64) (map[uint64][]byte, error) {
	wanted := make(map[uint64]bool, len(rows))
	for _, row := range rows {
		wanted[row] = true
	}
	one := *s
	one.Tables = []string{table}
	found, err := Scan(ctx, reader, &one, mostValues, wanted)
	return found.Tables[table].Values(), err
}

// conclude returns an error where rows are others and none has survived.
func conclude(all []Verdict) error {
	var e OtherError
	for _, v := range all {
		if v.Survived {
			return nil
		}
		if v.Another {
			e.Others = append(e.Others, v)
		}
	}
	if len(e.Others) == 0 {
		return nil
	}
	return &e
}

// OtherError says what was found, and what a person is to do. It is ErrOtherDatabase.
type OtherError struct {
	// Others are the tables whose rows are others, at least one.
	Others []Verdict
}

func (e *OtherError) Error() string { return e.Named(option.Short) }

// Named returns the text of Error with settings as naming has them.
func (e *OtherError) Named(naming option.Naming) string {
	return fmt.Sprintf("%v: %s. %s", ErrOtherDatabase, e.What(), option.Sprintf(naming, e.Remedy(), option.DomainID))
}

// Unwrap returns ErrOtherDatabase.
func (*OtherError) Unwrap() error { return ErrOtherDatabase }

// What says what was found.
func (e *OtherError) What() string {
	first := &e.Others[0]
	found := fmt.Sprintf("of the newest rows of %s that the bus has %d are others here, from id %d on", first.Table, first.Rows, first.First)
	if first.Rows == 0 {
		found = fmt.Sprintf("the next id of %s is %d, and the bus has rows above it", first.Table, first.Next)
	}
	return fmt.Sprintf("%s, and no row of any table is as it was published; the rows of the bus were read from %s, this is %s", found, first.There, first.Here)
}

// Remedy says what a person is to do, with %s for option.DomainID.
func (e *OtherError) Remedy() string {
	sets := make([]string, len(e.Others))
	for i, v := range e.Others {
		sets[i] = fmt.Sprintf("bridge checkpoint set %s %s 0", v.Stream, v.Table)
	}
	return "Where another bridge publishes the other database, give this one another %s. Where the database was moved, or filled again on purpose, stop bridge, " +
		"then to publish all of its tables: " + strings.Join(sets, "; ") + "; to go on behind an id: the same with that id"
}
