package reconcile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/event"
	"example.org/bridge/internal/panics"
	"example.org/bridge/internal/stream"
	"example.org/bridge/source"
)

// scan compares the table up to the bound, and what the view holds above that.
func (p *pass) scan(ctx context.Context) error {
	if p.run.After < p.run.Bound {
		if err := p.scanTable(ctx); err != nil {
			return err
		}
	}
	return p.beyondBound(ctx)
}

// beyondBound looks for the entities of the view with a row above the bound. Those up to the saved
// position were mostly published since the run began, and are left to the next run unless a person
// waits for this one. Entities above the saved position are left over where it was set back,
// because a table was truncated or restored.
func (p *pass) beyondBound(ctx context.Context) error {
	from := p.run.Bound
	if !p.run.Allowed {
		reach, err := p.reach()
		if err != nil {
			return err
		}
		from = max(from, reach)
	}
	if err := p.view.upTo(ctx, from, func(*store.Change) error { return nil }); err != nil {
		return err
	}
	p.run.After = max(p.run.After, from)
	if err := p.passOver(ctx, math.MaxUint64); err != nil {
		return err
	}
	return p.commit(ctx)
}

// scanTable reads the table up to the bound side by side with the view, a page ahead of what is
// compared.
func (p *pass) scanTable(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	limiter := p.opts.newLimiter()
	// Invariant 7: two pages, one being read and one being compared.
	pages := [2]source.Page{}
	next := p.readAhead(ctx, limiter, &pages[0], p.run.After)
	defer func() {
		cancel()
		if next != nil {
			<-next
		}
		// A nomination in flight ends with ctx; the error that ends the scan is told already.
		_ = p.rows.wait()
	}()
	for i := 1; next != nil; i++ {
		read := <-next
		if next = nil; read.err != nil {
			return read.err
		}
		if !read.last {
			next = p.readAhead(ctx, limiter, &pages[i%2], read.through)
		}
		if err := p.compare(ctx, read); err != nil {
			return err
		}
		if err := p.commitDue(ctx); err != nil {
			return err
		}
	}
	return p.commit(ctx)
}

// readPage is a page of the scan, or why there is none.
type readPage struct {
	page *source.Page
	// through is the id up to which the page holds all rows; last says that it is the bound.
	through uint64
	last    bool
	err     error
}

// readAhead begins to read the page after an id, as soon as the limiter permits.
func (p *pass) readAhead(ctx context.Context, limiter *limiter, page *source.Page, after uint64) <-chan readPage {
	ahead, bound := make(chan readPage, 1), p.run.Bound
	go func() {
		read := readPage{page: page, through: bound, last: true}
		read.err = panics.Guard(func() error {
			if err := limiter.wait(ctx); err != nil {
				return err
			}
			q := source.Query{After: after, Through: bound, Limit: p.opts.PageRows, MaxBytes: p.opts.PageBytes}
			if err := p.read(ctx, q, page); err != nil {
				return err
			}
			limiter.read(len(page.Rows))
			if n := len(page.Rows); n > 0 && page.More {
				read.through = page.Rows[n-1].ID
				read.last = read.through == bound
			}
			return nil
		})
		ahead <- read
	}()
	return ahead
}

// compare compares the rows of a page, and the view up to where the page reaches.
func (p *pass) compare(ctx context.Context, read readPage) error {
	page := read.page
	p.same(page.Server)
	p.top = max(p.top, page.MaxID)
	for rest := page.Rows; len(rest) > 0; {
		// Where ids have a format, several rows may have one.
		n := 1
		for n < len(rest) && rest[n].ID == rest[0].ID {
			n++
		}
		if err := p.passOver(ctx, rest[0].ID-1); err != nil {
			return err
		}
		if err := p.compareRows(ctx, page, rest[:n]); err != nil {
			return err
		}
		rest = rest[n:]
		if p.rows.full() {
			if err := p.rows.send(ctx); err != nil {
				return err
			}
		}
	}
	p.spent = read.last
	if err := p.passOver(ctx, read.through); err != nil {
		return err
	}
	return p.compareSilent(ctx)
}

// passOver goes through the entries of the view up to the id through, none of which has a row, and
// moves the run there.
func (p *pass) passOver(ctx context.Context, through uint64) error {
	err := p.view.upTo(ctx, through, func(entry *store.Change) error {
		if p.candidates.full() && entry.Entry.Row > p.run.After {
			if err := p.commit(ctx); err != nil {
				return err
			}
		}
		p.candidate(entry)
		p.run.After = entry.Entry.Row
		return nil
	})
	if err == nil {
		p.run.After = max(p.run.After, through)
	}
	return err
}

// comparedRow is a row, and whether the view has an entry of it and that says the same.
type comparedRow struct {
	event.Digest
	known, same bool
}

func (p *pass) compareRows(ctx context.Context, page *source.Page, rows []source.Row) error {
	p.compared = p.compared[:0]
	for i := range rows {
		seen, err := digest(p.encoder, page.Columns, &rows[i])
		if err != nil {
			return err
		}
		if len(rows) > 1 {
			seen.Key = slices.Clone(seen.Key)
		}
		p.compared = append(p.compared, comparedRow{Digest: seen})
	}
	var byKey map[string]*comparedRow
	if len(rows) > 1 {
		byKey = make(map[string]*comparedRow, len(rows))
		for i := range p.compared {
			byKey[string(p.compared[i].Key)] = &p.compared[i]
		}
	}
	// Entries of rows below have been passed.
	err := p.view.upTo(ctx, rows[0].ID, func(entry *store.Change) error {
		of := byKey[string(entry.Entity)]
		if len(rows) == 1 && bytes.Equal(entry.Entity, p.compared[0].Key) {
			of = &p.compared[0]
		}
		if of != nil && !of.Keyless && !of.Stale {
			p.run.countLive(entry)
			of.known, of.same = true, agrees(&entry.Entry, &of.Digest)
		} else {
			// The row is about another entity now, or counts as gone.
			p.candidate(entry)
		}
		return nil
	})
	if err != nil {
		return err
	}
	p.run.Scanned += uint64(len(rows))
	p.run.After = rows[0].ID
	for i := range rows {
		if err := p.conclude(page, &rows[i], &p.compared[i]); err != nil {
			return err
		}
	}
	return nil
}

// conclude nominates a row that the view does not have as it is.
func (p *pass) conclude(page *source.Page, row *source.Row, seen *comparedRow) error {
	if seen.Stale && row.StaleFor < p.opts.StaleAfter {
		// It became so lately, unless it is about no entity that lived until then.
		fresh := *row
		fresh.Stale = false
		was, err := digest(p.encoder, page.Columns, &fresh)
		if err != nil {
			return err
		}
		if !was.Deleted {
			p.silent = append(p.silent, dryRow{event.Digest{Key: slices.Clone(was.Key), Stale: true}, row.ID})
		}
	}
	switch {
	case seen.same, seen.Keyless, seen.Stale, !seen.known && p.opts.young(page, row):
	case seen.Silent && !seen.known:
		p.silent = append(p.silent, dryRow{event.Digest{Key: slices.Clone(seen.Key)}, row.ID})
	default:
		p.rows.row(row.ID)
	}
	return nil
}

func digest(encoder *event.Encoder, columns *source.Columns, row *source.Row) (event.Digest, error) {
	if err := bind(encoder, columns); err != nil {
		return event.Digest{}, err
	}
	return encoder.Digest(*row)
}

func bind(encoder *event.Encoder, columns *source.Columns) error {
	if err := encoder.Bind(columns); err != nil {
		return fmt.Errorf("%w: %w", source.ErrUnfit, err)
	}
	return nil
}

// agrees reports whether a row says of its entity what the view holds, and the bus for certain.
func agrees(known *store.Entry, seen *event.Digest) bool {
	switch {
	case known.Disputed:
		return false
	case seen.Silent && known.State == store.Absent:
		return true
	case seen.Deleted:
		return known.State == store.Tombstone
	}
	return live(known.State) && known.Digest == seen.Sum
}

// young reports whether the row's CREATED lies within the stability window of the page's clock. One
// that is further ahead was written by another clock and says nothing.
func (o Options) young(page *source.Page, row *source.Row) bool {
	i := page.Columns.Created
	if i < 0 || o.Window == 0 {
		return false
	}
	column := page.Columns.List[i]
	created, ok := column.Time(row.Values[i], o.Zone)
	if !ok {
		return false
	}
	age, resolution := page.Now.Sub(created), column.Resolution()
	return age < o.Window+resolution && age > -o.Window-resolution
}

// without returns the entities that have no row in the table. entities are in order.
func (p *pass) without(ctx context.Context, entities []store.Change) (rest []store.Change, err error) {
	err = source.InParts(entities, func(part []store.Change) (bool, error) {
		found, whole, err := p.present(ctx, part)
		if err != nil || !whole && len(part) > 1 {
			return false, err
		}
		for i := range part {
			if !found[i] {
				rest = append(rest, part[i])
			}
		}
		return true, nil
	})
	return rest, err
}

// present looks entities up by key and reports which have a row. entities are in order. whole says
// that all of their rows were read.
func (p *pass) present(ctx context.Context, entities []store.Change) (found []bool, whole bool, err error) {
	names := make([][]byte, len(entities))
	for i := range entities {
		names[i] = entities[i].Entity
	}
	keys, err := event.KeysOf(p.encoder, names)
	if err != nil {
		return nil, false, err
	}
	q := source.Query{Keys: keys, Limit: 2 * source.MaxKeys, MaxBytes: p.opts.PageBytes}
	if len(entities) == 1 {
		// Its row fits, however big.
		q.MaxBytes = 0
	}
	if err := p.read(ctx, q, &p.page); err != nil {
		return nil, false, err
	}
	p.same(p.page.Server)
	found = make([]bool, len(entities))
	for i := range p.page.Rows {
		seen, err := digest(p.encoder, p.page.Columns, &p.page.Rows[i])
		if err != nil {
			return nil, false, err
		}
		at, ok := slices.BinarySearchFunc(entities, seen, func(e store.Change, s event.Digest) int {
			return bytes.Compare(e.Entity, s.Key)
		})
		if ok {
			found[at] = true
		}
	}
	return found, !p.page.More, nil
}

// withoutRows returns the entities that have no row in any table of the stream. One with a row in
// another table has moved: that table's own reconcile or tail finds the row (rule 29).
func (p *pass) withoutRows(ctx context.Context, entities []store.Change) ([]store.Change, error) {
	rest := entities[:0]
	for part := range slices.Chunk(entities, keysAtOnce) {
		keys := make([][]byte, len(part))
		for i := range part {
			keys[i] = part[i].Entity
		}
		var reading stream.FoundRows
		var away error
		began := time.Now()
		err := p.retry(ctx, "read the tables of the stream by key", func() (err error) {
			reading, err = p.opts.ReadKeys(ctx, "", keys)
			if errors.Is(err, stream.ErrAway) && (p.run.Away || isPermanent(err) || time.Since(began) >= AwayLimit) {
				away, err = err, nil
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		if away != nil {
			p.rows.away(away)
			return nil, nil
		}
		if reading.Unproved {
			p.unjudge("another table was read from a server that does not take the writes, as far as can be told")
		}
		for i := range part {
			if len(reading.Rows[i]) == 0 {
				rest = append(rest, part[i])
			}
		}
	}
	return rest, nil
}
