package shard

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"time"

	"example.org/bridge/event"
	"example.org/bridge/internal/lineage"
	"example.org/bridge/internal/published"
	"example.org/bridge/sink"
	"example.org/bridge/source"
)

const (
	// compareBytes bounds a page of them, in bytes.
	compareBytes = 1 << 20
	// apartPages are held back at most where another server answers comparisons than pages, as
	// behind a proxy that always does so.
	apartPages = 10
	// lostFor is how long the ids of newest rows that another server does not have are watched.
	lostFor = 10 * time.Minute
)

// publishedRows keeps the rows of a shard that were published last, and compares them with the
// table. It belongs to the owner.
type publishedRows struct {
	opts   *Options
	reader *reader
	server *server
	// entities is nil for a release stream.
	entities *entities
	gaps     *gaps
	log      *published.Log
	// due says that they are to be compared: the shard begins, or a read has failed.
	due bool
	// seen is where the page came from for which they were compared last.
	seen published.Origin
	// apart counts the comparisons in a row that another server has answered than the one of their
	// page.
	apart int
	// heldSince is since when pages are held back, zero where they are not.
	heldSince time.Time
	// lostNext is when the lost rows are compared next.
	lostNext time.Time
	// again are ids whose rows are to be read again and published if they say something new.
	again []uint64
	// askedAt is the highest id, below the position, at which the table's next id was asked for and
	// found good, or not known.
	askedAt *uint64
	// uncounted says that it was not known then.
	uncounted bool
	// fell says that they are to be compared because the highest id of such a table fell, or is the
	// position again: it may have given ids again.
	fell bool
	// doubted is the lowest row of a release stream that the log was last told may be another.
	doubted uint64
}

func newPublished(server *server, entities *entities, gaps *gaps, log *published.Log) *publishedRows {
	return &publishedRows{opts: server.opts, reader: server.reader, server: server, entities: entities, gaps: gaps, log: log, due: true}
}

func (p *publishedRows) release() bool { return p.opts.Kind != event.Capability }

// confirm compares the rows now, and returns an error where their ids are used again.
func (p *publishedRows) confirm(ctx context.Context) error {
	if p.server.tailless() || len(p.log.Rows()) == 0 {
		return nil
	}
	c, server, err := p.read(ctx, published.Check{}, p.log.Rows())
	if err != nil || c == nil {
		return err
	}
	now, origin := p.log.Origin(), p.log.Origin()
	now.Server, now.Started = server, source.StartedOf(p.opts.Source)
	if c.Moved = p.movedFrom(origin, now); c.Outcome() == published.Reused || p.release() {
		_, err = p.conclude(ctx, c, false)
	}
	return err
}

func (p *publishedRows) setOrigin(now published.Origin) {
	now.Server = published.ServerAndDatabase(now.Server, p.opts.Encoder.Source())
	p.log.SetOrigin(now)
}

// movedFrom reports whether now is another server than that of the list, or was started since.
func (p *publishedRows) movedFrom(list, now published.Origin) bool {
	if list.Server == "" {
		return false
	}
	now.Server = published.ServerAndDatabase(now.Server, p.opts.Encoder.Source())
	return !now.SameServer(list)
}

// refuse returns an error when the next id that the table gives is known, and not above the
// position. Deleting the newest rows leaves the counter where it is and is no such case.
func (p *publishedRows) refuse(ctx context.Context, page *page, position uint64) error {
	var next uint64
	err := p.reader.retry(ctx, func() (err error) {
		next, err = p.opts.Source.NextID(ctx)
		return err
	})
	if p.uncounted = err == nil && next == 0; err != nil {
		return err
	}
	if highest := page.MaxID; next == 0 || next > position {
		p.askedAt = &highest
		return nil
	}
	survivor, server, err := p.survivor(ctx)
	if err != nil {
		return err
	}
	if survivor >= next || server != "" && server != page.Server && p.apart == 0 {
		// Another server has answered: none has a row above its next id. The next poll asks again.
		return nil
	}
	return p.reused(survivor, "the next id of %s was %d, the position is %d: was it truncated or restored?", p.opts.Name, next, position)
}

// check calls watch where that is due, and asks for the next id when the highest id of the page
// lies below the position and has changed since it was asked. Where that is not known, it has the
// rows of a release stream be compared as those of another server, then and when the highest id has
// risen above the position again. Where the page is to be read again, ready is false.
func (p *publishedRows) check(ctx context.Context, page *page, position uint64) (ready bool, err error) {
	if ready, err = p.watch(ctx, page); err != nil || !ready {
		return false, err
	}
	highest, was := page.MaxID, p.askedAt
	switch below := highest < position; {
	case !below && was == nil, below && was != nil && *was == highest:
		return true, nil
	case !below:
		p.askedAt = nil
	default:
		if err := p.refuse(ctx, page, position); err != nil {
			return false, err
		}
	}
	if !p.uncounted || !p.release() {
		return true, nil
	}
	switch rows := p.log.Rows(); {
	case len(rows) == 0:
		return true, nil
	case highest < rows[0].ID:
		if was == nil || highest < *was || p.gaps.missing(highest) {
			return true, nil
		}
		// A row came that the tail has passed, and is none of these.
		if ready, err = p.conclude(ctx, &published.Check{Release: true, Others: []uint64{highest}}, true); !ready {
			p.askedAt = was
		}
		return ready, err
	}
	if gone, err := p.allGone(ctx); err != nil || gone {
		return err == nil, err
	}
	p.fell, p.due = true, true
	return p.watch(ctx, page)
}

// allGone reports whether no id is there from the lowest to the highest of the rows published last,
// as in a table that is emptied again and again: nothing is to be compared one by one.
func (p *publishedRows) allGone(ctx context.Context) (bool, error) {
	rows := p.log.Rows()
	span := []source.Range{{First: rows[0].ID, Last: rows[len(rows)-1].ID}}
	page, err := p.reader.rows(ctx, source.Query{Ranges: span, Limit: 1, MaxBytes: 1})
	if err != nil {
		return false, err
	}
	defer page.free()
	return len(page.Rows) == 0 && page.Server == p.seen.Server, nil
}

// watch compares the rows published last with the table when the shard begins, when a read has
// failed since, and when page comes from another server than the page before, or from one that was
// started again. Now and then it compares the lost ones. What is behind the page is not published
// before: where the page is to be read again, ready is false.
func (p *publishedRows) watch(ctx context.Context, page *page) (ready bool, err error) {
	if p.server.tailless() {
		return true, nil
	}
	p.due, p.reader.failed = p.due || p.reader.failed, false
	// The encoder is bound to the columns of the page.
	now := published.Origin{Shape: uint64(p.opts.Encoder.Form()), Server: page.Server, Started: source.StartedOf(p.opts.Source)}
	if !p.log.Origin().Fits(now) || len(p.log.Rows()) == 0 {
		// Nothing can be compared.
		p.setOrigin(now)
		p.seen, p.due, p.apart, p.fell = now, false, 0, false
		p.heldBack(now.Server)
		return true, nil
	}
	moved := !now.SameServer(p.seen)
	if moved {
		// What was found out about the next id was another server's.
		p.askedAt = nil
	} else {
		// With the role that it has now.
		p.seen.Server = now.Server
	}
	if moved || p.due || now.Shape != p.seen.Shape {
		if ready, err := p.compare(ctx, now); !ready {
			return false, err
		}
	}
	// Newer rows of a server that was not compared would hide what it has lost.
	if p.heldBack(now.Server) {
		return false, nil
	}
	return true, p.compareLost(ctx)
}

// heldBack reports whether a page of a server is held back, and logs when that begins and ends.
func (p *publishedRows) heldBack(server string) bool {
	held := p.apart > 0 && p.apart <= apartPages
	switch {
	case held && p.heldSince.IsZero():
		p.heldSince = time.Now()
		p.opts.Logger.Warn("nothing is published for now: one server answers for new rows, another for those that were published last",
			"server", server, "server_of_published", p.seen.Server)
	case !held && !p.heldSince.IsZero():
		p.opts.Logger.Info("publishing goes on after servers differed", "server", server, "after", time.Since(p.heldSince), "agree", p.apart == 0)
		p.heldSince = time.Time{}
	}
	return held
}

// compare compares the rows published last with the table, as it is on the server that now names.
// Where they are to be compared before a page is published, ready is false.
func (p *publishedRows) compare(ctx context.Context, now published.Origin) (ready bool, err error) {
	c, server, err := p.read(ctx, published.Check{}, p.log.Rows())
	if err == nil && c == nil && p.apart > 0 {
		// The next page has the columns that the rows have now, unless servers differ about them.
		p.apart++
	}
	if err != nil || c == nil {
		return err == nil, err
	}
	// Where another server has answered than for the page, the next page is compared again.
	if p.due = server != now.Server; p.due {
		p.apart++
	} else {
		p.apart = 0
	}
	now.Server, now.Started = server, source.StartedOf(p.opts.Source)
	moved := p.movedFrom(p.log.Origin(), now) || p.seen.Server != "" && !now.SameServer(p.seen)
	c.Moved, p.seen = moved || p.fell, now
	if ready, err := p.conclude(ctx, c, p.fell && !moved); !ready {
		p.due = true
		return false, err
	}
	if p.fell = p.fell && p.due; moved && c.Lost() {
		// Transactions that are open there may have their ids.
		if added := p.log.Lose(c, time.Now().Add(lostFor)); added > 0 && c.Survivor() > 0 {
			p.opts.Logger.Warn("the server that answers now lacks the rows that were published last: watching for reused ids",
				"rows", added, "last_row_there", c.Survivor())
		}
	}
	if !p.due {
		p.setOrigin(now)
	}
	return true, nil
}

// conclude returns an error where c says that ids are used again. Before that rows which may be
// others are compared by their columns with what the bus has of them. It is not ready where it is
// to wait for that: digests alone would take rows that were updated for others, and rows that are
// published meanwhile would prove that all below them are as they were.
func (p *publishedRows) conclude(ctx context.Context, c *published.Check, waits bool) (ready bool, err error) {
	answered, err := p.resolve(ctx, c)
	if err != nil || waits && !answered {
		return false, err
	}
	switch c.Outcome() {
	case published.Reused:
		return false, p.reused(c.Survivor(), "of the rows of %s that were published last %d were others, from id %d on: did the database fail over to a server that was "+
			"behind, lose its newest rows in a crash, or was it restored?", p.opts.Name, len(c.Others)+len(c.Doubted), c.First())
	case published.Doubtful:
		p.doubt(c)
	}
	return true, nil
}

// compareLost compares the rows that servers have lost, every LostEvery until their time is over.
func (p *publishedRows) compareLost(ctx context.Context) error {
	lost, began := p.log.Lost(), time.Now()
	if lost == nil || began.Before(p.lostNext) {
		return nil
	}
	c, server, err := p.read(ctx, published.Check{Moved: true, Floor: lost.Survivor}, lost.Rows)
	switch {
	case err != nil || c == nil:
		return err
	case server != p.seen.Server:
		// A server that still has the rows shows nothing about the one that pages come from.
		p.due = true
		return nil
	}
	p.lostNext = began.Add(p.opts.LostEvery)
	if _, err := p.conclude(ctx, c, false); err != nil {
		return err
	}
	// Those that are published again, or were named, need no second look.
	p.log.Found(slices.Concat(c.Others, c.Doubted))
	if !c.Lost() || began.After(lost.Until) {
		p.log.Forget()
	}
	return nil
}

func (p *publishedRows) note(b *batch, columns *source.Columns, row source.Row, state [16]byte, entity []byte) {
	b.rows = append(b.rows, published.RowOf(p.opts.Encoder, columns, row, state, entity))
}

// doubt has rows be published again that may be others than those that were published, as far as
// they say something new. Those of a release stream were facts: whether one was changed in place is
// not told apart from another row where nothing identifies it.
func (p *publishedRows) doubt(c *published.Check) {
	ids := slices.Concat(c.Others, c.Doubted)
	if !p.release() {
		p.again = append(p.again, ids...)
		p.opts.Logger.Info("rows that were published last say something else now, they are published again", "rows", len(ids), "first", c.First())
		return
	}
	if c.First() == p.doubted {
		return
	}
	p.doubted = c.First()
	p.opts.Logger.Info("rows that were published last were changed since, or their ids belong to other rows: a CREATED with a fraction of a second would tell",
		"rows", len(ids), "first", c.First())
}

// read reads rows of a list, newest first, as far as is needed to tell whether ids are used again;
// nil where their columns are others by now. server answered last.
func (p *publishedRows) read(ctx context.Context, c published.Check, rows []published.Row) (_ *published.Check, server string, err error) {
	if bound := p.reader.columns; bound != nil {
		// The page that is about to be published may have other columns than these rows.
		defer func() { err = errors.Join(err, p.reader.bind(bound)) }()
	}
	c.Release = p.release()
	err = c.Compare(rows, func(logged []published.Row) (found []published.Row, err error) {
		ids := make([]uint64, len(logged))
		for i, row := range logged {
			ids[i] = row.ID
		}
		for ranges := source.RangesOf(ids); len(ranges) > 0 && err == nil; {
			var page *page
			if page, err = p.reader.rows(ctx, source.Query{Ranges: ranges, Limit: len(logged), MaxBytes: compareBytes}); err == nil {
				server = page.Server
				found, ranges, err = p.addRows(ctx, found, ranges, page)
				page.free()
			}
		}
		return found, err
	})
	if errors.Is(err, source.ErrAltered) {
		return nil, "", nil
	}
	return &c, server, err
}

// addRows adds the rows of a page to found, and returns the ranges that it does not reach.
func (p *publishedRows) addRows(ctx context.Context, found []published.Row, ranges []source.Range, page *page) ([]published.Row, []source.Range, error) {
	if err := p.reader.bind(page.Columns); err != nil {
		return nil, nil, err
	}
	if !p.log.Origin().Fits(published.Origin{Shape: uint64(p.opts.Encoder.Form())}) {
		return nil, nil, source.ErrAltered
	}
	digests := make([]event.Digest, 0, len(page.Rows))
	for _, row := range page.Rows {
		digest, err := p.opts.Encoder.Digest(row)
		if err != nil {
			return nil, nil, err
		}
		found = append(found, published.RowOf(p.opts.Encoder, page.Columns, row, digest.Sum, digest.Key))
		digest.Key = bytes.Clone(digest.Key)
		digests = append(digests, digest)
	}
	if err := p.compareView(ctx, found[len(found)-len(digests):], digests); err != nil {
		return nil, nil, err
	}
	if !page.More || len(page.Rows) == 0 {
		return found, nil, nil
	}
	return found, source.RangesAbove(ranges, page.Rows[len(page.Rows)-1].ID), nil
}

// compareView notes which rows are what was published last of their entities. Of those that
// catch-up has added to the list nothing else is known that identifies them.
func (p *publishedRows) compareView(ctx context.Context, rows []published.Row, digests []event.Digest) error {
	if p.entities == nil {
		return nil
	}
	keys := make([][]byte, len(digests))
	for i := range digests {
		keys[i] = digests[i].Key
	}
	entries, err := p.entities.lookup(ctx, keys)
	for i := range entries {
		rows[i].Current = entries[i].Shard == p.opts.Name && entries[i].Row == rows[i].ID && entries[i].Digest == digests[i].Sum
	}
	return err
}

// resolve compares the newest rows of c that may be others, by their columns, with what the bus has
// of them. Where it has nothing, cannot be read, or does not answer in time, c stays as it is.
func (p *publishedRows) resolve(ctx context.Context, c *published.Check) (answered bool, err error) {
	ids := c.Unsure()
	if len(ids) == 0 || p.opts.Newest == nil {
		return true, nil
	}
	newest, err := p.opts.Newest(ctx, ids)
	if err != nil {
		if ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
		p.opts.Logger.Warn("rows that may be others than those published last could not be read from the bus: digests alone decide, or they wait", "rows", len(ids), "error", err)
		return errors.Is(err, sink.ErrUnreadable), nil
	}
	slices.Sort(ids)
	page, err := p.reader.rows(ctx, source.Query{Ranges: source.RangesOf(ids), Limit: len(ids), MaxBytes: compareBytes})
	if err != nil {
		return false, err
	}
	defer page.free()
	if bound := p.reader.columns; bound != nil {
		defer func() { err = errors.Join(err, p.reader.bind(bound)) }()
	}
	if err := p.reader.bind(page.Columns); err != nil {
		return false, err
	}
	c.Resolve(lineage.Compare(p.opts.Encoder, &page.Page, newest))
	return true, err
}
