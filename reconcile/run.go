package reconcile

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"bridge/checkpoint/store"
)

// Run is the run on record of a shard, so that one that is cut short goes on where it stopped.
type Run struct {
	// Started is when the run began, Ended when it ended (zero while it is under way), by the
	// host's clock.
	Started, Ended time.Time
	// Clock is the database's clock when the run began: what was committed before is judged by it.
	Clock time.Time
	// Bound is the highest id that is judged, After the id up to which the table and the view have
	// been compared.
	Bound, After uint64
	// Server is the server that the run reads.
	Server string
	// Scanned counts the rows read, Entities the live entities of the view compared.
	Scanned, Entities uint64
	// Verdict counts what was published.
	Verdict
	// Absent counts the entities without a row that wait for the end of the scan; they are saved
	// beside the run. Judged counts those of them that the owner has judged already.
	Absent, Judged uint64
	// Guard says why no delete is published until a person agrees; empty while the guard has not
	// tripped.
	Guard string
	// Allowed says that a person has agreed to the deletes of this run.
	Allowed bool
	// Verified is the database's clock up to which all commits are known to be published, from the
	// last run that ended well.
	Verified time.Time
}

// LoadRun returns the run on record of a shard, and false where there is none.
func LoadRun(ctx context.Context, s Store, key store.Key) (run Run, found bool, err error) {
	for part, err := range s.Parts(ctx, key, store.Reconcile, 0) {
		if err != nil {
			return Run{}, false, err
		}
		if err := json.Unmarshal(part.Bytes, &run); err != nil {
			return Run{}, false, damaged(key, err)
		}
		return run, true, nil
	}
	return Run{}, false, nil
}

func damaged(key store.Key, err error) error {
	return fmt.Errorf("%w: the reconcile run of %s: %w", store.ErrDamaged, key.Shard, err)
}

// save saves the run. Every difference up to reached has been judged, or waits in the store.
func (p *pass) save(ctx context.Context) error {
	if p.mode.DryRun || p.beyond {
		return nil
	}
	p.run.After = p.reached
	change := store.ShardChange{Key: p.key()}
	if p.drop {
		change.Clear = []store.Kind{store.AbsentEntities}
	}
	if len(p.waiting) > 0 {
		// A part is named by how many entities come before.
		change.Parts = append(change.Parts, store.Part{Kind: store.AbsentEntities, Number: p.run.Absent, Bytes: encode(p.waiting)})
		p.run.Absent += uint64(len(p.waiting))
	}
	change.Parts = append(change.Parts, store.Part{Kind: store.Reconcile, Bytes: encode(p.run)})
	err := p.retry(ctx, "save the reconcile run", func() error {
		return p.opts.Committer.Apply(ctx, &store.Batch{Shards: []store.ShardChange{change}})
	})
	clear(p.waiting)
	p.waiting, p.drop, p.saved = p.waiting[:0], false, time.Now()
	return err
}

// encode returns v, a run or entities, as JSON.
func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // No such value fails but a time beyond the year 9999.
	}
	return b
}

// waitingFrom calls do with the entities that wait in the store, from the given number on, one
// nomination's worth at a time.
func (p *pass) waitingFrom(ctx context.Context, from uint64, do func([][]byte) error) error {
	for from < p.run.Absent {
		var entities [][]byte
		err := p.retry(ctx, "read what waits in the checkpoint", func() (err error) {
			entities, err = p.absentFrom(ctx, from)
			return err
		})
		if err != nil {
			return err
		}
		from += uint64(len(entities))
		for len(entities) > 0 {
			n := min(len(entities), MaxNominated)
			if err := do(entities[:n]); err != nil {
				return err
			}
			entities = entities[n:]
		}
	}
	return nil
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
