package reconcile

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/event"
	"example.org/bridge/internal/panics"
	"example.org/bridge/internal/stream"
	"example.org/bridge/source"
)

// nominator gathers rows and nominates them, one nomination at a time, while the scan goes on. It
// serves one goroutine.
type nominator struct {
	// nominate is that of the [Owner], or of the dry run.
	nominate func(ctx context.Context, n Nomination) (Verdict, error)
	// timeout bounds a nomination, so that the other shards of the database get their turn while
	// the bus is away.
	timeout time.Duration
	// alone makes nominations run in the caller's goroutine.
	alone bool
	// count is called with the verdict of each nomination, away where entities of it wait for
	// another database.
	count func(Verdict)
	away  func(error)

	ranges, spare []source.Range
	ids           int
	// flying is the nomination that the owner has not decided yet.
	flying chan outcome
}

type outcome struct {
	verdict Verdict
	err     error
}

// row adds a row; ids must be ascending, and may repeat.
func (n *nominator) row(id uint64) {
	last := len(n.ranges) - 1
	if last >= 0 && n.ranges[last].Last == id {
		return
	}
	n.ids++
	if last >= 0 && n.ranges[last].Last+1 == id {
		n.ranges[last].Last = id
		return
	}
	n.ranges = append(n.ranges, source.Range{First: id, Last: id})
}

func (n *nominator) full() bool { return n.ids >= MaxNominated }

// send nominates the gathered rows once the nomination before has been judged.
func (n *nominator) send(ctx context.Context) error {
	if err := n.wait(); err != nil || n.ids == 0 {
		return err
	}
	named := Nomination{Rows: n.ranges}
	// Invariant 7: two lists of rows, one with the owner and one being filled.
	n.ranges, n.spare, n.ids = n.spare[:0], n.ranges, 0
	n.flying = n.begin(ctx, named)
	return nil
}

func (n *nominator) begin(ctx context.Context, named Nomination) chan outcome {
	flying := make(chan outcome, 1)
	run := func() {
		ctx, cancel := context.WithTimeoutCause(ctx, n.timeout, errTimeout)
		defer cancel()
		var o outcome
		o.err = panics.Guard(func() (err error) {
			o.verdict, err = n.nominate(ctx, named)
			return err
		})
		flying <- o
	}
	if n.alone {
		run()
	} else {
		go run()
	}
	return flying
}

// wait blocks until the nomination in flight has been judged.
func (n *nominator) wait() error {
	if n.flying == nil {
		return nil
	}
	o := <-n.flying
	n.flying = nil
	n.count(o.verdict)
	if errors.Is(o.err, stream.ErrAway) {
		n.away(o.err)
		return nil
	}
	return o.err
}

var errTimeout = errors.New("what differs could not be published for long: is the bus away?")

// dryRun nominates in a dry run: it reads nominated rows again and counts the events that the
// owner would publish. It does not know the batches in flight. It serves the goroutine of its pass.
type dryRun struct {
	*pass
	differences []Difference
	seen        []dryRow
	// floor is the floor of the shard.
	floor uint64
}

// dryRow is a row that was read, as far as it is compared with the view.
type dryRow struct {
	event.Digest
	row uint64
}

func (d *dryRun) nominate(ctx context.Context, n Nomination) (verdict Verdict, err error) {
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
	d.seen = d.seen[:0]
	for i := range d.page.Rows {
		seen, err := digest(d.encoder, d.page.Columns, &d.page.Rows[i])
		if err != nil {
			return err
		}
		seen.Key = slices.Clone(seen.Key)
		d.seen = append(d.seen, dryRow{seen, d.page.Rows[i].ID})
	}
	slices.SortFunc(d.seen, func(a, b dryRow) int { return bytes.Compare(a.Key, b.Key) })
	known, err := d.lookup(ctx, d.seen)
	for i := range known {
		d.countRow(verdict, &d.seen[i], &known[i])
	}
	return err
}

func (r *Reconciler) lookup(ctx context.Context, rows []dryRow) (known []store.Entry, err error) {
	entities := make([][]byte, len(rows))
	for i := range rows {
		entities[i] = rows[i].Key
	}
	err = r.retry(ctx, "look up the view", func() (err error) {
		known, err = r.opts.View.Lookup(ctx, r.opts.Shard, entities, known[:0])
		return err
	})
	return known, err
}

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

const deleted = "deleted"

// compareSilent nominates those silent rows whose entity was published with another row: it is
// looked up, as most of them have no entity. Of rows that became stale lately it counts those that
// were the last ones of entities that are deleted already.
func (p *pass) compareSilent(ctx context.Context) error {
	if len(p.silent) == 0 {
		return nil
	}
	known, err := p.lookup(ctx, p.silent)
	if err != nil {
		return err
	}
	begun := false
	for i := range known {
		if p.silent[i].Stale {
			if k := &known[i]; k.State == store.Absent && k.Shard == p.opts.Shard && k.Row == p.silent[i].row {
				p.run.Expired++
			}
			continue
		}
		if known[i].State == store.Unknown || known[i].State == store.Absent && !known[i].Disputed {
			continue
		}
		if !begun || p.rows.full() {
			// The rows of a nomination ascend, and later rows of the page are gathered already.
			if err := p.rows.send(ctx); err != nil {
				return err
			}
		}
		begun = true
		p.rows.row(p.silent[i].row)
	}
	clear(p.silent)
	p.silent = p.silent[:0]
	return nil
}
