package shard

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"example.org/bridge/event"
	"example.org/bridge/internal/lineage"
	"example.org/bridge/internal/published"
	"example.org/bridge/source"
)

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
// of them. Where it has nothing, or does not answer in time, c stays as it is.
func (p *publishedRows) resolve(ctx context.Context, c *published.Check) (err error) {
	ids := c.Unsure()
	if len(ids) == 0 || p.opts.Newest == nil {
		return nil
	}
	newest, err := p.opts.Newest(ctx, ids)
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		p.opts.Logger.Warn("rows that may be others than those published last could not be read from the bus: their ids and digests alone decide", "rows", len(ids), "error", err)
		return nil
	}
	slices.Sort(ids)
	page, err := p.reader.rows(ctx, source.Query{Ranges: source.RangesOf(ids), Limit: len(ids), MaxBytes: compareBytes})
	if err != nil {
		return err
	}
	defer page.free()
	if bound := p.reader.columns; bound != nil {
		defer func() { err = errors.Join(err, p.reader.bind(bound)) }()
	}
	if err := p.reader.bind(page.Columns); err != nil {
		return err
	}
	c.Resolve(lineage.Compare(p.opts.Encoder, &page.Page, newest))
	return err
}
