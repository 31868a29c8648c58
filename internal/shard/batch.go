package shard

import (
	"bytes"
	"maps"
	"slices"
	"sync"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/event"
	"example.org/bridge/internal/published"
	"example.org/bridge/internal/stream"
	"example.org/bridge/reconcile"
	"example.org/bridge/sink"
	"example.org/bridge/source"
)

// batch is what one page became: messages in the order of their reads, and what holds once the bus
// has acknowledged them.
type batch struct {
	messages []sink.Message
	buf      []byte
	// bares are what headers say of events whose values are rows alone, or columns, and headers the
	// rows' own of these.
	bares   []sink.Bare
	headers []sink.Header
	// unfit says by index why messages are not sent: dead letters are, instead. Nil: none.
	unfit map[int]string
	// repairs are the indices of messages that need an id of their own on the bus (rule 23).
	repairs []int
	// claims are the entities of a capability shard that the batch changes, else nil.
	claims *stream.Claims
	// through is the highest row that the tail has read for the batch; passed and filled are the
	// ids of the rows that it takes care of, from the tail and from elsewhere.
	through        uint64
	passed, filled []uint64
	// skipped counts the rows of filled that are no event.
	skipped int
	// brings is what the batch brings besides its messages, once it is handed over.
	brings stream.Read
	// last is the position that holds then.
	last uint64
	// floor, since and low are what the messages say of the shard (rules 16, 27 and 28).
	floor, since, low uint64
	// server says where its rows were read.
	server string
	// rows are those that the list of rows published last is to take in.
	rows []published.Row
	// verdict counts what the batch says, by kind.
	verdict reconcile.Verdict
	// compared is the number of the demand for a reconcile that the batch grants, 0 for none.
	compared uint64
	// republished is what it does of a request to publish again, nil for none.
	republished *stream.Republished
	// schema, when not nil, is what its messages look like, and those before did not.
	schema *store.Schema
	// again are the dead letters whose rows and entities it has events of.
	again []*resending
	// held is what is reserved for the batch.
	held hold

	batchTimes
}

type batchTimes struct {
	// made is when the batch was made, by the host's clock.
	made time.Time
	// read is when the page of the batch was read, zero where it has none.
	read span
	// oldest is the host's time at which the oldest row had the age zero.
	oldest time.Time
	// oldestCreated is its CREATED, in the memory of the page that is being encoded; nil when it
	// has none, and once the page is done.
	oldestCreated []byte
}

const (
	messageBytes = 384
	claimBytes   = 200
	keepBuf      = 4 << 20
	// roomDivisor is the part by which events may be larger than those before.
	roomDivisor = 16
)

var batches = sync.Pool{New: func() any { return new(batch) }}

func (b *batch) size() int64 {
	n := int64(len(b.buf)) + int64(len(b.messages))*messageBytes
	if b.claims != nil {
		n += int64(b.claims.Len()) * claimBytes
	}
	return n
}

func (b *batch) empty() bool {
	return len(b.messages)+len(b.passed)+len(b.filled) == 0 && b.through == 0 && b.compared == 0 && b.republished == nil && (b.claims == nil || b.claims.Empty())
}

// pass notes that the tail has read a row, which is taken care of.
func (b *batch) pass(id uint64) { b.passed, b.through = append(b.passed, id), id }

// undo takes back what was added behind the first n messages, which end at the length size of the
// buffer.
func (b *batch) undo(n, size int) {
	clear(b.messages[n:])
	b.messages, b.buf = b.messages[:n], b.buf[:size]
	maps.DeleteFunc(b.unfit, func(i int, _ string) bool { return i >= n })
}

// rotate puts the messages behind the first n before these.
func (b *batch) rotate(n int) {
	moved := slices.Clone(b.messages[n:])
	copy(b.messages[len(moved):], b.messages[:n])
	copy(b.messages, moved)
	unfit := b.unfit
	b.unfit = nil
	for i, why := range unfit {
		if i += len(moved); i >= len(b.messages) {
			i -= len(b.messages)
		}
		b.refuse(i, why)
	}
}

func (b *batch) refuse(i int, why string) {
	if b.unfit == nil {
		b.unfit = make(map[int]string)
	}
	b.unfit[i] = why
}

// bare has the headers of the last message, an event, say what its value does not.
func (b *batch) bare(e *event.Event, read time.Time, previous string) {
	at := e.Time
	if e.FromClock {
		at = read
	}
	start := len(b.headers)
	for _, h := range e.Headers {
		b.headers = append(b.headers, sink.Header(h))
	}
	b.bares = append(b.bares, sink.Bare{Time: at.UnixMilli(), Previous: previous, Reason: e.Reason, Content: e.Content, Headers: b.headers[start:len(b.headers):len(b.headers)]})
	b.messages[len(b.messages)-1].Bare = &b.bares[len(b.bares)-1]
}

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

// Nothing may refer to the batch's messages any more.
func (b *batch) recycle() {
	buf, messages, bares, headers, repairs := b.buf[:0], b.messages, b.bares[:0], b.headers[:0], b.repairs[:0]
	rows, passed, filled := b.rows[:0], b.passed[:0], b.filled[:0]
	// What they refer to may be large.
	clear(messages)
	clear(b.bares)
	clear(b.headers)
	if cap(buf) > keepBuf {
		buf = nil
	}
	*b = batch{buf: buf, messages: messages[:0], bares: bares, headers: headers, repairs: repairs, rows: rows, passed: passed, filled: filled}
	batches.Put(b)
}

// born notes the host's time at which a row of page had the age zero, if it is the oldest of the
// batch. CREATED in its normal form orders as the moments do, so that it is read as a time of the
// oldest alone. For the lag it is good enough that an hour which the zone's clock shows twice or
// skips has another order, and that what is no time and sorts behind the oldest is taken for
// younger.
func (b *batch) born(page *page, row source.Row) {
	i := page.Columns.Created
	if i >= 0 && b.oldestCreated != nil && bytes.Compare(row.Values[i], b.oldestCreated) >= 0 {
		return
	}
	at := page.bornAt(row)
	if !b.oldest.IsZero() && !at.Before(b.oldest) {
		return
	}
	b.oldest, b.oldestCreated = at, nil
	if created, _ := page.created(row); !created.IsZero() {
		b.oldestCreated = row.Values[i]
	}
}

func (b *batch) discard(opts *Options) {
	if b.claims != nil {
		opts.View.Release(b.claims)
	}
	b.recycle()
}
