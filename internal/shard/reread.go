package shard

import (
	"context"

	"bridge/event"
	"bridge/internal/view"
	"bridge/sink"
	"bridge/source"
)

// rereader publishes rows that another than the tail has found: it reads them again and hands on
// what says something new. It belongs to the owner.
type rereader struct {
	opts    *Options
	reader  *reader
	builder *builder
	// entities is nil for a release shard.
	entities      *entities
	publishedRows *publishedRows
	gaps          *gaps
	handOver      func(context.Context, *batch, chan<- *batch) error
}

// rows reads the rows in ranges and publishes those that say something new.
func (r *rereader) rows(ctx context.Context, ranges []source.Range, origin sink.Origin, n *nomination, out chan<- *batch) error {
	for len(ranges) > 0 {
		q := source.Query{Ranges: ranges, Limit: r.opts.BatchRows, MaxBytes: r.opts.Limits.pageBytes()}
		err := r.publish(ctx, q, n, out, func(b *batch, page *page) error {
			ranges = nil
			if count := len(page.Rows); page.More && count > 0 {
				ranges = source.RangesAbove(q.Ranges, page.Rows[count-1].ID)
			}
			if r.entities == nil {
				return r.addFacts(b, page, origin)
			}
			decisions, err := r.addStates(ctx, b, page, func(uint64) sink.Origin { return origin })
			if err != nil {
				return err
			}
			return r.nominate(ctx, n, decisions)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// nominate gives those entities to the stream that were not decided about. n waits for them.
func (r *rereader) nominate(ctx context.Context, n *nomination, decisions []view.Decision) error {
	if n == nil {
		r.entities.nominate(decisions)
		return r.entities.nominateFormers(ctx)
	}
	// A reconcile has former entities among those without a row.
	return n.move(ctx, r.entities, nominatedOf(decisions))
}

// nominatedOf returns the entities of those decisions that nothing was decided in.
func nominatedOf(decisions []view.Decision) (keys [][]byte) {
	for i := range decisions {
		if decisions[i].Nominate {
			keys = append(keys, decisions[i].Entity)
		}
	}
	return keys
}

// addFacts adds to b those rows of a release shard that were not published.
func (r *rereader) addFacts(b *batch, page *page, origin sink.Origin) error {
	for _, row := range page.Rows {
		if !r.gaps.unpublished(row.ID) {
			// The tail has published it since it was nominated.
			continue
		}
		if row.Filtered {
			b.skip(row.ID)
			continue
		}
		b.born(page, row)
		if _, err := r.builder.add(b, event.Row{Row: row, Read: page.Now}, origin); err != nil {
			return err
		}
		b.count(event.Published)
		b.filled = append(b.filled, row.ID)
	}
	return nil
}

// addStates adds to b what the rows of page say of their entities, and returns the decisions about
// them.
func (r *rereader) addStates(ctx context.Context, b *batch, page *page, origin originOf) ([]view.Decision, error) {
	decisions, err := r.entities.decide(ctx, b, page.Rows)
	if err != nil {
		return nil, err
	}
	n, err := r.builder.addStates(b, page, page.Rows, decisions, origin)
	if err != nil {
		return nil, err
	}
	for i, row := range page.Rows[:n] {
		if r.gaps.missing(row.ID) && !decisions[i].Nominate {
			b.filled = append(b.filled, row.ID)
		}
		if !r.gaps.toPublish(row.ID) {
			// A row that the tail has yet to reach would shut out those before it.
			r.publishedRows.note(b, page.Columns, row, decisions[i].Digest, decisions[i].Entity)
		}
	}
	return decisions, nil
}

// publish reads a page and hands on the batch that fill makes of it. A page that does not fit is
// read again.
func (r *rereader) publish(ctx context.Context, q source.Query, n *nomination, out chan<- *batch, fill func(*batch, *page) error) error {
	for {
		again, err := r.publishOnce(ctx, q, n, out, fill)
		if err != nil || !again {
			return err
		}
	}
}

func (r *rereader) publishOnce(ctx context.Context, q source.Query, n *nomination, out chan<- *batch, fill func(*batch, *page) error) (again bool, err error) {
	held, err := r.reader.reserve(ctx)
	if err != nil {
		return false, err
	}
	defer func() { r.opts.Limits.release(&held) }()
	page, err := r.read(ctx, q, n)
	if err != nil {
		return false, err
	}
	defer func() { page.free() }()
	if err := r.reader.bind(page.Columns); err != nil {
		return false, err
	}
	at := r.reader.age(page)
	b := r.builder.begin()
	r.builder.readFrom(b, page)
	if r.entities != nil {
		r.entities.begin(b)
	}
	if err := fill(b, page); err != nil {
		b.discard(r.opts)
		return false, err
	}
	if !r.opts.Limits.resize(&held, b.size()) {
		b.discard(r.opts)
		// Invariant 7: what is read again does not wait beside others.
		page.free()
		page = nil
		return true, r.reader.reserveBig(ctx, &held)
	}
	b.held, held = held, hold{}
	if b.empty() {
		b.discard(r.opts)
		return false, nil
	}
	if err := r.gaps.advance(b, at); err != nil {
		b.discard(r.opts)
		return false, err
	}
	if n != nil {
		n.count(b.verdict)
		n.open.Add(1)
		b.saved = n.done
	}
	return false, r.handOver(ctx, b, out)
}

// read reads the rows that q names. A row that cannot be read holds up the tail no longer than the
// caller of n waits for it.
func (r *rereader) read(ctx context.Context, q source.Query, n *nomination) (*page, error) {
	reading, end := n.within(ctx)
	defer end()
	page, err := r.reader.rows(reading, q)
	if err != nil && n.cancelled() && ctx.Err() == nil && !permanent(err) {
		return nil, errCancelled
	}
	return page, err
}
