package shard

import (
	"context"
	"fmt"
	"sync"
	"time"

	"example.org/bridge/source"
	"example.org/bridge/source/ledger"
)

// reader reads the table of a shard. It runs one query at a time, waits for a source that is away,
// and stays within what the shards of the process may read at once and hold in memory. The pages
// it returns belong to the caller, who frees them. It belongs to the owner.
type reader struct {
	opts    *Options
	status  *tracker
	retrier *retrier

	// clock turns the database's clock into one that never jumps.
	clock ledger.Steady
	// columns are those that the encoder is bound to, nil before the first page of an attempt.
	columns *source.Columns
	// schemas says whether their events may be published.
	schemas *schemas
	// now is what the database's clock said last, at the host's time when that answer came.
	now, at time.Time
	// failed says that a page could not be read since the rows published last were compared.
	failed bool
	// oversize is what the next page may use that did not fit into a share.
	oversize hold
	// share is what is reserved for the rows that are read, nil where others are in memory, too.
	// While they cannot be read others have it.
	share *hold
}

func (r *reader) newPage() *page {
	p := pages.Get().(*page)
	p.zone = r.opts.Zone
	return p
}

// page reads a page of the tail, binds the encoder to its columns and shows that the source
// answers.
func (r *reader) page(ctx context.Context, q source.Query) (*page, error) {
	p, err := r.rows(ctx, q)
	if err != nil {
		return nil, err
	}
	if err := r.answered(p); err != nil {
		p.free()
		return nil, err
	}
	return p, nil
}

// rows reads the rows that q names by their ids or keys. The encoder is not bound to their columns.
func (r *reader) rows(ctx context.Context, q source.Query) (*page, error) {
	p := r.newPage()
	// Without ids and keys it is for a page of the tail.
	named, asks := q.Ranges != nil || q.Keys != nil, queryPage
	if named {
		asks = queryRows
	}
	read := func() error {
		defer r.opts.Metrics.queried(r.opts.Stream, asks, time.Now())
		err := r.opts.Source.Read(ctx, q, &p.Page)
		if err != nil && !named {
			// That a single row cannot be read says nothing about the server.
			r.failed = true
		}
		return err
	}
	err := r.retrier.retry(ctx, owning, reading, func() (err error) {
		if r.share != nil && r.share.bytes == 0 && !r.share.big {
			if *r.share, err = r.reserve(ctx); err != nil {
				return err
			}
		}
		if err = r.query(ctx, &p.span, read); err != nil && r.share != nil {
			r.opts.Limits.release(r.share)
		}
		return err
	})
	if err != nil {
		p.free()
		return nil, err
	}
	return p, nil
}

// answered takes note of a page of the tail.
func (r *reader) answered(p *page) error {
	if err := r.bind(p.Columns); err != nil {
		return err
	}
	r.now, r.at = p.Now, p.got
	r.opts.Faults.OK(r.retrier.source)
	r.opts.Faults.OK(r.retrier.table)
	if stopped := r.status.polled(p.MaxID, p.got); stopped > 0 {
		r.opts.Logger.Info("shard goes on", "after", stopped.Round(time.Millisecond))
	}
	return nil
}

func (r *reader) bind(columns *source.Columns) error {
	if columns == r.columns {
		return nil
	}
	if err := r.opts.Encoder.Bind(columns); err != nil {
		return fmt.Errorf("%w: %w", source.ErrUnfit, err)
	}
	if err := r.schemas.check(); err != nil {
		r.columns = nil
		return err
	}
	r.columns = columns
	return nil
}

// ready binds the encoder where no page was read yet: keys are read with it, and an entity may be
// nominated before the first poll.
func (r *reader) ready(ctx context.Context) error {
	if r.columns != nil {
		return nil
	}
	p, err := r.page(ctx, source.Query{Limit: 1})
	if err != nil {
		return err
	}
	p.free()
	return nil
}

// query runs one query once, and notes in at when it began and ended.
func (r *reader) query(ctx context.Context, at *span, run func() error) error {
	reads := r.opts.Limits.reads.Load()
	r.status.connecting(time.Now())
	if err := r.retrier.wait(owning, forEver, func() error { return reads.Acquire(ctx, 1) }); err != nil {
		return err
	}
	defer reads.Release(1)
	at.asked = time.Now()
	r.opts.Metrics.limited(r.opts.Stream, LimitConnections, r.status.connected(at.asked))
	err := r.retrier.wait(owning, readLimit, run)
	at.got = time.Now()
	return err
}

// readLimit is how long a read may take before the loop counts as standing still; sources give up
// earlier by themselves.
const readLimit = 2 * time.Minute

// head asks for no more than the highest id, where that is cheaper than a page; it returns nil
// where only a page can tell. Call it before memory is reserved: it may wait for other shards.
func (r *reader) head(ctx context.Context) (*page, error) {
	from, able := r.opts.Source.(source.HeadReader)
	if !able {
		return nil, nil
	}
	p, seen := r.newPage(), false
	p.asked = time.Now()
	err := r.retrier.wait(owning, readLimit, func() (err error) {
		seen, err = from.ReadHead(ctx, min(r.opts.PollInterval/10, headWait), &p.Page)
		return err
	})
	p.got = time.Now()
	if err == nil && seen {
		err = r.answered(p)
	}
	if err != nil || !seen {
		p.free()
		return nil, err
	}
	return p, nil
}

// headWait is how long head waits for other shards, at most a tenth of the poll interval.
const headWait = 25 * time.Millisecond

type idList struct {
	source.IDs
	span
}

func (r *reader) ids(ctx context.Context, ranges []source.Range, uncommitted bool, list *idList) error {
	read := func() error {
		defer r.opts.Metrics.queried(r.opts.Stream, queryIDs, time.Now())
		return r.opts.Source.ReadIDs(ctx, ranges, uncommitted, evidenceIDs, &list.IDs)
	}
	return r.retrier.retry(ctx, owning, reading, func() error { return r.query(ctx, &list.span, read) })
}

// retry runs a query until it is answered. While others are before it, as where all begin and the
// source hangs, the loop lives.
func (r *reader) retry(ctx context.Context, run func() error) error {
	return r.retrier.retry(ctx, owning, reading, func() error { return r.query(ctx, new(span), run) })
}

func (r *reader) changes(ctx context.Context, q source.ChangeQuery, list *source.Changes) error {
	read := func() error {
		defer r.opts.Metrics.queried(r.opts.Stream, queryChanges, time.Now())
		return r.opts.Source.ReadChanges(ctx, q, list)
	}
	return r.retry(ctx, read)
}

func (r *reader) age(p *page) ledger.Age {
	return ledger.Age{Now: p.Now, Steady: r.clock.Tick(p.Now, p.asked, p.got)}
}

func (r *reader) steady(list *idList) time.Time {
	return r.clock.Tick(list.Now, list.asked, list.got)
}

// databaseNow is the database's clock, as far as it is known without asking.
func (r *reader) databaseNow() time.Time {
	if r.now.IsZero() {
		return time.Now()
	}
	return r.now.Add(time.Since(r.at))
}

func (r *reader) reserve(ctx context.Context) (held hold, err error) {
	if r.oversize.big {
		// The page that did not fit is read again.
		held, r.oversize = r.oversize, hold{}
		return held, nil
	}
	err = r.retrier.wait(owning, forEver, func() error {
		held, err = r.opts.Limits.reserve(ctx)
		return err
	})
	return held, err
}

// reserveBig waits until a batch of any size may be held, and keeps that for the next read, which
// needs no share besides: others have held.
func (r *reader) reserveBig(ctx context.Context, held *hold) error {
	r.opts.Limits.release(held)
	err := r.retrier.wait(owning, forEver, func() error { return r.opts.Limits.big.Acquire(ctx, 1) })
	r.oversize.big = err == nil
	return err
}

// page is rows of the table, when they were read, and how old they are. It comes from
// reader.newPage and goes back with free.
type page struct {
	source.Page
	span
	// zone is the zone of DATETIME columns.
	zone *time.Location
	// seen dates rows without a CREATED, and returns zero where it cannot; nil takes them for as
	// young as the read.
	seen func(id uint64) time.Time
}

// span is when a read began and ended, by the host's clock.
type span struct{ asked, got time.Time }

var pages = sync.Pool{New: func() any { return new(page) }}

// free gives the page back, which must not be used afterwards; it may be nil.
func (p *page) free() {
	if p == nil {
		return
	}
	p.Reset()
	*p = page{Page: p.Page}
	pages.Put(p)
}

// rows returns those of the page, which may be nil.
func (p *page) rows() []source.Row {
	if p == nil {
		return nil
	}
	return p.Rows
}

// created returns the time in the row's CREATED column and that column's resolution; zero when it
// has none.
func (p *page) created(row source.Row) (time.Time, time.Duration) {
	i := p.Columns.Created
	if i < 0 {
		return time.Time{}, 0
	}
	column := p.Columns.List[i]
	created, ok := column.Time(row.Values[i], p.zone)
	if !ok {
		return time.Time{}, 0
	}
	return created, column.Resolution()
}

// bornAt returns the host's time at which the row had the age zero.
func (p *page) bornAt(row source.Row) time.Time {
	if created, _ := p.created(row); !created.IsZero() && !created.After(p.Now) {
		return p.got.Add(-p.Now.Sub(created))
	}
	// No CREATED, or one in the future.
	if p.seen == nil {
		return p.got
	}
	return earlier(p.got, p.seen(row.ID))
}

// changedAt returns the host's time at which a row got the state that was read, by its MODIFIED;
// that of the read where MODIFIED does not tell.
func (p *page) changedAt(row source.Row) time.Time {
	i := p.Columns.Modified
	if i < 0 {
		return p.got
	}
	modified, ok := p.Columns.List[i].Time(row.Values[i], p.zone)
	if !ok {
		return p.got
	}
	return p.got.Add(-max(0, p.Now.Sub(modified)))
}
