package reconcile

import (
	"bytes"
	"context"
	"slices"

	"bridge/checkpoint"
	"bridge/event"
)

// candidate notes an entity that has no row under the id of its entry.
func (p *pass) candidate(entry *checkpoint.Entity) {
	switch {
	case p.unjudged != "":
	case p.beyond:
		if entry.Fate == checkpoint.Live {
			p.gone++
		}
	default:
		own := *entry
		own.Entity = slices.Clone(entry.Entity)
		p.candidates = append(p.candidates, own)
		p.bytes += len(own.Entity)
	}
}

// manyCandidates reports whether there are enough candidates to look up together.
func (p *pass) manyCandidates() bool {
	return len(p.candidates) >= MaxNominated || p.bytes >= candidateBytes
}

// findCandidates looks candidates up by key. One with a row is not gone: the scan or the tail
// compares that row. The others wait for the end of the scan.
func (p *pass) findCandidates(ctx context.Context) error {
	missing, err := p.missing(ctx, p.candidates)
	if err != nil {
		return err
	}
	if p.unjudged == "" {
		for i := range missing {
			if missing[i].Fate == checkpoint.Live {
				p.gone++
			}
			if p.mode.DryRun {
				p.dry.absent(&missing[i])
			} else {
				p.waiting = append(p.waiting, missing[i].Entity)
			}
		}
	}
	clear(p.candidates)
	p.candidates, p.bytes = p.candidates[:0], 0
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
	var known []checkpoint.Known
	return p.waitingFrom(ctx, p.run.Judged, func(entities [][]byte) error {
		slices.SortFunc(entities, bytes.Compare)
		err := p.retry(ctx, "look up the view", func() (err error) {
			known, err = p.opts.Store.Lookup(ctx, p.key(), entities, known[:0])
			return err
		})
		for i := range known {
			if known[i].Fate == checkpoint.Live {
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

// waitingFrom calls do with the entities that wait in the store, from the given number on, one
// nomination's worth at a time.
func (p *pass) waitingFrom(ctx context.Context, from uint64, do func([][]byte) error) error {
	var entities [][]byte
	for {
		err := p.retry(ctx, "read what waits in the checkpoint", func() (err error) {
			entities, err = p.opts.Store.Absent(ctx, p.key(), from, MaxNominated, entities[:0])
			return err
		})
		if err != nil || len(entities) == 0 {
			return err
		}
		from += uint64(len(entities))
		if err := do(entities); err != nil {
			return err
		}
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
