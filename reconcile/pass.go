package reconcile

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/event"
	"example.org/bridge/source"
)

// pass is one call of Run. It serves one goroutine.
type pass struct {
	*Reconciler
	mode    Mode
	run     Run
	page    source.Page
	encoder *event.Encoder
	// demand is what the owner demanded when the pass began.
	demand demand
	// resumed says that run was on record and had not ended.
	resumed bool
	// unjudged says why absence is not judged; empty if it is.
	unjudged string
	// highest is the highest id of the table when the pass began, top when it was last read.
	highest, top uint64
	// saved is when the run was last saved.
	saved time.Time
	// began is the id at which this pass began. base is the id before the first row of the table; 0
	// if that is not known.
	began, base uint64
	// spent says that the table has been read to the bound.
	spent bool

	rows nominator
	// compared are the rows of the id that is compared.
	compared []comparedRow
	// silent are rows of the page that is compared, that are news only of an entity that is there
	// and have no entry under their id; and those that became stale lately.
	silent     []dryRow
	view       viewCursor
	candidates candidates
	// waiting are candidates without a row that are not saved yet.
	waiting [][]byte
	// drop says that the next save drops what waits in the store.
	drop bool
	// beyond says that the guard will trip whatever is still to be read.
	beyond bool

	dry dryRun
	// guard says why the guard tripped in this run.
	guard string
}

// begin finds out where to start and what may be judged.
func (p *pass) begin(ctx context.Context) error {
	// Before the run on record is loaded, from which a new demand removes that it answers the last.
	p.demand = demandOf(p.opts.Owner)
	last, err := p.lastRun(ctx)
	if err != nil {
		return err
	}
	if _, err := p.reach(); err != nil {
		return err
	}
	started := time.Now()
	if err := p.readServer(ctx); err != nil {
		return err
	}
	cutShort := !p.mode.DryRun && !last.Started.IsZero() && last.Ended.IsZero()
	// Of what another server lacks nothing is concluded, so that is compared from the beginning.
	p.resumed = cutShort && (!p.demand.due || last.answers) && (last.Server == p.page.Server || last.Server == "")
	if !p.resumed && p.demand.due && !p.mode.DryRun {
		// The next demand removes it. A former version takes the first part for the run.
		parts := []store.Part{
			{Kind: store.Reconcile, Bytes: encode(last)}, {Kind: store.Reconcile, Number: store.AnsweringRun, Bytes: encode(started.UnixNano())},
		}
		if err := p.apply(ctx, store.ShardChange{Parts: parts}); err != nil {
			return err
		}
		p.demand = demandOf(p.opts.Owner)
	}
	p.highest = p.page.MaxID
	if p.mode.AllowDeletes && !p.mode.DryRun {
		// A tail that reads a table whose ids began again is waited for, so that few entities have
		// to be looked up by key.
		if _, err := p.awaitTail(ctx, p.highest, p.opts.RetryLimit); err != nil {
			return err
		}
	}
	reach, err := p.reach()
	if err != nil {
		return err
	}
	// Invariant 5: agreement to deletes does not hold for a table that is read much later, nor on
	// another server.
	allowed := p.mode.AllowDeletes || cutShort && last.Allowed && last.Server == p.page.Server && time.Since(last.Started).Abs() < allowedFor
	if p.resumed {
		last.Allowed = allowed
		last.Bound = min(last.Bound, reach)
		p.run = last
		p.same(p.page.Server)
	} else {
		p.run = Run{
			Started: started, Clock: p.page.Now, Bound: reach, Server: p.page.Server,
			Allowed: allowed, Guard: last.Guard, Tripped: last.Tripped, Verified: last.Verified,
		}
	}
	if p.run.Verified.After(p.page.Now) {
		// The database's clock was set back.
		p.run.Verified = time.Time{}
	}
	p.drop = p.run.Waiting == 0
	if p.unjudged != "" {
		// A run that is resumed must not forget it.
		p.run.Server = ""
	}
	p.began, p.saved, p.top = p.run.After, time.Now(), p.page.MaxID
	p.view = viewCursor{reconciler: p.Reconciler, after: p.run.After}
	p.rows = nominator{nominate: p.opts.Owner.Nominate, timeout: p.opts.RetryLimit, count: p.count}
	p.rows.away = func(err error) {
		p.run.Away = true
		p.unjudge(p.opts.Text(err))
	}
	if p.mode.DryRun {
		if err := p.dry.begin(ctx, p); err != nil {
			return err
		}
		p.rows.nominate, p.rows.alone = p.dry.nominate, true
	}
	if !p.resumed && len(p.page.Rows) > 0 {
		p.base = p.page.Rows[0].ID - 1
	}
	p.tracker.progress(p)
	return p.save(ctx)
}

// reach returns the saved position of the shard, up to which a run judges.
func (r *Reconciler) reach() (uint64, error) {
	reach, running := r.opts.Owner.Reach()
	if !running {
		return 0, fmt.Errorf("reconcile %s: %w", r.opts.Shard, ErrNotRunning)
	}
	return reach, nil
}

// readServer reads one row for the clock, the server and the highest id, and finds out whether
// absence may be judged on this server.
func (p *pass) readServer(ctx context.Context) error {
	if err := p.read(ctx, source.Query{Limit: 1, MaxBytes: 1}, &p.page); err != nil {
		return err
	}
	if p.opts.Kind == event.Release {
		return nil
	}
	if err := bind(p.encoder, p.page.Columns); err != nil {
		return err
	}
	var traits source.Traits
	err := p.query(ctx, "ask about "+p.opts.Shard, func() (err error) {
		traits, err = p.opts.Source.Traits(ctx)
		return err
	})
	if err == nil && !traits.Writer && p.unjudged == "" {
		p.unjudged = "the server does not take the writes, as far as can be told: " + traits.WriterWhy
	}
	return err
}

// same notes which server answered. Invariant 5: a row that only one of two servers has is not
// absent.
func (p *pass) same(server string) {
	if server != p.run.Server {
		p.unjudge(fmt.Sprintf("another server answered during the run: %q after %q", server, p.run.Server))
	}
}

// unjudge notes why absence is not judged in this run, unless there is a reason already.
func (p *pass) unjudge(why string) {
	if p.unjudged == "" {
		p.unjudged = why
	}
	// A run that is resumed must not forget it.
	p.run.Server = ""
}

func (p *pass) count(v Verdict) {
	p.run.Verdict.Add(v)
	if !p.mode.DryRun {
		p.tracker.update(func(s *Status) { s.Totals.Add(v) })
	}
}

// commit has the owner decide about all nominations so far, and saves the progress of the
// run.
func (p *pass) commit(ctx context.Context) error {
	if err := p.compareSilent(ctx); err != nil {
		return err
	}
	if err := p.rows.send(ctx); err != nil {
		return err
	}
	if err := p.rows.wait(); err != nil {
		return err
	}
	if err := p.findCandidates(ctx); err != nil {
		return err
	}
	p.tracker.progress(p)
	return p.save(ctx)
}

// commitDue shows the progress of the run, and commits where the last save is long ago.
func (p *pass) commitDue(ctx context.Context) error {
	p.tracker.progress(p)
	if time.Since(p.saved) < p.opts.SaveEvery {
		return nil
	}
	return p.commit(ctx)
}

// Run is the run on record of a shard, so that one that is cut short goes on where it stopped.
type Run struct {
	// Started is when the run began, Ended when it ended (zero while it is under way), by the
	// host's clock.
	Started, Ended time.Time
	// Clock is the database's clock when the run began: the run judges all commits before.
	Clock time.Time
	// Bound is the highest id that is judged, After the id up to which the table and the view have
	// been compared.
	Bound, After uint64
	// Server is the server that the run reads.
	Server string
	// Scanned counts the rows read, Entities the live entities of the view compared.
	Scanned, Entities uint64
	// Verdict counts the published events.
	Verdict
	// Gone counts the live entities without a row, Waiting all entities without one that wait for
	// the end of the scan; they are saved beside the run. Judged counts those of them that the
	// owner has judged already.
	Gone, Waiting, Judged uint64
	// Expired counts the rows that expired lately, of entities that are deleted already.
	Expired uint64
	// Guard says why no delete is published until a person agrees; empty while the guard has not
	// tripped. Tripped is how many entities lived then: those that were added since hide nothing.
	Guard   string
	Tripped uint64
	// Allowed says that a person has agreed to the deletes of this run, Away that entities wait for
	// another database of the stream.
	Allowed, Away bool
	// Verified is the database's clock up to which all commits are known to be published, from the
	// last run that ended well.
	Verified time.Time

	// answers says that it began behind the last demand of the owner.
	answers bool
}

// LoadRun returns the run on record of a shard, and false if there is none.
func LoadRun(ctx context.Context, s Store, key store.Key) (run Run, found bool, err error) {
	for part, err := range s.Parts(ctx, key, store.Reconcile, 0) {
		if err != nil {
			return Run{}, false, err
		}
		if part.Number == store.AnsweringRun {
			run.answers = bytes.Equal(part.Bytes, encode(run.Started.UnixNano()))
			continue
		}
		if err := json.Unmarshal(part.Bytes, &run); err != nil {
			return Run{}, false, damaged(key, err)
		}
		found = true
	}
	return run, found, nil
}

func damaged(key store.Key, err error) error {
	return fmt.Errorf("%w: the reconcile run of %s: %w", store.ErrDamaged, key.Shard, err)
}

// save saves the run. Every difference up to its After has been judged, or waits in the store.
func (p *pass) save(ctx context.Context) error {
	if p.mode.DryRun || p.beyond {
		return nil
	}
	var change store.ShardChange
	if p.drop {
		change.Clear = []store.Kind{store.AbsentEntities}
	}
	if len(p.waiting) > 0 {
		// A part is named by how many entities come before.
		change.Parts = append(change.Parts, store.Part{Kind: store.AbsentEntities, Number: p.run.Waiting, Bytes: encode(p.waiting)})
		p.run.Waiting += uint64(len(p.waiting))
	}
	change.Parts = append(change.Parts, store.Part{Kind: store.Reconcile, Bytes: encode(p.run)})
	err := p.apply(ctx, change)
	clear(p.waiting)
	p.waiting, p.drop, p.saved = p.waiting[:0], false, time.Now()
	return err
}

func (r *Reconciler) apply(ctx context.Context, change store.ShardChange) error {
	change.Key = r.key()
	return r.retry(ctx, "save the reconcile run", func() error {
		return r.opts.Committer.Apply(ctx, &store.Batch{Shards: []store.ShardChange{change}})
	})
}

func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // No such value fails but a time beyond the year 9999.
	}
	return b
}

// absentFrom returns entities that wait in the store, from the given number to the end of their
// part.
func (r *Reconciler) absentFrom(ctx context.Context, from uint64) ([][]byte, error) {
	for part, err := range r.opts.Store.Parts(ctx, r.key(), store.AbsentEntities, from) {
		if err != nil {
			return nil, err
		}
		var entities [][]byte
		if err := json.Unmarshal(part.Bytes, &entities); err != nil {
			return nil, damaged(r.key(), err)
		}
		if part.Number > from || from-part.Number >= uint64(len(entities)) {
			break
		}
		return entities[from-part.Number:], nil
	}
	return nil, damaged(r.key(), fmt.Errorf("the absent entity %d is not there", from))
}
