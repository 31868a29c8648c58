package workload

import (
	"context"
	"time"

	"example.org/bridge/client/backoff"
)

// HoppingChanges returns a mix for entities in several tables, whose rows hide where hides is set.
func HoppingChanges(hides bool) map[Change]int {
	mix := map[Change]int{
		Insert: 10, Update: 14, UpdateSilent: 6, Flap: 4, Replace: 5, ReplaceSame: 3, SoftDelete: 4, Revive: 3, Delete: 4, Reinsert: 2,
		Hop: 14, HopBack: 6, HopInTwo: 5, HopOverlapping: 5, Swap: 4, GiveUp: 3,
	}
	if hides {
		mix[Hide], mix[Show] = 3, 3
	}
	return mix
}

// HopTo has an entity of the first writer, always the same one, go to a table in another state.
func (w *Capabilities) HopTo(ctx context.Context, table string) error {
	o := w.writers[0]
	o.change = Hop
	now := o.moved(o.there[0], table)
	now.state = o.newState()
	return o.together(ctx, []*stateEntity{now}, o.drop(o.there[0]), o.put(now))
}

type step func(ctx context.Context, tx *session) error

func (w *stateWriter) drop(e *stateEntity) step {
	return func(ctx context.Context, tx *session) error {
		return deleteRows(ctx, tx, 1, "DELETE FROM "+e.table+ofEntity, e.app, e.name)
	}
}

func (w *stateWriter) put(e *stateEntity) step {
	return func(ctx context.Context, tx *session) error { return w.write(ctx, "INSERT", tx, e) }
}

// together runs some statements in a transaction, few of which stay open for up to a second. now is
// what it makes of entities; without that it rolls back.
func (w *stateWriter) together(ctx context.Context, now []*stateEntity, steps ...step) error {
	tx, err := open(ctx, w.opts.DB, MySQL)
	if err != nil {
		return err
	}
	defer tx.end()
	for _, step := range steps {
		if err := step(ctx, tx); err != nil {
			return err
		}
	}
	if w.rng.IntN(60) == 0 {
		if err := backoff.Pause(ctx, time.Duration(w.rng.Int64N(int64(time.Second)))); err != nil {
			return err
		}
	}
	if now == nil {
		if err := tx.finish(ctx, "ROLLBACK"); err != nil {
			return err
		}
		w.becomes(time.Now())
		return nil
	}
	begun := time.Now()
	return w.resolve(ctx, tx.finish(ctx, "COMMIT"), begun, now...)
}

func (w *stateWriter) elsewhere(e *stateEntity) (table string) {
	for table = e.table; table == e.table; {
		table = w.opts.Tables[w.rng.IntN(len(w.opts.Tables))]
	}
	return table
}

// The copy is by chance in another state.
func (w *stateWriter) moved(e *stateEntity, table string) *stateEntity {
	m := e.with(e.condition, e.state)
	m.table, m.id = table, 0
	if m.condition == Live && w.coin() {
		m.state = w.newState()
	}
	return m
}

func (w *stateWriter) hop(ctx context.Context, e *stateEntity, table string) error {
	now := w.moved(e, table)
	return w.together(ctx, []*stateEntity{now}, w.drop(e), w.put(now))
}

func hop(w *stateWriter, ctx context.Context) error {
	if e := w.pick(Live, Tombstone, Filtered); e != nil {
		return w.hop(ctx, e, w.elsewhere(e))
	}
	return nil
}

func hopBack(w *stateWriter, ctx context.Context) error {
	e := w.pick(Live)
	if e == nil {
		return nil
	}
	from := e.table
	if err := w.hop(ctx, e, w.elsewhere(e)); err != nil {
		return err
	}
	return w.hop(ctx, e, from)
}

func hopInTwo(w *stateWriter, ctx context.Context) error {
	e := w.pick(Live)
	if e == nil {
		return nil
	}
	now := w.moved(e, w.elsewhere(e))
	if err := w.remove(ctx, e); err != nil {
		return err
	}
	return w.bring(ctx, "INSERT", []*stateEntity{now})
}

func hopOverlapping(w *stateWriter, ctx context.Context) error {
	e := w.pick(Live)
	if e == nil {
		return nil
	}
	former := *e
	if err := w.bring(ctx, "INSERT", []*stateEntity{w.moved(e, w.elsewhere(e))}); err != nil {
		return err
	}
	for {
		if err := deleteRows(ctx, w.opts.DB, 1, "DELETE FROM "+former.table+ofEntity, former.app, former.name); !isConflict(err) {
			return err
		}
	}
}

func swap(w *stateWriter, ctx context.Context) error {
	e, other := w.pick(Live), w.pick(Live)
	if e == nil || other == nil || e.table == other.table {
		return nil
	}
	now := []*stateEntity{w.moved(e, other.table), w.moved(other, e.table)}
	return w.together(ctx, now, w.drop(e), w.drop(other), w.put(now[0]), w.put(now[1]))
}
