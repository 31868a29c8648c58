package stream

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync/atomic"
	"time"
)

// FoundRows is what the tables of a stream have of keys.
type FoundRows struct {
	// Rows has the rows of each entity, in the order of the request.
	Rows [][]Found
	// Snapshot says that all tables were read in one statement.
	Snapshot bool
	// Unproved says that a missing row may be there: a server that does not take the writes
	// was read. Then no absence is concluded.
	Unproved bool
}

// ErrAway is wrapped by an error of MoversOptions.Read where a database does not answer, or a table
// stops its shard, and by one of Publish where the shard does not run.
var ErrAway = errors.New("cannot be read")

// MoversOptions say how a stream is read and who publishes. Read and Publish must be set.
type MoversOptions struct {
	// Shards are the shards of the stream. An entity of another one that is absent belongs to the
	// first.
	Shards []string
	// Read reads keys in all tables of the stream; where entities belong to their table, in that
	// of shard, which is empty else.
	Read func(ctx context.Context, shard string, entities [][]byte) (FoundRows, error)
	// Publish hands moves to the owner of a shard, and does not wait for the bus. With an error
	// they are tried again later.
	Publish func(ctx context.Context, shard string, moves []Move) error
	// Bound is how many entities wait at most; further ones make a reconcile due. Defaults to
	// 10,000 (rule 7).
	Bound int
	// Pause is that before an entity is read again; it doubles up to 5 s. Defaults to 20 ms.
	Pause time.Duration
	// Now defaults to time.Now.
	Now func() time.Time
}

// Movers is the queue of the nominated entities of a stream (rules 7, 17 and 29). It is safe for
// concurrent use; Run and Pass serve one goroutine.
type Movers struct {
	view *View
	opts MoversOptions
	wake chan struct{}

	// What follows is under View.mu.

	moves uint64
	// queue has all entities by what is stored of them, waiting those to be read, in order.
	queue   map[string]*mover
	waiting []*mover
	// onDrop is called when a nomination is dropped, since too many wait: a reconcile is due then.
	// It takes no lock.
	onDrop func()

	// why is nil, or the error of the last read of all tables if that failed since a database is
	// away.
	why error
	// oldest is by shard since when what it has nominated waits, as of looked.
	oldest map[string]time.Time
	looked time.Time

	// duplicates counts the decisions about two rows of one key.
	duplicates atomic.Uint64
}

const (
	moversAtOnce = 200
	longestPause = 5 * time.Second
)

type mover struct {
	// name is the stored name.
	name   string
	shard  string
	entity []byte
	// by is the shard that has nominated it first, at since.
	by    string
	since time.Time
	state moverState
	done  chan struct{}
	// repeat says that it was nominated while it moved.
	repeat bool
	// attempts are those since the last success, until is before when it is not read again.
	attempts int
	until    time.Time
}

type moverState uint8

const (
	// isWaiting: in Movers.waiting.
	isWaiting moverState = iota
	// isClaimed: until nothing of it is claimed.
	isClaimed
	// isMoving: it is reserved, until its batch ends.
	isMoving
)

// NewMovers returns the queue of a view, which has no other one.
func NewMovers(v *View, opts MoversOptions) *Movers {
	opts.Bound = cmp.Or(opts.Bound, 10_000)
	opts.Pause = cmp.Or(opts.Pause, 20*time.Millisecond)
	if opts.Now == nil {
		opts.Now = time.Now
	}
	m := &Movers{view: v, opts: opts, wake: make(chan struct{}, 1), queue: make(map[string]*mover), onDrop: func() {}}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.movers = m
	return m
}

// dropped is what Nominate returns where the queue is full.
var dropped = func() <-chan struct{} {
	done := make(chan struct{})
	close(done)
	return done
}()

// Nominate adds an entity to the queue. It copies entity. shard is that of the row, or of the
// message. done is closed when the entity leaves the queue: the view has what was published for
// it.
func (m *Movers) Nominate(shard string, entity []byte) (done <-chan struct{}) {
	name := m.view.scope.append(nil, shard, entity)
	m.view.mu.Lock()
	defer m.view.mu.Unlock()
	if one := m.queue[string(name)]; one != nil {
		// Also before it moves: it may have been looked up already.
		one.repeat = one.repeat || one.state == isMoving || one.state == isClaimed
		return one.done
	}
	if len(m.queue) >= m.opts.Bound {
		m.onDrop()
		return dropped
	}
	one := &mover{name: string(name), entity: slices.Clone(entity), by: shard, since: m.opts.Now(), done: make(chan struct{})}
	if m.view.scope.byTable {
		one.shard = shard
	}
	m.queue[one.name] = one
	m.enqueue(one)
	return one.done
}

// enqueue has an entity read, once its pause is over. Its caller holds the lock.
func (m *Movers) enqueue(one *mover) {
	one.state = isWaiting
	m.waiting = append(m.waiting, one)
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// noteAway notes how a read of the table of shard ended, of all tables where it is empty, or what
// followed from that.
func (m *Movers) noteAway(shard string, err error) {
	if shard != "" {
		return
	}
	m.view.mu.Lock()
	defer m.view.mu.Unlock()
	if m.why = nil; errors.Is(err, ErrAway) {
		m.why = err
	}
}

// Waits returns since when the oldest of the entities that shard has nominated waits, as of up to a
// second ago, zero where none does; and the error that names the database that it waits for, if
// that is away. All shards together look through the queue once a second.
func (m *Movers) Waits(shard string) (since time.Time, why error) {
	m.view.mu.Lock()
	defer m.view.mu.Unlock()
	if now := m.opts.Now(); now.Sub(m.looked) >= time.Second {
		m.looked, m.oldest = now, make(map[string]time.Time)
		for _, one := range m.queue {
			if at, is := m.oldest[one.by]; !is || one.since.Before(at) {
				m.oldest[one.by] = one.since
			}
		}
	}
	if since = m.oldest[shard]; !since.IsZero() {
		why = m.why
	}
	return since, why
}

// Away returns the error that names a database, or a table, for which the whole queue waits; nil
// where none is away.
func (m *Movers) Away() error {
	m.view.mu.Lock()
	defer m.view.mu.Unlock()
	return m.why
}

// HasRoom reports whether half of the queue is free: who waits for what it nominates leaves the
// other half to those that do not, and so has no reconcile be due.
func (m *Movers) HasRoom() bool { return 2*m.Waiting() < m.opts.Bound }

// Waiting returns how many entities are in the queue.
func (m *Movers) Waiting() int {
	m.view.mu.Lock()
	defer m.view.mu.Unlock()
	return len(m.queue)
}

// Duplicates returns how often a key was found to have two rows.
func (m *Movers) Duplicates() uint64 { return m.duplicates.Load() }

// repeat says that it is to be read again, confirm once more. Its caller holds the lock.
func (m *Movers) ended(name string, repeat, confirm bool) {
	one := m.queue[name]
	switch {
	case one == nil, one.state != isMoving:
	case repeat:
		m.pause(one)
	case one.repeat, confirm:
		one.attempts = 0
		m.pause(one)
	default:
		delete(m.queue, name)
		close(one.done)
	}
}

// pause has an entity read later, so that what fails again and again does not spin. Its caller
// holds mu.
func (m *Movers) pause(one *mover) {
	d := min(m.opts.Pause<<min(one.attempts, 20), longestPause)
	one.attempts++
	one.repeat, one.until = false, m.opts.Now().Add(d)
	m.enqueue(one)
}

// next returns the entities to be read at once, and when the next pause ends; zero for none. Until
// they are reserved, View.free queues those again that are free.
func (m *Movers) next() (list []*mover, until time.Time) {
	m.view.mu.Lock()
	defer m.view.mu.Unlock()
	now := m.opts.Now()
	m.waiting = slices.DeleteFunc(m.waiting, func(one *mover) bool {
		switch {
		case one.until.After(now):
			if until.IsZero() || one.until.Before(until) {
				until = one.until
			}
			return false
		case len(list) == moversAtOnce || len(list) > 0 && one.shard != list[0].shard:
			return false
		}
		one.state, one.repeat = isClaimed, false
		list = append(list, one)
		return true
	})
	return list, until
}

// Run reads nominated entities and hands them to owners until ctx ends. It returns nil then. An
// error of Read, Publish or the store is passed to retried, and what it is about is tried again.
func (m *Movers) Run(ctx context.Context, retried func(error)) error {
	for {
		worked, until, err := m.Pass(ctx)
		if err != nil && ctx.Err() == nil && retried != nil {
			retried(err)
		}
		if worked && ctx.Err() == nil {
			continue
		}
		pause := time.Hour
		if !until.IsZero() {
			pause = until.Sub(m.opts.Now())
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-m.wake:
		case <-timer.C:
		}
		if timer.Stop(); ctx.Err() != nil {
			return nil
		}
	}
}

// Pass reads entities that wait, once, and hands on what follows. It reports whether there were
// any, and when the next pause ends; zero for none.
func (m *Movers) Pass(ctx context.Context) (worked bool, until time.Time, err error) {
	list, until := m.next()
	if len(list) == 0 {
		return false, until, nil
	}
	held, err := m.reserve(ctx, list)
	if err != nil {
		return true, until, err
	}
	moves, err := m.decide(ctx, held)
	for _, shard := range slices.Sorted(maps.Keys(moves)) {
		if failed := m.opts.Publish(ctx, shard, moves[shard]); failed != nil {
			for _, move := range moves[shard] {
				m.unreserve(move.name, move.number, true)
			}
			m.noteAway("", failed)
			err = failed
		}
	}
	return true, until, err
}

// decide reads reserved entities and returns the moves that follow, by shard. The others are free
// again.
func (m *Movers) decide(ctx context.Context, held []reserved) (moves map[string][]Move, err error) {
	moves = make(map[string][]Move)
	// Two rounds that find nothing prove an absence.
	for round := 0; len(held) > 0; round++ {
		entities := make([][]byte, len(held))
		for i := range held {
			entities[i] = held[i].entity
		}
		// They are of one shard where entities belong to it.
		reading, failed := m.opts.Read(ctx, held[0].shard, entities)
		m.noteAway(held[0].shard, failed)
		if failed != nil {
			for i := range held {
				m.unreserve(held[i].name, held[i].number, true)
			}
			return moves, failed
		}
		var rest []reserved
		for i := range held {
			one, found := &held[i], reading.Rows[i]
			what, row := choose(&one.entry, found, reading.Snapshot || round > 0)
			if len(found) > 1 {
				m.duplicates.Add(1)
				m.handle(one, found, row)
			}
			switch {
			case what == again && !reading.Unproved:
				rest = append(rest, *one)
			case what == publish:
				move := Move{Shard: found[row].Shard, Entity: one.entity, Row: found[row].Row, name: one.name, number: one.number}
				m.assign(&move, &found[row])
				moves[move.Shard] = append(moves[move.Shard], move)
			case what == absent && !reading.Unproved:
				move := Move{Shard: m.owner(one), Entity: one.entity, Absent: true, name: one.name, number: one.number}
				m.assign(&move, nil)
				moves[move.Shard] = append(moves[move.Shard], move)
			default:
				// Nothing is to be said, or a reconcile has to prove the absence.
				m.unreserve(one.name, one.number, false)
			}
		}
		held = rest
	}
	return moves, nil
}

// owner returns the shard that publishes an absence.
func (m *Movers) owner(one *reserved) string {
	if len(m.opts.Shards) > 0 && !slices.Contains(m.opts.Shards, one.entry.Shard) {
		return m.opts.Shards[0]
	}
	return one.entry.Shard
}
