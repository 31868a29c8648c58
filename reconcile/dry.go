package reconcile

import (
	"bytes"
	"context"
	"slices"
	"strings"

	"bridge/checkpoint"
	"bridge/event"
	"bridge/source"
)

// dryRun is the owner of a dry run: it reads nominated rows again and counts the events that the
// owner would publish. It does not know the batches in flight. It serves the goroutine of its pass.
type dryRun struct {
	*pass
	differences []Difference
	seen        []dryRow
	entities    [][]byte
	known       []checkpoint.Known
}

type dryRow struct {
	event.Digest
	row uint64
}

// Nominate implements Owner.
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
		ranges = behind(ranges, d.page.Rows[count-1].ID)
	}
	return verdict, nil
}

// Reach implements Owner.
func (d *dryRun) Reach() (uint64, bool) { return d.opts.Owner.Reach() }

// behind returns the part of ranges above the id last.
func behind(ranges []source.Range, last uint64) []source.Range {
	var rest []source.Range
	for _, r := range ranges {
		if r.Last > last {
			rest = append(rest, source.Range{First: max(r.First, last+1), Last: r.Last})
		}
	}
	return rest
}

// countPage counts the events that the owner would publish for the rows of the page.
func (d *dryRun) countPage(ctx context.Context, verdict *Verdict) error {
	if d.opts.Kind == event.Release {
		for i := range d.page.Rows {
			verdict.Missed++
			d.example(Difference{What: "missed", Row: d.page.Rows[i].ID})
		}
		return nil
	}
	d.seen, d.entities = d.seen[:0], d.entities[:0]
	for i := range d.page.Rows {
		seen, err := digest(d.opts.Encoder, d.page.Columns, &d.page.Rows[i])
		if err != nil {
			return err
		}
		seen.Entity = slices.Clone(seen.Entity)
		d.seen = append(d.seen, dryRow{seen, d.page.Rows[i].ID})
	}
	slices.SortFunc(d.seen, func(a, b dryRow) int { return bytes.Compare(a.Entity, b.Entity) })
	for i := range d.seen {
		d.entities = append(d.entities, d.seen[i].Entity)
	}
	err := d.retry(ctx, "look up the view", func() (err error) {
		d.known, err = d.opts.Store.Lookup(ctx, d.key(), d.entities, d.known[:0])
		return err
	})
	if err != nil {
		return err
	}
	for i := range d.seen {
		d.countRow(verdict, &d.seen[i], d.known[i])
	}
	return nil
}

// countRow counts the event that the owner would publish for a row.
func (d *dryRun) countRow(verdict *Verdict, seen *dryRow, known checkpoint.Known) {
	var what string
	switch {
	case seen.Deleted && known.Fate == checkpoint.Tombstone:
		return
	case seen.Deleted:
		what = "deleted"
		verdict.Deleted++
	case known.Fate != checkpoint.Live:
		what = "added"
		verdict.Added++
	case known.State != seen.Sum:
		what = "modified"
		verdict.Modified++
	default:
		return
	}
	d.example(Difference{What: what, Row: seen.row, Entity: d.name(seen.Entity)})
}

// absent counts an entity without a row.
func (d *dryRun) absent(entry *checkpoint.Entity) {
	if entry.Fate != checkpoint.Live {
		return
	}
	d.count(Verdict{Deleted: 1})
	d.example(Difference{What: "deleted", Row: entry.Row, Entity: d.name(entry.Entity)})
}

func (d *dryRun) example(difference Difference) {
	if len(d.differences) < MaxDifferences {
		d.differences = append(d.differences, difference)
	}
}

// name returns the key of an entity.
func (d *dryRun) name(entity []byte) string {
	key, err := d.opts.Encoder.KeyText(entity)
	if err != nil {
		// A key of another number of columns.
		return strings.ToValidUTF8(string(entity), "?")
	}
	return key
}
