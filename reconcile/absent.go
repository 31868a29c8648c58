package reconcile

import (
	"context"
	"slices"

	"bridge/checkpoint/store"
	"bridge/event"
)

// candidate notes an entity that has no row under the id of its entry.
func (p *pass) candidate(entry *store.Change) {
	switch {
	case p.unjudged != "":
	case p.beyond:
		if live(entry.Entry.State) {
			p.gone++
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

// manyCandidates reports whether there are enough candidates to look up together.
func (p *pass) manyCandidates() bool {
	return len(p.candidates.list) >= MaxNominated || p.candidates.bytes >= candidateBytes
}

// findCandidates looks candidates up by key. One with a row is not gone: the scan or the tail
// compares that row. The others wait for the end of the scan.
func (p *pass) findCandidates(ctx context.Context) error {
	if len(p.candidates.list) == 0 {
		return nil
	}
	missing, err := p.missing(ctx, p.candidates.list)
	if err != nil {
		return err
	}
	if p.unjudged == "" {
		for i := range missing {
			if live(missing[i].Entry.State) {
				p.gone++
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
	// If the guard will trip anyway, the candidates need not be saved.
	found := Found{Rows: p.run.Scanned, Live: p.run.Entities, Gone: p.gone}
	room := p.run.Scanned + p.top - min(p.top, p.run.Bound)
	p.beyond = p.spent && !p.run.Allowed && p.check().Beyond(found, room)
	return nil
}

func (p *pass) check() Guard {
	return Guard{MaxDeletes: p.opts.MaxDeletes, Stream: p.opts.Stream}
}

// recount counts the live entities that wait in the store, for a run that is resumed.
func (p *pass) recount(ctx context.Context) error {
	if !p.resumed || p.run.Absent == 0 {
		return nil
	}
	var known []store.Entry
	return p.waitingFrom(ctx, p.run.Judged, func(entities [][]byte) error {
		err := p.retry(ctx, "look up the view", func() (err error) {
			known, err = p.opts.View.Lookup(ctx, p.opts.Shard, entities, known[:0])
			return err
		})
		for i := range known {
			if live(known[i].State) {
				p.gone++
			}
		}
		return err
	})
}

// logGuard logs that the guard has tripped: as an error when that is new.
func (p *pass) logGuard() {
	switch {
	case p.mode.DryRun:
		p.log.Info("reconcile guard would trip", "why", p.guard)
	case p.run.Guard != "":
		p.log.Warn("reconcile guard is still tripped", "why", p.guard)
	default:
		p.log.Error("reconcile guard tripped", "why", p.guard)
	}
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
		if why := p.check().Check(Found{Rows: p.run.Scanned, Live: p.run.Entities, Gone: p.gone}); why != nil {
			p.guard = p.opts.Text(why)
		}
	}
	// Invariant 5: no delete until a person agrees.
	if p.guard != "" {
		p.tripped = true
		p.logGuard()
		return nil
	}
	if p.mode.DryRun {
		return nil
	}
	p.run.Guard = ""
	if p.run.Absent == 0 {
		return nil
	}
	return p.waitingFrom(ctx, p.run.Judged, func(entities [][]byte) error {
		if err := p.rows.nominateNow(ctx, Nomination{Entities: entities}); err != nil {
			return err
		}
		p.run.Judged += uint64(len(entities))
		p.tracker.progress(p)
		return p.save(ctx)
	})
}
