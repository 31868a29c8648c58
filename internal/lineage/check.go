package lineage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"example.org/bridge/client/backoff"
	"example.org/bridge/internal/option"
	"example.org/bridge/internal/panics"
	"example.org/bridge/internal/stream"
	"example.org/bridge/sink"
)

// ErrOtherDatabase is returned when the rows on the bus came from another database.
var ErrOtherDatabase = errors.New("the rows on the bus are those of another database")

// Options describe a Check.
type Options struct {
	Reader  sink.Reader
	Streams []Stream
	// Most returns how many messages of a TP may be read for a stream, at least Window: no more
	// where the checkpoint knows its tables and their rows published last. Streams of which it does
	// not are read even if a row of another table has survived.
	Most func(ctx context.Context, stream string) uint64
	// Since returns, for each table of a stream, the epoch below which messages do not count.
	Since func(ctx context.Context, stream string) (map[string]uint64, error)
	// Scan is [Scan] of Reader by default.
	Scan func(ctx context.Context, s *Stream, most uint64) (Found, error)
	// Table opens a table of a stream.
	Table func(stream, table string) (Table, error)
	// Found, where it is not nil, is given the newest facts of a stream whose tables the checkpoint
	// may not know.
	Found func(stream string, found Found)
	// Retry calls do until it succeeds or fails for good: the source may be away.
	Retry func(ctx context.Context, do func() error) error
	// Comes reports whether a stream that was not compared is still to be: one that has stopped, or
	// is ready without it, is not waited for. Nil: each comes.
	Comes func(stream string) bool
	// Within is how long the bus is waited for with the last streams. Defaults to 10 s.
	Within time.Duration
}

// scans is how many streams are scanned at the same time: each reading takes memory.
const scans = 4

// Check compares the tables of a source with what the bus has of them, each stream once, and tells
// whether the source is the one that the bus has rows of. It is safe for concurrent use.
type Check struct {
	opts  Options
	slots chan struct{}

	mu sync.Mutex
	// others are the tables so far whose rows differ from the bus. survived says that a row of
	// another table is as it was published.
	others   []Verdict
	survived bool
	// compared says that a table was compared of which the bus has rows.
	compared bool
	// left are the streams that were not compared: true where its tables are read.
	left map[string]bool
	// changed is closed when one of them changes.
	changed chan struct{}
}

// NewCheck returns a Check.
func NewCheck(o Options) *Check {
	o.Within = cmp.Or(o.Within, 10*time.Second)
	if o.Scan == nil {
		o.Scan = func(ctx context.Context, s *Stream, most uint64) (Found, error) {
			return Scan(ctx, o.Reader, s, most, nil)
		}
	}
	c := &Check{opts: o, slots: make(chan struct{}, scans), left: make(map[string]bool), changed: make(chan struct{})}
	for i := range o.Streams {
		c.left[o.Streams[i].Name] = false
	}
	return c
}

// comeEvery is the time between two looks at which streams are still to be compared.
const comeEvery = 100 * time.Millisecond

// awaits reports whether a stream is still to be compared, and whether tables of one are read. The
// caller holds c.mu.
func (c *Check) awaits() (awaits, reads bool) {
	for name, reading := range c.left {
		awaits, reads = awaits || c.opts.Comes == nil || c.opts.Comes(name), reads || reading
	}
	return awaits, reads
}

// Stream compares the tables of a stream, and returns an error that wraps ErrOtherDatabase where
// rows are others and no table of the source has a row that the bus has. A row of the streams that
// are compared at the same time may have survived, so it waits for them: for those that wait for
// the bus up to Within, unless rows of the other tables differ.
func (c *Check) Stream(ctx context.Context, name string) error {
	var verdicts []Verdict
	err := panics.Guard(func() (err error) {
		verdicts, err = c.compare(ctx, name)
		return err
	})
	c.update(func() {
		if c.left[name] = false; !errors.Is(err, stream.ErrUnread) {
			// Else it is compared again, or ends those that wait for it.
			delete(c.left, name)
		}
		c.compared = c.compared || len(verdicts) > 0
		for _, v := range verdicts {
			c.survived = c.survived || v.Survived
			if v.Another {
				c.others = append(c.others, v)
			}
		}
	})
	if err != nil {
		return err
	}
	look := time.NewTicker(comeEvery)
	defer look.Stop()
	for began := time.Now(); ; {
		c.mu.Lock()
		survived, found, changed := c.survived, slices.Clone(c.others), c.changed
		awaits, reads := c.awaits()
		c.mu.Unlock()
		switch late := time.Since(began) >= c.opts.Within; {
		case survived, len(found) == 0 && (!awaits || late && !reads):
			return nil
		case !awaits:
			return &OtherError{Others: found}
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-look.C:
		case <-changed:
		}
	}
}

// Evidence says whether a row is as it was published, and whether a table was compared at all.
func (c *Check) Evidence() (survived, compared bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.survived, c.compared
}

// HasRows reports whether the bus has rows of a table of the source. It waits for the bus.
func (c *Check) HasRows(ctx context.Context) (bool, error) {
	for i := range c.opts.Streams {
		s, found, err := c.scan(ctx, c.opts.Streams[i].Name)
		if err != nil {
			return false, err
		}
		for _, table := range s.Tables {
			if len(found.Tables[table]) > 0 {
				return true, nil
			}
		}
	}
	return false, nil
}

func (c *Check) update(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
	close(c.changed)
	c.changed = make(chan struct{})
}

// All compares all streams, and returns what Stream does. A row that has survived and an error are
// true of all of them, so the first counts, and others are waited for up to Within, whose messages
// Found is to be given: a stream may wait for the bus for ever.
func (c *Check) All(ctx context.Context) (err error) {
	ctx, end := context.WithCancel(ctx)
	defer end()
	var all sync.WaitGroup
	var first sync.Once
	for i := range c.opts.Streams {
		all.Go(func() {
			found := c.Stream(ctx, c.opts.Streams[i].Name)
			if survived, _ := c.Evidence(); survived || found != nil {
				first.Do(func() {
					if err = found; err != nil {
						end()
					}
					time.AfterFunc(c.opts.Within, end)
				})
			}
		})
	}
	all.Wait()
	return err
}

// compare compares the tables of a stream, up to the first of which a row has survived.
func (c *Check) compare(ctx context.Context, name string) ([]Verdict, error) {
	s, found, err := c.scan(ctx, name)
	if err != nil || len(found.Tables) == 0 {
		return nil, err
	}
	c.update(func() { c.left[name] = true })
	var verdicts []Verdict
	for _, table := range s.Tables {
		if len(found.Tables[table]) == 0 {
			continue
		}
		t, err := c.opts.Table(name, table)
		if err != nil {
			return nil, err
		}
		values := func(ctx context.Context, rows []uint64) (map[uint64][]byte, error) {
			return Values(ctx, c.opts.Reader, s, table, rows)
		}
		var v Verdict
		err = c.opts.Retry(ctx, func() (err error) {
			v, err = t.compare(ctx, found.Tables[table], values)
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

// scan reads the newest messages of a stream, unless they are not needed any more.
func (c *Check) scan(ctx context.Context, name string) (*Stream, Found, error) {
	one := c.opts.Streams[slices.IndexFunc(c.opts.Streams, func(s Stream) bool { return s.Name == name })]
	s := &one
	release, err := backoff.Acquire(ctx, c.slots)
	if err != nil {
		return s, Found{}, err
	}
	defer release()
	most := c.opts.Most(ctx, name)
	c.mu.Lock()
	survived := c.survived
	c.mu.Unlock()
	if survived && most <= Window {
		return s, Found{}, nil
	}
	if s.Since, err = c.opts.Since(ctx, name); err != nil {
		return s, Found{}, err
	}
	found, err := c.opts.Scan(ctx, s, most)
	if errors.Is(err, sink.ErrUnreadable) {
		// Rule 24 says what follows.
		return s, Found{}, nil
	}
	if err == nil && c.opts.Found != nil {
		c.opts.Found(name, found)
	}
	return s, found, err
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

// OtherError has the findings and the remedy. It is ErrOtherDatabase.
type OtherError struct {
	// Others are the tables whose rows differ from the bus, at least one.
	Others []Verdict
}

func (e *OtherError) Error() string { return e.Named(option.Short) }

// Named returns the text of Error with settings as naming has them.
func (e *OtherError) Named(naming option.Naming) string {
	return fmt.Sprintf("%v: %s. %s", ErrOtherDatabase, e.What(), option.Sprintf(naming, e.Remedy(), option.DomainID))
}

// Unwrap returns ErrOtherDatabase.
func (*OtherError) Unwrap() error { return ErrOtherDatabase }

// What is the finding.
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
