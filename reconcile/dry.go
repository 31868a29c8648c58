package reconcile

import (
	"bytes"
	"context"
	"slices"

	"bridge/checkpoint/store"
	"bridge/event"
	"bridge/source"
)

// dryRun nominates in a dry run: it reads nominated rows again and counts the events that the
// owner would publish. It does not know the batches in flight. It serves the goroutine of its pass.
type dryRun struct {
	*pass
	differences []Difference
	seen        []dryRow
	entities    [][]byte
	known       []store.Entry
	// floor is that of the shard.
	floor uint64
}

type dryRow struct {
	event.Digest
	row uint64
}

// Nominate implements nominee.
func (d *dryRun) Nominate(ctx context.Context, n Nomination) (verdict Verdict, err error) {
	for ranges := n.Rows; len(ranges) > 0; {
		if err := d.read(ctx, source.Query{Ranges: ranges, Limit: d.opts.PageRows, MaxBytes: d.opts.PageBytes}, &d.page); err != nil {
			return verdict, err
		}
		if err := d.countPage(ctx, &verdict); err != nil {
			return verdict, err
		}
		count := len(d.page.Rows)
		if count == 0 || !d.page.More {
			break
		}
		ranges = source.RangesAbove(ranges, d.page.Rows[count-1].ID)
	}
	return verdict, nil
}

// begin finds out which rows without an entry are not published.
func (d *dryRun) begin(ctx context.Context, p *pass) error {
	d.pass = p
	return d.retry(ctx, "load the progress of "+d.opts.Shard, func() error {
		progress, _, err := d.opts.Store.Progress(ctx, d.key())
		if progress.ReconcileDue || progress.Snapshot != (source.Range{}) {
			// Else the view has all rows that were there when the shard began.
			d.floor = progress.Floor
		}
		return err
	})
}

// countPage counts the events that the owner would publish for the rows of the page.
func (d *dryRun) countPage(ctx context.Context, verdict *Verdict) error {
	if d.opts.Kind == event.Release {
		for i := range d.page.Rows {
			if d.page.Rows[i].Filtered {
				continue
			}
			verdict.Missed++
			d.example(Difference{What: "missed", Row: d.page.Rows[i].ID})
		}
		return nil
	}
	d.seen, d.entities = d.seen[:0], d.entities[:0]
	for i := range d.page.Rows {
		seen, err := digest(d.encoder, d.page.Columns, &d.page.Rows[i])
		if err != nil {
			return err
		}
		seen.Key = slices.Clone(seen.Key)
		d.seen = append(d.seen, dryRow{seen, d.page.Rows[i].ID})
	}
	slices.SortFunc(d.seen, func(a, b dryRow) int { return bytes.Compare(a.Key, b.Key) })
	for i := range d.seen {
		d.entities = append(d.entities, d.seen[i].Key)
	}
	err := d.retry(ctx, "look up the view", func() (err error) {
		d.known, err = d.opts.View.Lookup(ctx, d.opts.Shard, d.entities, d.known[:0])
		return err
	})
	if err != nil {
		return err
	}
	for i := range d.seen {
		d.countRow(verdict, &d.seen[i], &d.known[i])
	}
	return nil
}

// countRow counts the event that the owner would publish for a row.
func (d *dryRun) countRow(verdict *Verdict, seen *dryRow, known *store.Entry) {
	var what string
	switch {
	case agrees(known, &seen.Digest), known.State == store.Unknown && (seen.Deleted || seen.row <= d.floor):
		return
	case seen.Deleted:
		what = deleted
		verdict.Deleted++
	case !live(known.State):
		what = "added"
		verdict.Added++
	default:
		what = "modified"
		verdict.Modified++
	}
	d.example(Difference{What: what, Row: seen.row, Entity: string(seen.Key)})
}

// absent counts an entity without a row.
func (d *dryRun) absent(one *store.Change) {
	if !live(one.Entry.State) {
		return
	}
	d.count(Verdict{Deleted: 1})
	d.example(Difference{What: deleted, Row: one.Entry.Row, Entity: string(one.Entity)})
}

// example keeps a difference while there is room. A delete takes the room of the last one of
// another kind: who agrees to deletes sees some. The others keep their order.
func (d *dryRun) example(difference Difference) {
	if len(d.differences) < MaxDifferences {
		d.differences = append(d.differences, difference)
		return
	}
	if difference.What != deleted {
		return
	}
	for i := len(d.differences) - 1; i >= 0; i-- {
		if d.differences[i].What != deleted {
			d.differences = append(slices.Delete(d.differences, i, i+1), difference)
			return
		}
	}
}

// deleted is what a Difference says of an entity that is gone.
const deleted = "deleted"
