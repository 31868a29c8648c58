package shard

import (
	"cmp"
	"context"
	"errors"
	"time"

	"example.org/bridge/event"
	"example.org/bridge/sink"
	"example.org/bridge/source"
	"example.org/bridge/source/ledger"
)

// pageAge is how long a page may wait for the batch before. Where the bus is away for an hour its
// rows have changed, what it says of the table is history, and its share is wanted elsewhere.
const pageAge = 3 * time.Second

// errAged says that a page has waited for the batch before for so long that it is read again.
var errAged = errors.New("the page is too old")

// pollPage reads one page, hands on what is old enough of it and moves position behind that.
func (o *owner) pollPage(ctx context.Context) (more bool, err error) {
	var held hold
	// Also where what is below panics.
	defer func() { o.opts.Limits.release(&held) }()
	p, err := o.readTail(ctx, &held)
	if err != nil || p == nil {
		return false, err
	}
	b, at, more, bad, err := o.next(ctx, p, &held)
	if err != nil || b == nil {
		return more, err
	}
	// While nothing is published the changes of the ledger are committed now and then.
	if b.empty() && !(o.gaps.isOpen() && time.Since(o.gaps.handed) >= saveLedgerEvery) {
		o.tail.leave(time.Time{})
		b.discard(o.opts)
		return more, bad
	}
	// Until it is handed over what it holds waits, too.
	o.tail.leave(b.oldest)
	if err := o.gaps.advance(ctx, b, at); err != nil {
		b.discard(o.opts)
		return false, err
	}
	o.tail.opens = b.last > o.tail.position && b.last-o.tail.position > uint64(len(b.passed))
	o.tail.position = b.last
	o.tail.firstSeen.Pass(b.last)
	o.handOver(b, &held)
	o.tail.leave(time.Time{})
	return more, bad
}

// readTail returns the page behind position, and sets held to the share that it is to become a
// batch in. There is no page where the highest id shows nothing behind position and the poll has
// nothing else to do.
func (o *owner) readTail(ctx context.Context, held *hold) (p *page, err error) {
	q := o.tail.query()
	if o.pace.quiet() {
		if p, err = o.reader.head(ctx); err != nil {
			return nil, err
		}
	}
	if p != nil && p.MaxID > o.tail.position {
		p.free()
		p = nil
	}
	if p != nil && !o.gaps.isOpen() && !o.reader.oversize.big {
		// It takes note of the time, and no more.
		defer p.free()
		if ready, err := o.publishedRows.check(ctx, p, o.tail.position); err != nil || !ready {
			return nil, err
		}
		o.gaps.show(o.tail.see(p))
		o.tail.leave(time.Time{})
		return nil, nil
	}
	if *held, err = o.reader.reserve(ctx); err != nil {
		p.free()
		return nil, err
	}
	if p == nil {
		o.reader.share = held
		p, err = o.reader.page(ctx, q)
		if o.reader.share = nil; err != nil {
			return nil, err
		}
	}
	p.seen = o.tail.firstSeen.Since
	return p, nil
}

// next makes a batch of p, the page behind position, which it frees; at is when that was read. bad
// is why the batch ends early, for good. What needs the batch before, which is at the bus
// meanwhile, comes last: gaps are looked for, and entities decided about, once the store has it.
func (o *owner) next(ctx context.Context, p *page, held *hold) (b *batch, at ledger.Age, more bool, bad, err error) {
	var rows []source.Row
	var late *page
	free := func() {
		p.free()
		late.free()
		p, late = nil, nil
	}
	defer free()
	drop := func() {
		if b != nil {
			b.discard(o.opts)
			b = nil
		}
	}
	defer func() {
		if err != nil {
			drop()
		}
	}()
	// again drops what was made of p, which is read again.
	again := func() {
		drop()
		o.tail.returnRows(o.tail.granted)
		o.entities.forget()
		o.tail.delayRest(p, rows, 0)
		o.tail.delayRest(late, late.rows(), 0)
		o.tail.leave(time.Time{})
		free()
	}
	if err := o.server.meet(ctx, p.Server); err != nil {
		return nil, at, false, nil, err
	}
	ready, err := o.publishedRows.check(ctx, p, o.tail.position)
	if err != nil {
		return nil, at, false, nil, err
	}
	if !ready {
		// The lag counts from the first row of a page that is read again.
		o.tail.oldestLeft = time.Time{}
		o.tail.delayRest(p, p.Rows, 0)
		o.tail.leave(time.Time{})
		return nil, at, p.More, nil, nil
	}
	at = o.tail.see(p)
	// What the first poll finds was there before: it says nothing about how busy the table is.
	if len(p.Rows) > 0 && o.begun || o.status.hot() {
		o.pace.touch()
	}
	// Also gaps of the batch before: a late row comes before the rows of the page.
	looks := o.tail.holds() || o.tail.opens || o.gaps.isOpen()
	if !o.tail.holds() {
		rows = o.tail.withinRate(p, o.tail.stable(p, at))
		// What may be done while the batch before is at the bus.
		if o.entities == nil {
			b, bad = o.encodeTail(p, rows)
		} else if len(rows) > 0 {
			if err := o.entities.prepare(ctx, rows); err != nil {
				return nil, at, false, nil, err
			}
		}
	}
	if looks || o.entities != nil && len(rows) > 0 {
		// Those that the poll before has left wait still. Rows behind the first are hardly older.
		waits := o.tail.left
		if len(rows) > 0 {
			waits = earlier(waits, p.bornAt(rows[0]))
		}
		o.status.leave(findTail, waits)
		stored, err := o.pipe.waitFor(ctx, pageAge-time.Since(p.got))
		if err != nil {
			return b, at, false, nil, err
		}
		if !stored {
			again()
			o.opts.Limits.release(held)
			return nil, at, true, nil, cmp.Or(o.pipe.wait(ctx), errAged)
		}
	}
	if looks {
		if late, err = o.tail.findLate(ctx, p, at); err != nil {
			return b, at, false, nil, err
		}
	}
	switch {
	case looks && o.tail.blocks(p, late):
		if b != nil {
			drop()
			bad = nil
			o.tail.returnRows(len(rows))
		}
		o.tail.delayRest(p, p.Rows, 0)
		rows = nil
	case o.tail.holds():
		rows = o.tail.withinReach(p, at)
	}
	o.gaps.show(at)
	switch {
	case b != nil:
	case o.entities == nil:
		b, bad = o.encodeTail(p, rows)
	default:
		b, bad = o.encodeStates(ctx, p, rows, len(late.rows()) > 0)
	}
	if bad == nil && len(late.rows()) > 0 {
		bad = o.encodeLate(ctx, b, p, late)
	}
	if !o.opts.Limits.resize(held, b.size()) {
		// Invariant 7: what is read again does not wait beside others.
		again()
		return nil, at, true, nil, o.reader.reserveBig(ctx, held)
	}
	more = o.leaveRest(b, p, rows, late, bad != nil)
	return b, at, more && bad == nil, bad, nil
}

// leaveRest notes for the lag what b leaves of the rows and the late ones; cut: b ends early.
func (o *owner) leaveRest(b *batch, p *page, rows []source.Row, late *page, cut bool) (more bool) {
	if len(rows) > 0 && len(rows) == len(p.Rows) && p.More {
		more = true
		// What comes next is hardly older.
		o.tail.delayRest(p, rows, len(rows)-1)
	}
	if cut {
		o.tail.delayRest(p, rows, len(b.passed))
		o.tail.delayRest(late, late.rows(), len(b.filled))
	}
	if o.tail.moreLate(len(b.filled) > 0, late) {
		more = true
		// What comes next is hardly older.
		o.tail.delayRest(late, late.rows(), len(late.Rows)-1)
	}
	return more || o.tail.limited
}

// handOver gives b to the publisher, with what is held for it. No other batch is on its way.
func (o *owner) handOver(b *batch, held *hold) {
	b.oldestCreated = nil
	if n := len(b.messages); n > 0 {
		o.builder.eventBytes = len(b.buf) / n
	}
	o.status.hand(time.Now(), b.oldest)
	// Invariant 1: what changes of the list is saved once b is acknowledged.
	o.publishedRows.log.Add(b.rows)
	b.brings.Parts = append(b.brings.Parts, o.publishedRows.log.Changed()...)
	o.reader.schemas.hand(b)
	b.held, *held = *held, hold{}
	o.pipe.send(b)
}

// encodeTail makes a batch of the rows of the page, which are those of a release stream.
// Invariant 3: the order of the reads is the order on the bus. Where a row cannot be encoded the
// batch ends before it and the error says why.
func (o *owner) encodeTail(p *page, rows []source.Row) (*batch, error) {
	b := o.builder.begin(p)
	o.builder.makeRoom(b, len(rows))
	for i, row := range rows {
		if o.gaps.ahead(row.ID) {
			b.pass(row.ID)
			continue
		}
		newest := len(rows)-i <= o.publishedRows.log.Limit()
		if row.Filtered {
			if err := o.passUnmatched(b, p, row, newest); err != nil {
				return b, err
			}
			continue
		}
		b.born(p, row)
		e, err := o.builder.add(b, event.Row{Row: row, Read: p.Now}, sink.FromTail)
		if err != nil {
			return b, err
		}
		b.pass(row.ID)
		if newest {
			o.publishedRows.note(b, p.Columns, row, e.Digest, nil)
		}
	}
	return b, nil
}

// passUnmatched takes care of a row of a release stream that does not match its condition. It is no
// event, but that its id is used again has to be noticed like that of another row.
func (o *owner) passUnmatched(b *batch, p *page, row source.Row, newest bool) error {
	b.pass(row.ID)
	if !newest {
		return nil
	}
	digest, err := o.opts.Encoder.Digest(row)
	if err == nil {
		o.publishedRows.note(b, p.Columns, row, digest.Sum, nil)
	}
	return err
}

// encodeStates is encodeTail for a capability stream. Rows that are nominated are missing from then
// on (rule 26). more says that late ones follow, which were read after the page.
func (o *owner) encodeStates(ctx context.Context, p *page, rows []source.Row, more bool) (*batch, error) {
	b := o.builder.begin(p)
	if len(rows) == 0 && !more {
		return b, nil
	}
	o.entities.begin(b)
	o.changes.noteTail(p, rows)
	decisions, err := o.entities.decide(ctx, b, rows)
	if err != nil {
		return b, err
	}
	n, err := o.builder.addStates(b, p, rows, decisions, always(sink.FromTail))
	o.entities.nominate(decisions[:n])
	b.passed = handled(b.passed, rows[:n], decisions)
	if n > 0 {
		b.through = rows[n-1].ID
	}
	first := max(0, n-o.publishedRows.log.Limit())
	for i, row := range rows[first:n] {
		one := &decisions[first+i]
		o.publishedRows.note(b, p.Columns, row, one.Digest, one.Entity)
	}
	return b, err
}

// encodeLate adds late rows to b. Those of a release stream come before those of the page, which
// was read first: a row of the page that was committed behind a late one follows it.
func (o *owner) encodeLate(ctx context.Context, b *batch, p, late *page) error {
	if late.Columns != p.Columns {
		// Altered between the two reads: the gaps stay, the next poll reads them again.
		o.tail.delayRest(late, late.rows(), 0)
		return nil
	}
	// The late page may have been read long after the other, when the source was away in between:
	// its ages are others.
	b.oldestCreated = nil
	if o.entities != nil {
		decisions, err := o.entities.decide(ctx, b, late.Rows)
		if err != nil {
			return err
		}
		n, err := o.builder.addStates(b, late, late.Rows, decisions, always(sink.FromLate))
		o.entities.nominate(decisions[:n])
		b.filled = handled(b.filled, late.Rows[:n], decisions)
		return err
	}
	tail := len(b.messages)
	defer func() { b.rotate(tail) }()
	for _, row := range late.Rows {
		if err := o.builder.fill(b, late, row, sink.FromLate); err != nil {
			return err
		}
	}
	return nil
}
