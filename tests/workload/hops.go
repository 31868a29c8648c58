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
	return o.together(ctx, []*stateEntity{now}, o.there[0].drop(), o.write("INSERT", now))
}

func (e *stateEntity) drop() step {
	return func(ctx context.Context, db execer) error {
		return deleteRows(ctx, db, 1, "DELETE FROM "+e.table+ofEntity, e.app, e.name)
	}
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

// elsewhere returns an entity as it is in another table, by chance in another state.
func (w *stateWriter) elsewhere(e *stateEntity) *stateEntity {
	table := e.table
	for table == e.table {
		table = w.opts.Tables[w.rng.IntN(len(w.opts.Tables))]
	}
	return w.moved(e, table)
}

func (w *stateWriter) moved(e *stateEntity, table string) *stateEntity {
	m := e.with(e.condition, e.state)
	m.table, m.id = table, 0
	if m.condition == Live && w.coin() {
		m.state = w.newState()
	}
	return m
}

func hop(w *stateWriter, ctx context.Context, e *stateEntity) error {
	now := w.elsewhere(e)
	return w.together(ctx, []*stateEntity{now}, e.drop(), w.write("INSERT", now))
}

func hopBack(w *stateWriter, ctx context.Context, e *stateEntity) error {
	from := e.table
	if err := hop(w, ctx, e); err != nil {
		return err
	}
	now := w.moved(e, from)
	return w.together(ctx, []*stateEntity{now}, e.drop(), w.write("INSERT", now))
}

func hopInTwo(w *stateWriter, ctx context.Context, e *stateEntity) error {
	return w.inTwo(ctx, e, w.elsewhere(e))
}

func hopOverlapping(w *stateWriter, ctx context.Context, e *stateEntity) error {
	former := *e
	if err := w.bring(ctx, "INSERT", w.elsewhere(e)); err != nil {
		return err
	}
	for {
		if err := former.drop()(ctx, w.opts.DB); !isConflict(err) {
			return err
		}
	}
}

func swap(w *stateWriter, ctx context.Context, e *stateEntity) error {
	other := w.pick(Live)
	if other == nil || e.table == other.table {
		return nil
	}
	now := []*stateEntity{w.moved(e, other.table), w.moved(other, e.table)}
	return w.together(ctx, now, e.drop(), other.drop(), w.write("INSERT", now[0]), w.write("INSERT", now[1]))
}

func giveUp(w *stateWriter, ctx context.Context, e *stateEntity) error {
	return w.together(ctx, nil, e.drop(), w.write("INSERT", w.elsewhere(e)))
}
