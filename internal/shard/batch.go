package shard

import (
	"bytes"
	"sync"
	"time"

	"bridge/checkpoint"
	"bridge/event"
	"bridge/internal/published"
	"bridge/reconcile"
	"bridge/sink"
	"bridge/source"
	"bridge/source/ledger"
)

// batch is what one page became: messages in the order of their reads, and what holds once the bus
// has acknowledged them.
type batch struct {
	messages []sink.Message
	buf      []byte
	// passed and filled are the ids of the rows that the batch takes care of, from the tail and from
	// elsewhere.
	passed, filled []uint64
	// changes are the new entries of the view, their entities in keys; the view has taken in noted.
	changes []checkpoint.Change
	keys    []byte
	noted   int
	// rows are those that the list of rows published last is to take in.
	rows []published.Row
	// verdict counts what the batch says, by kind; saved, when not nil, is called once all of it is.
	verdict reconcile.Verdict
	saved   func()
	// again, when not nil, is the dead letter that the batch sends again.
	again *resending
	// held is what is reserved for the batch.
	held hold

	batchTimes
	batchState
	batchJournal
}

// batchTimes are the times of a batch and of its rows.
type batchTimes struct {
	// made is when the batch was made, by the host's clock.
	made time.Time
	// oldest is the host's time at which the oldest record had the age zero.
	oldest time.Time
	// oldestCreated is its CREATED, in the memory of the page that is being encoded; nil when it has none, and once the page is done.
	oldestCreated []byte
	// readAt is set when a message of the tail carries the database's clock as its time, readThrough is the last such row:
	// both must be saved before the publish.
	readAt      time.Time
	readThrough uint64
	// lateClock says that a late record has no time of its own: when its id was first missed must be saved before the publish.
	lateClock bool
}

// batchState is what is saved once a batch is acknowledged.
type batchState struct {
	// last is the position that holds once all messages are acknowledged; ledger holds the parts of the gap ledger that
	// are saved with it, all or none, and gaps the lowest of them for people.
	last   uint64
	ledger []ledger.Chunk
	gaps   []ledger.Gap
	// ledgerCall numbers the changes of the ledger that are saved with the batch, 0 where there are none.
	ledgerCall uint64
	// published are the parts of the list of rows published last that have changed.
	published []ledger.Chunk
	// seq numbers the batches that have changes of the view.
	seq uint64
	// found are ids that an earlier version gave up and that the batch publishes.
	found []source.Range
	// cursor is the position of the second cursor, zero where there is none.
	cursor source.Cursor
}

// batchJournal is how a batch is sent again after a crash.
type batchJournal struct {
	// journal says that the messages are saved before they are published, and sent again as they stand after a crash; number is that of
	// the journal, 0 where there is none, and after the state that holds once the batch is acknowledged.
	journal bool
	number  uint64
	after   *checkpoint.State
	// acked, when not nil, is closed once the batch is acknowledged: it has no journal, since it has no messages.
	acked chan struct{}
}

const (
	messageBytes = 256
	changeBytes  = 160
	keysBytes    = 4 << 10
	keepBuf      = 4 << 20
	// roomDivisor is the part by which events may be larger than those before.
	roomDivisor = 16
)

var batches = sync.Pool{New: func() any { return new(batch) }}

// size is the memory that the batch needs.
func (b *batch) size() int64 {
	return int64(len(b.buf)) + int64(len(b.keys)) + int64(len(b.messages))*messageBytes + int64(len(b.changes))*changeBytes
}

// empty reports whether the batch has nothing to publish or to save.
func (b *batch) empty() bool {
	return len(b.messages) == 0 && len(b.ledger) == 0 && len(b.changes) == 0 && len(b.found) == 0
}

// change adds a new entry of the view.
func (b *batch) change(entity []byte, known checkpoint.Known) {
	b.changes = append(b.changes, checkpoint.Change{Entity: b.keep(entity), Known: known})
}

// keep copies entity into memory that lives as long as the changes do, which is longer than the batch.
func (b *batch) keep(entity []byte) []byte {
	if cap(b.keys)-len(b.keys) < len(entity) {
		// The entities before keep their part of the former array.
		b.keys = make([]byte, 0, max(2*cap(b.keys), len(entity), keysBytes))
	}
	start := len(b.keys)
	b.keys = append(b.keys, entity...)
	return b.keys[start:len(b.keys):len(b.keys)]
}

// entityOf returns the entity that the event with this id is about, nil where the batch does not tell.
func (b *batch) entityOf(id string) []byte {
	event, err := event.ParseID(id)
	if err != nil {
		return nil
	}
	for i := range b.changes {
		if b.changes[i].Known.Event == event {
			return b.changes[i].Entity
		}
	}
	if b.again != nil {
		return b.again.letter.Entity
	}
	return nil
}

// undo takes back what was added behind the first n messages, which end at the length size of the buffer.
func (b *batch) undo(n, size int) {
	clear(b.messages[n:])
	b.messages, b.buf = b.messages[:n], b.buf[:size]
}

// count notes an event of the batch.
func (b *batch) count(op event.Op) {
	switch op {
	case event.Added:
		b.verdict.Added++
	case event.Modified:
		b.verdict.Modified++
	case event.Deleted:
		b.verdict.Deleted++
	default:
		b.verdict.Missed++
	}
}

// recycle gives the batch's memory back. Nothing may refer to its messages any more.
func (b *batch) recycle() {
	buf, messages, rows, passed, filled := b.buf[:0], b.messages, b.rows[:0], b.passed[:0], b.filled[:0]
	clear(messages)
	if cap(buf) > keepBuf {
		buf = nil
	}
	*b = batch{buf: buf, messages: messages[:0], rows: rows, passed: passed, filled: filled}
	batches.Put(b)
}

// born notes the host's time at which a record of page had the age zero, if it is the oldest of the batch. CREATED in its normal form
// orders as the moments do, so that it is read as a time of the oldest alone. For the lag it is good enough that an hour which the zone's
// clock shows twice or skips has another order, and that what is no time and sorts behind the oldest is taken for younger.
func (b *batch) born(page *page, record source.Row) {
	i := page.Columns.Created
	if i >= 0 && b.oldestCreated != nil && bytes.Compare(record.Values[i], b.oldestCreated) >= 0 {
		return
	}
	at := page.bornAt(record)
	if !b.oldest.IsZero() && !at.Before(b.oldest) {
		return
	}
	b.oldest, b.oldestCreated = at, nil
	if created, _ := page.created(record); !created.IsZero() {
		b.oldestCreated = record.Values[i]
	}
}

// discard gives back all that a batch holds that is not published.
func (b *batch) discard(limits *StreamLimits) {
	limits.release(&b.held)
	b.recycle()
}
