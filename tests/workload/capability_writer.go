package workload

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"bridge/internal/backoff"
)

// stateEntity is an entity of a writer.
type stateEntity struct {
	app, name string
	id        uint64
	state     uint64
	// other is the state that it flaps to.
	other     uint64
	condition Condition
}

// with returns a copy that is to be in another state.
func (e *stateEntity) with(condition Condition, state uint64) *stateEntity {
	c := *e
	c.condition, c.state = condition, state
	return &c
}

// stateWriter makes one change after the other, of entities that nobody else touches.
type stateWriter struct {
	*Capabilities
	naming
	number int
	mix    weighted
	app    string
	// there are the entities with a row; byName finds them by what the server compares.
	there  []*stateEntity
	byName map[string]*stateEntity
	// gone are the last entities that lost theirs.
	gone   []*stateEntity
	states uint64
	// freed are ids that rows had, old those that none had yet.
	freed []uint64
	old   uint64
	pause backoff.Backoff
}

func newStateWriter(w *Capabilities, number int) *stateWriter {
	return &stateWriter{
		Capabilities: w, number: number, mix: weigh(w.opts.Mix),
		naming: naming{rng: rand.New(rand.NewPCG(w.opts.Seed, uint64(number))), loose: w.opts.Loose},
		app:    fmt.Sprintf("app+%02d", number), byName: make(map[string]*stateEntity), old: uint64(number+1) * oldIDs,
		pause: backoff.Backoff{First: 10 * time.Millisecond, Max: 500 * time.Millisecond},
	}
}

func (w *stateWriter) run(ctx context.Context) error {
	// What was cut short in mid-statement could have happened all the same.
	lasting, end := outlast(ctx, w.opts.Grace)
	defer end()
	for w.reserveChange(ctx) {
		if err := w.turn(ctx, lasting); err != nil {
			return err
		}
	}
	return nil
}

// turn makes one change, another one when a database that is away has kept it from that. What is
// begun ends with lasting.
func (w *stateWriter) turn(ctx, lasting context.Context) error {
	for {
		n := w.rng.IntN(w.mix.upTo[len(w.mix.upTo)-1])
		change := w.mix.changes[slices.IndexFunc(w.mix.upTo, func(upTo int) bool { return n < upTo })]
		err := runs[change](w, lasting)
		switch {
		case lasting.Err() != nil && !errors.Is(err, errNeither):
			return nil
		case err == nil || isConflict(err):
			w.pause.Reset()
			return nil
		case !isAway(err):
			return fmt.Errorf("writer %d: %s: %w", w.number, change, err)
		}
		w.count(func(i *Interruptions) { i.Retries++ })
		if w.pause.Wait(ctx) != nil {
			return nil
		}
	}
}

// newState returns a state that no entity ever had.
func (w *stateWriter) newState() uint64 {
	w.states++
	return w.states*uint64(w.opts.Writers) + uint64(w.number)
}

// newcomer returns an entity that has no row: one that had one some time ago, or a new one.
func (w *stateWriter) newcomer() *stateEntity {
	if len(w.gone) > 0 && w.rng.IntN(3) == 0 {
		i := w.rng.IntN(len(w.gone))
		e := w.gone[i]
		if w.byName[w.compared(e.name)] == nil {
			return e.with(Live, w.newState())
		}
	}
	return &stateEntity{app: w.app, name: w.fresh(), condition: Live, state: w.newState()}
}

// newcomers returns n of them that differ.
func (w *stateWriter) newcomers(n int) []*stateEntity {
	var list []*stateEntity
	taken := make(map[string]bool)
	for len(list) < n {
		if e := w.newcomer(); !taken[w.compared(e.name)] {
			taken[w.compared(e.name)] = true
			list = append(list, e)
		}
	}
	return list
}

// pick returns an entity with a row in one of the given conditions, every other time a recent one;
// nil if there is none at hand.
func (w *stateWriter) pick(conditions ...Condition) *stateEntity {
	for range 20 {
		if len(w.there) == 0 {
			return nil
		}
		i := w.rng.IntN(len(w.there))
		if w.rng.IntN(2) == 0 {
			i = len(w.there) - 1 - w.rng.IntN(min(len(w.there), recent))
		}
		if e := w.there[i]; slices.Contains(conditions, e.condition) {
			return e
		}
	}
	return nil
}

// some returns up to n different entities with a row.
func (w *stateWriter) some(n int) []*stateEntity {
	var list []*stateEntity
	for range 2 * n {
		if e := w.pick(Live, Tombstone); e != nil && len(list) < n && !slices.Contains(list, e) {
			list = append(list, e)
		}
	}
	return list
}

// becomes brings the writer's entities and the record up to date after a commit.
func (w *stateWriter) becomes(c commit) {
	var lost []uint64
	for _, e := range c.now {
		key := w.compared(e.name)
		was := w.byName[key]
		if was != nil {
			lost = append(lost, was.id)
		}
		switch {
		case e.condition == Absent:
			w.drop(key, was)
			w.gone = append(w.gone, e)
			w.gone = w.gone[max(0, len(w.gone)-4*recent):]
		case was != nil:
			*was = *e
		default:
			w.there = append(w.there, e)
			w.byName[key] = e
		}
	}
	for _, id := range lost {
		if !slices.ContainsFunc(c.now, func(e *stateEntity) bool { return e.condition != Absent && e.id == id }) {
			w.freed = append(w.freed, id)
		}
	}
	w.note(c)
}

// drop forgets an entity that has lost its row.
func (w *stateWriter) drop(key string, e *stateEntity) {
	delete(w.byName, key)
	i := slices.Index(w.there, e)
	w.there = slices.Delete(w.there, i, i+1)
}

// oldID returns an id below those that the table hands out: one that was free all along, or one
// that a row had.
func (w *stateWriter) oldID() uint64 {
	if len(w.freed) > 0 && w.rng.IntN(2) == 0 {
		i := w.rng.IntN(len(w.freed))
		id := w.freed[i]
		w.freed = slices.Delete(w.freed, i, i+1)
		return id
	}
	w.old--
	return w.old
}
