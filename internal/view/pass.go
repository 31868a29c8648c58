package view

import (
	"context"
	"maps"
	"slices"
	"time"
)

// Run reads nominated entities and hands them to owners until ctx ends. It returns nil then. An
// error of Read, Publish or the store is passed to retried, and what it is about is tried again.
func (m *Movers) Run(ctx context.Context, retried func(error)) error {
	for {
		worked, until, err := m.pass(ctx)
		if err != nil && ctx.Err() == nil && retried != nil {
			retried(err)
		}
		if worked && ctx.Err() == nil {
			continue
		}
		if m.sleep(ctx, until) != nil {
			return nil
		}
	}
}

// sleep waits until there may be something to do, at the latest until a pause ends.
func (m *Movers) sleep(ctx context.Context, until time.Time) error {
	var pause <-chan time.Time
	if !until.IsZero() {
		timer := time.NewTimer(until.Sub(m.opts.Now()))
		defer timer.Stop()
		pause = timer.C
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-m.wake:
	case <-pause:
	}
	return nil
}

// Pass reads entities that wait, once, and hands on what follows. It reports whether there were
// any.
func (m *Movers) Pass(ctx context.Context) (worked bool, err error) {
	worked, _, err = m.pass(ctx)
	return worked, err
}

func (m *Movers) pass(ctx context.Context) (worked bool, until time.Time, err error) {
	list, until := m.next()
	if len(list) == 0 {
		return false, until, nil
	}
	held, err := m.view.reserve(ctx, list, nil)
	if err != nil {
		m.put(list)
		return true, until, err
	}
	m.wait(list, held)
	moves, err := m.decide(ctx, held)
	for _, shard := range slices.Sorted(maps.Keys(moves)) {
		if failed := m.opts.Publish(ctx, shard, moves[shard]); failed != nil {
			m.Return(moves[shard])
			err = failed
		}
	}
	return true, until, err
}

// put puts entities back that were not reserved.
func (m *Movers) put(list []*mover) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, one := range list {
		m.pause(one)
	}
}

// wait has those of list that are not reserved wait until they are free. They may be so by now:
// the view tells it only of those that wait.
func (m *Movers) wait(list []*mover, held []reserved) {
	if len(list) == len(held) {
		return
	}
	m.view.lock()
	defer m.view.mu.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for _, one := range list {
		if n < len(held) && held[n].mover == one {
			n++
			continue
		}
		if r := m.view.records[one.name]; r != nil {
			r.waited, one.state = true, isClaimed
			continue
		}
		m.enqueue(one)
	}
}

// decide reads reserved entities and returns the moves that follow, by shard. The others are free
// again.
func (m *Movers) decide(ctx context.Context, held []reserved) (moves map[string][]Move, err error) {
	moves = make(map[string][]Move)
	// Two rounds that find nothing prove an absence.
	for round := 0; len(held) > 0; round++ {
		reading, failed := m.read(ctx, held)
		if failed != nil {
			for i := range held {
				m.view.unreserve(held[i].name, held[i].number, true)
			}
			return moves, failed
		}
		var rest []reserved
		for i := range held {
			one, found := &held[i], reading.Rows[i]
			what, row := choose(&one.entry, found, reading.Snapshot || round > 0)
			if len(found) > 1 {
				m.count()
				m.view.handle(one, found, row)
			}
			switch {
			case what == again && !reading.Unproved:
				rest = append(rest, *one)
			case what == publish:
				move := Move{Shard: found[row].Shard, Entity: one.entity, Row: found[row].Row, name: one.name, number: one.number}
				m.view.assign(&move, &found[row])
				moves[move.Shard] = append(moves[move.Shard], move)
			case what == absent && !reading.Unproved:
				move := Move{Shard: m.owner(one), Entity: one.entity, Absent: true, name: one.name, number: one.number}
				m.view.assign(&move, nil)
				moves[move.Shard] = append(moves[move.Shard], move)
			default:
				// Nothing is to be said, or a reconcile has to prove the absence.
				m.view.unreserve(one.name, one.number, false)
			}
		}
		held = rest
	}
	return moves, nil
}

// read reads the keys of reserved entities, which are of one shard where entities belong to it.
func (m *Movers) read(ctx context.Context, held []reserved) (Reading, error) {
	entities := make([][]byte, len(held))
	for i := range held {
		entities[i] = held[i].entity
	}
	return m.opts.Read(ctx, held[0].shard, entities)
}

// owner returns the shard that publishes an absence.
func (m *Movers) owner(one *reserved) string {
	if len(m.opts.Shards) > 0 && !slices.Contains(m.opts.Shards, one.entry.Shard) {
		return m.opts.Shards[0]
	}
	return one.entry.Shard
}

func (m *Movers) count() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.twins++
}
