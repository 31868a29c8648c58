package reconcile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/client/backoff"
	"example.org/bridge/event"
	"example.org/bridge/internal/option"
)

// candidates are live and soft-deleted entities whose row has gone or changed its id. They are
// looked up by key.
type candidates struct {
	list  []store.Change
	bytes int
}

func (c *candidates) full() bool { return len(c.list) >= MaxNominated || c.bytes >= candidateBytes }

// candidate notes an entity that has no row under the id of its entry.
func (p *pass) candidate(entry *store.Change) {
	p.run.countLive(entry)
	switch {
	case p.unjudged != "":
	case p.beyond:
		if live(entry.Entry.State) {
			p.run.Gone++
		}
	default:
		own := *entry
		own.Entity = slices.Clone(entry.Entity)
		p.candidates.list = append(p.candidates.list, own)
		p.candidates.bytes += len(own.Entity)
	}
}

// live reports whether an entity is there, as far as is known.
func live(s store.EntryState) bool { return s == store.Live || s == store.Recorded }

// findCandidates looks candidates up by key. One with a row is not gone: the scan or the tail
// compares that row. The others wait for the end of the scan.
func (p *pass) findCandidates(ctx context.Context) error {
	asked := len(p.candidates.list)
	if asked == 0 {
		return nil
	}
	slices.SortFunc(p.candidates.list, func(a, b store.Change) int { return bytes.Compare(a.Entity, b.Entity) })
	missing, err := p.without(ctx, p.candidates.list)
	if err == nil && p.opts.ReadKeys != nil {
		missing, err = p.withoutRows(ctx, missing)
	}
	if err != nil {
		return err
	}
	if p.unjudged == "" {
		for i := range missing {
			if live(missing[i].Entry.State) {
				p.run.Gone++
			}
			if p.mode.DryRun {
				p.dry.absent(&missing[i])
			} else {
				p.waiting = append(p.waiting, missing[i].Entity)
			}
		}
	}
	clear(p.candidates.list)
	p.candidates = candidates{list: p.candidates.list[:0]}
	// If the guard will trip anyway, the candidates need not be saved. Where some of these have
	// rows in other tables, further ones may.
	room := p.run.Scanned + p.top - min(p.top, p.run.Bound)
	p.beyond = p.spent && len(missing) == asked && !p.run.Allowed && p.opts.guard().Beyond(p.run.found(), room)
	return nil
}

func (o Options) guard() Guard {
	return Guard{MaxDeletes: o.MaxDeletes, Stream: o.Stream, Expires: o.StaleAfter > 0}
}

func (r *Run) countLive(entry *store.Change) {
	if live(entry.Entry.State) {
		r.Entities++
	}
}

func (r *Run) found() Found {
	return Found{Rows: r.Scanned, Live: r.Entities, Gone: r.Gone, Expired: r.Expired, Before: r.Tripped}
}

// nominateAbsent nominates the entities that wait, unless the guard trips.
func (p *pass) nominateAbsent(ctx context.Context) error {
	if p.opts.Kind == event.Release {
		return nil
	}
	// The server may have changed since the last page.
	if err := p.readServer(ctx); err != nil {
		return err
	}
	p.same(p.page.Server)
	if p.unjudged != "" {
		p.log.Info("reconcile does not judge absence", "why", p.unjudged)
		return nil
	}
	if !p.run.Allowed {
		if why := p.opts.guard().Check(p.run.found()); why != nil {
			p.guard = p.opts.Text(why)
		}
	}
	// Invariant 5: no delete until a person agrees.
	if p.guard != "" {
		switch {
		case p.mode.DryRun:
			p.log.Info("reconcile guard would trip", "why", p.guard)
		case p.run.Guard != "":
			p.log.Warn("reconcile guard is still tripped", "why", p.guard)
		default:
			p.log.Error("reconcile guard tripped", "why", p.guard)
		}
		return nil
	}
	if p.mode.DryRun {
		return nil
	}
	p.run.Guard, p.run.Tripped = "", 0
	for p.run.Judged < p.run.Waiting {
		var entities [][]byte
		err := p.retry(ctx, "read what waits in the checkpoint", func() (err error) {
			entities, err = p.absentFrom(ctx, p.run.Judged)
			return err
		})
		if err != nil {
			return err
		}
		for some := range slices.Chunk(entities, MaxNominated) {
			p.rows.flying = p.rows.begin(ctx, Nomination{Entities: some})
			if err := p.rows.wait(); err != nil {
				return err
			}
			p.run.Judged += uint64(len(some))
			p.tracker.progress(p)
			if err := p.save(ctx); err != nil {
				return err
			}
			if p.run.Away {
				// The next run finds the others again.
				return nil
			}
		}
	}
	return nil
}

// Guard decides whether suspiciously many entities are gone. It is pure.
type Guard struct {
	// MaxDeletes is the share of the live entities, in percent, that may be gone; 100 switches the
	// guard off.
	MaxDeletes float64
	// Stream is named in the command that resolves it.
	Stream string
	// Expires says that rows which nobody touches count as gone.
	Expires bool
}

// Found is what a scan found, as far as the guard is concerned.
type Found struct {
	// Rows counts the rows of the table that were scanned.
	Rows uint64
	// Live counts the live entities of the view, Gone the ones among them without a row. Before is
	// how many lived when the guard tripped first: those that were added since hide nothing. It is
	// 0 where it has not tripped.
	Live, Gone, Before uint64
	// Expired counts the entities that expired lately and were deleted by former runs. An
	// application that is down touches none of its rows, which expire one by one: each run by
	// itself finds few.
	Expired uint64
}

// lived is how many entities lived when the guard tripped first, where that were fewer than now.
func (f *Found) lived() uint64 {
	if f.Before > 0 {
		return min(f.Live, f.Before)
	}
	return f.Live
}

// fewGone is how many entities may be gone whatever their share, up to a half.
const fewGone = 100

// Check returns an error that says why no delete may be published until a person agrees, nil when
// deletes may be.
func (g Guard) Check(f Found) error {
	if g.MaxDeletes >= 100 || f.Gone == 0 {
		return nil
	}
	lived, them := f.lived(), "them"
	if lived < f.Live {
		them = fmt.Sprintf("the %d that lived when the guard tripped", lived)
	}
	gone, live, lived := f.Gone+f.Expired, f.Live+f.Expired, lived+f.Expired
	var why error
	switch {
	case f.Rows == 0:
		why = errors.New("no row was found in the table")
	case gone > lived/2 && 2*gone > lived:
		why = fmt.Errorf("that is more than half of %s", them)
	case gone > fewGone && 100*float64(gone) > g.MaxDeletes*float64(lived):
		why = option.Errorf("at most %s or %d of %s may be gone (%s)", percent(g.MaxDeletes), fewGone, them, option.ReconcileMaxDeletes)
	default:
		return nil
	}
	if g.Expires {
		why = option.Errorf("%w (or one that was not touched for %s: does the application run?)", why, option.StaleAfter)
	}
	return option.Errorf("%d of %d live entities (%s) have no row: %w. No delete is published. Was the table truncated, restored or exchanged? "+
		"If the rows were deleted on purpose: bridge reconcile --allow-deletes %s", gone, live, percent(100*float64(gone)/float64(max(live, 1))), why, g.Stream)
}

// Beyond reports whether the guard will trip whatever the rest of the view brings, when the table
// has been read to its end: every further entity has no row, save those that up to room rows may
// hold.
func (g Guard) Beyond(f Found, room uint64) bool {
	if f.Gone <= room {
		return false
	}
	f.Gone -= room
	return g.Check(f) != nil
}

func percent(p float64) string {
	return strings.TrimSuffix(fmt.Sprintf("%.1f", p), ".0") + "%"
}

// finish forgets entities that are gone for long, and records how the run ended.
func (p *pass) finish(ctx context.Context) error {
	if p.mode.DryRun {
		p.run.Ended = time.Now()
		return nil
	}
	if err := p.forget(ctx); err != nil {
		return err
	}
	if err := p.verify(ctx); err != nil {
		return err
	}
	if p.guard != "" {
		found := p.run.found()
		p.run.Guard, p.run.Tripped = p.guard, found.lived()
	}
	if err := p.answer(ctx); err != nil {
		return err
	}
	p.run.Ended, p.beyond = time.Now(), false
	// What still waits is dropped: the next run finds it again.
	p.drop = p.run.Waiting > 0
	p.run.Waiting, p.run.Judged, p.waiting = 0, 0, nil
	return p.save(ctx)
}

// answer tells the owner that its demand was answered, before the run is saved as ended: where the
// owner does not take that in, the run is resumed, and the table is not read from its beginning.
func (p *pass) answer(ctx context.Context) error {
	if !p.demand.due || p.run.Away {
		// What waits was not compared.
		return nil
	}
	p.answered = p.demand
	if p.opts.Kind == event.Release && p.unjudged != "" {
		// What another server lacks may be a row that was missed.
		return nil
	}
	// As a nomination: the owner may wait for its bus.
	ctx, cancel := context.WithTimeoutCause(ctx, p.opts.RetryLimit, errTimeout)
	defer cancel()
	if err := p.opts.Owner.Reconciled(ctx, p.demand.number); err != nil {
		return fmt.Errorf("record that %s was reconciled: %w", p.opts.Shard, err)
	}
	return nil
}

// forget drops entities from the view that are absent for long. Rows may have expired until lately:
// a run that has read all of its own table has found those that are still there, and of no other.
func (p *pass) forget(ctx context.Context) error {
	if p.opts.Kind == event.Release {
		return nil
	}
	// Since when they are is by the host's clock. One of the two may have jumped.
	now := p.run.Clock
	if p.run.Started.Before(now) {
		now = p.run.Started
	}
	if p.opts.StaleAfter == 0 && !p.resumed {
		if err := p.forgetBefore(ctx, p.key(), now.Add(-keptGone)); err != nil {
			return err
		}
	}
	return p.forgetBefore(ctx, store.Key{Stream: p.opts.Stream}, now.Add(-keptStale))
}

// forgetBefore drops the entities of a shard, of all without one, that are absent since before.
func (r *Reconciler) forgetBefore(ctx context.Context, of store.Key, before time.Time) error {
	for {
		var n int
		err := r.retry(ctx, "forget entities that are absent", func() (err error) {
			n, err = r.opts.Store.ForgetAbsent(ctx, of, before, forgetSlice)
			return err
		})
		if err != nil || n < forgetSlice {
			return err
		}
	}
}

// verify moves verified through to the clock of the run: all that was committed by then, a window
// aside, has been compared with what was published, and the tail has come to where the table ended.
// A busy tail is given the time for that.
func (p *pass) verify(ctx context.Context) error {
	if p.guard != "" || p.unjudged != "" {
		return nil
	}
	if there, err := p.awaitTail(ctx, p.highest, 2*p.opts.Window+2*time.Second); err != nil || !there {
		return err
	}
	through := p.run.Clock.Add(-p.opts.Window)
	if p.opts.Kind == event.Release {
		through = through.Add(-sweepSlack)
		// Ids alone do not tell whether a row is the one that was published.
		ctx, cancel := context.WithTimeoutCause(ctx, p.opts.RetryLimit, errTimeout)
		defer cancel()
		if _, err := p.opts.Owner.Nominate(ctx, Nomination{Published: true}); err != nil {
			return fmt.Errorf("compare the rows of %s that were published last: %w", p.opts.Shard, err)
		}
	}
	if through.After(p.run.Verified) {
		p.run.Verified = through
	}
	return nil
}

func (r *Reconciler) awaitTail(ctx context.Context, id uint64, limit time.Duration) (bool, error) {
	for deadline := time.Now().Add(limit); ; {
		reach, running := r.opts.Owner.Reach()
		if running && reach >= id {
			return true, nil
		}
		if !running || time.Now().After(deadline) {
			return false, nil
		}
		if err := backoff.Pause(ctx, 20*time.Millisecond); err != nil {
			return false, err
		}
	}
}

// viewCursor walks the entities of a shard's view that are not absent, in the order of their rows.
// It reads ahead, so an entry may be older than the last publish; at worst it nominates a row for
// nothing.
type viewCursor struct {
	reconciler *Reconciler
	entries    []store.Change
	next       int
	// limit is how many entries are read next.
	limit int
	after uint64
	ended bool
}

// upTo calls do with the entries from the cursor on whose row is not above an id. Each is valid
// until do returns.
func (c *viewCursor) upTo(ctx context.Context, id uint64, do func(*store.Change) error) error {
	for {
		if c.next == len(c.entries) && !c.ended {
			if err := c.fill(ctx); err != nil {
				return err
			}
		}
		if c.next == len(c.entries) || c.entries[c.next].Entry.Row > id {
			return nil
		}
		if err := do(&c.entries[c.next]); err != nil {
			return err
		}
		c.next++
	}
}

// fill reads the next entries. Entries of the same row come together.
func (c *viewCursor) fill(ctx context.Context) error {
	r := c.reconciler
	limit := max(c.limit, minViewRows)
	err := r.retry(ctx, "read the view", func() (err error) {
		clear(c.entries)
		c.entries, err = r.opts.View.ByRow(ctx, r.opts.Shard, c.after, limit, c.entries[:0])
		return err
	})
	if err != nil {
		return err
	}
	c.next, c.ended = 0, len(c.entries) < limit
	if c.ended {
		return nil
	}
	c.after = c.entries[len(c.entries)-1].Entry.Row
	// Invariant 7: the number of entries that fit, if they are like the last ones.
	size := len(c.entries) * entryBytes
	for i := range c.entries {
		size += len(c.entries[i].Entity)
	}
	c.limit = min(viewBytes*len(c.entries)/size, 2*limit, maxViewRows)
	return nil
}
