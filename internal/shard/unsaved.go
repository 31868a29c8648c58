package shard

import (
	"sync"
	"time"

	"bridge/checkpoint"
	"bridge/sink"
	"bridge/source"
	"bridge/source/ledger"
)

// unsaved is what the bus has acknowledged and the saver has yet to save. It is safe for concurrent
// use.
type unsaved struct {
	// patient says that a save may wait for the next journal where nobody waits for it.
	patient bool
	// saved is called when the ledger and the view of a batch are durable, with their numbers; 0 for
	// those that have not changed.
	saved func(ledger, view uint64)

	mu sync.Mutex
	// reached is the state behind the last batch that was acknowledged, sent the number of the last
	// journal that was, tps how far the topic-partitions are covered.
	reached front
	sent    uint64
	offsets *offsets
	tps     map[string]sink.Offset
	// state holds what was acknowledged, nil for nothing; done is called when it is durable, awaited
	// says that somebody waits for that.
	state   *checkpoint.State
	done    []func()
	awaited bool
}

// newUnsaved returns nothing that is unsaved, behind a state that is saved.
func newUnsaved(state *checkpoint.State, o *offsets) *unsaved {
	return &unsaved{reached: frontOf(state), offsets: o, tps: byTP(state.Offsets)}
}

// front is how far a shard has come, as it is saved.
type front struct {
	position ledger.Position
	cursor   source.Cursor
	// taken is when the ledger that is saved last was as it is saved: by it the ages of gaps go on
	// after a restart.
	taken time.Time
}

func frontOf(state *checkpoint.State) front {
	return front{position: state.Position, cursor: state.Cursor, taken: state.Saved}
}

// after is the state that holds once b is acknowledged behind f, without what was there before b.
func (f front) after(b *batch) checkpoint.State {
	state := checkpoint.State{Position: f.position, Ledger: b.ledger, Saved: f.taken, View: b.changes, Found: b.found, Cursor: f.cursor}
	state.Position.ID, state.Published = b.last, b.published
	if len(b.ledger) > 0 {
		state.Position.Gaps, state.Saved = b.gaps, b.made
	}
	if b.cursor != (source.Cursor{}) {
		state.Cursor = b.cursor
	}
	return state
}

// after is the state that holds once b is acknowledged, without what was there before b.
func (u *unsaved) after(b *batch) checkpoint.State {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.behind(b)
}

// behind is after for a caller that holds mu.
func (u *unsaved) behind(b *batch) checkpoint.State {
	if b.after != nil {
		return *b.after
	}
	return u.reached.after(b)
}

// acknowledge notes that b is on the bus, with the fresh offsets of its messages.
func (u *unsaved) acknowledge(b *batch, fresh []sink.Offset) {
	u.mu.Lock()
	defer u.mu.Unlock()
	state := u.behind(b)
	reached := frontOf(&state)
	if u.state != nil {
		state = checkpoint.MergeStates(*u.state, state)
	}
	u.offsets.advance(u.tps, fresh)
	// Invariant 1: the position moves over what is acknowledged, and over nothing else. Nothing from
	// here on can fail, so that a journal that is saved after a panic above finds all of it or nothing.
	u.reached, u.state = reached, &state
	u.sent = max(u.sent, b.number)
	if b.acked != nil {
		close(b.acked)
	}
	if b.saved != nil {
		u.done, u.awaited = append(u.done, b.saved), true
	}
	if call, seq := b.ledgerCall, b.seq; call > 0 || seq > 0 {
		u.done = append(u.done, func() { u.saved(call, seq) })
	}
}

// advance has the offsets of what was acknowledged of a batch be saved, though the batch was not as
// a whole. Those of a batch go with the batch: in a copy of the file what lies before them must not
// be in a journal.
func (u *unsaved) advance(fresh []sink.Offset) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.offsets.advance(u.tps, fresh)
}

// advanceReading notes the clock that stands for the times of the rows of b, and reports whether that is to
// be saved first.
func (u *unsaved) advanceReading(b *batch) (fresh bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	r := u.reached.position.Reading
	if b.readAt.IsZero() || r.Through >= b.readThrough && r.At.Equal(b.readAt) {
		return false
	}
	u.reached.position.Reading = ledger.Reading{Through: b.readThrough, At: b.readAt}
	return true
}

// empty reports whether nothing was acknowledged since the last request.
func (u *unsaved) empty() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.state == nil
}

// request returns a save of all that is not requested yet.
func (u *unsaved) request(journal *checkpoint.Journal) save {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.reached.position.Reading.Through <= u.reached.position.ID {
		u.reached.position.Reading = ledger.Reading{}
	}
	request := save{done: u.done, patient: u.patient && !u.awaited}
	if u.state != nil {
		request.state = *u.state
	}
	request.state.Position, request.state.Cursor, request.state.Saved = u.reached.position, u.reached.cursor, u.reached.taken
	request.state.Offsets = sorted(u.tps)
	// The journals of what is acknowledged go with the save of it.
	request.state.Keep = u.sent + 1
	if journal != nil {
		request.state.Journals = []*checkpoint.Journal{journal}
	}
	u.state, u.done, u.awaited = nil, nil, false
	return request
}
