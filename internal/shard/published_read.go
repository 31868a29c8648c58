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

// rowList holds rows that were published.
type rowList interface {
	// Highest is the highest id.
	Highest() uint64
	// Below appends to dst up to n rows with the highest ids up to through, in ascending order.
	Below(through uint64, n int, dst []published.Row) []published.Row
}

// read reads the rows of a list, newest first, as far as is needed to tell whether ids are used
// again; nil where their columns are others by now. server answered last.
func (p *publishedRows) read(ctx context.Context, c published.Check, list rowList) (_ *published.Check, server string, err error) {
	if bound := p.reader.columns; bound != nil {
		// The page that is about to be published may have other columns than these rows.
		defer func() { err = errors.Join(err, p.reader.bind(bound)) }()
	}
	through := list.Highest()
	for n := newestRows; ; n = compareRows {
		logged := list.Below(through, n, nil)
		if len(logged) == 0 {
			return &c, server, nil
		}
		found, from, err := p.readRows(ctx, logged)
		if errors.Is(err, source.ErrAltered) {
			return nil, "", nil
		} else if err != nil {
			return nil, "", err
		}
		server = from
		if c.Add(logged, found) {
			return &c, server, nil
		}
		through = logged[0].ID - 1
	}
}

// readRows reads the rows under the ids of logged. server answered last.
func (p *publishedRows) readRows(ctx context.Context, logged []published.Row) (found []published.Row, server string, err error) {
	ids := make([]uint64, len(logged))
	for i, row := range logged {
		ids[i] = row.ID
	}
	for ranges := source.RangesOf(ids); len(ranges) > 0; {
		page, err := p.reader.rows(ctx, source.Query{Ranges: ranges, Limit: len(logged), MaxBytes: compareBytes})
		if err != nil {
			return nil, "", err
		}
		server = page.Server
		found, ranges, err = p.addRows(ctx, found, ranges, page)
		page.free()
		if err != nil {
			return nil, "", err
		}
	}
	return found, server, nil
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

// comparedRows are as many rows as are compared by their columns.
const comparedRows = 16

// resolve compares the newest rows of c that may be others, by their columns, with what the bus has
// of them. Where it has nothing, or does not answer in time, c stays as it is.
func (p *publishedRows) resolve(ctx context.Context, c *published.Check) (err error) {
	ids := c.Unsure(comparedRows)
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
