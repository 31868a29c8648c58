package shard

import (
	"context"
	"time"

	"example.org/bridge/sink"
	"example.org/bridge/source"
	"example.org/bridge/source/ledger"
)

// tail finds the rows behind the position that may be published, and the late ones below it. What
// has to wait it notes for the lag. It belongs to the owner.
type tail struct {
	opts   *Options
	reader *reader
	status *tracker
	gaps   *gaps

	// position is how far everything is handed over. opens says that the batch that was handed over
	// last opens gaps, of which the ledger knows once the store has it.
	position uint64
	opens    bool
	window   *ledger.Window
	// granted counts the rows of a poll that the rate lets pass; limited says that it keeps others
	// back, and shortened that less than a page was asked for.
	granted            int
	limited, shortened bool
	// lateLeft says that the present poll leaves late rows behind that it has read.
	lateLeft bool
	// lateBacklog are late rows that one read does not bring.
	lateBacklog lateBacklog
	// firstSeen dates rows without a CREATED.
	firstSeen ledger.FirstSeen
	// oldestLeft is since when the oldest row has existed that the present poll leaves behind, by
	// the host's clock.
	oldestLeft time.Time
	// left is what was shown last.
	left time.Time
	// rows and ids are used again and again: rows and ids of a page.
	rows []source.Row
	ids  []uint64
}

func (t *tail) query() source.Query {
	// Rows may count as published meanwhile.
	t.position = max(t.position, t.gaps.position())
	limit := t.opts.Rate.page(t.opts.BatchRows)
	t.granted, t.limited, t.shortened = 0, false, limit < t.opts.BatchRows
	return source.Query{After: t.position, Limit: limit, MaxBytes: t.opts.Limits.pageBytes()}
}

func (t *tail) withinRate(p *page, rows []source.Row) []source.Row {
	n := t.grant(len(rows), false)
	t.delayRest(p, rows, n)
	t.limited = t.limited || t.shortened && p.More
	return rows[:n]
}

func (t *tail) grant(n int, late bool) int {
	granted := t.opts.Rate.admit(n, late)
	t.granted += granted
	t.limited = t.limited || granted < n
	return granted
}

// returnRows takes back so many rows that the rate has let pass, which are read again.
func (t *tail) returnRows(n int) {
	n = min(n, t.granted)
	t.opts.Rate.put(n)
	t.granted -= n
}

// leave shows since when the oldest row has existed that waits: one that was left behind, or one of
// a batch that is to be handed over, zero for none.
func (t *tail) leave(batch time.Time) {
	t.left = earlier(t.oldestLeft, batch)
	t.status.leave(findTail, t.left)
}

// see takes note of what the page says about the table, and begins to count what stays behind.
func (t *tail) see(p *page) ledger.Age {
	t.oldestLeft = time.Time{}
	at := t.reader.age(p)
	t.window.See(p.MaxID, at.Steady)
	t.gaps.with(func(l *ledger.Ledger) { l.See(p.MaxID, at.Steady) })
	t.firstSeen.See(p.MaxID, p.got)
	return at
}

func (t *tail) holds() bool { return t.opts.GapPolicy == ledger.GapHold }

// inOrder reports whether rows wait for those before them: nothing but the bus tells in which order
// messages that are a column have happened.
func (t *tail) inOrder() bool { return t.opts.Format == sink.FormatPayload }

// blocks reports whether the rows of p have to wait, as late rows do that come before them.
func (t *tail) blocks(p, late *page) bool {
	return t.inOrder() && (t.lateLeft || t.lateBacklog.cut || len(late.rows()) > 0 && late.Columns != p.Columns)
}

// findLate looks for gaps and returns the page of the late rows that may be published, nil for
// none. The store has the batch before, so none of them is on its way.
func (t *tail) findLate(ctx context.Context, p *page, at ledger.Age) (late *page, err error) {
	if t.holds() {
		t.ids = t.ids[:0]
		for _, row := range p.Rows {
			t.ids = append(t.ids, row.ID)
		}
		t.gaps.with(func(l *ledger.Ledger) { l.Notice(t.ids, at.Steady) })
	}
	if late, err = t.probe(ctx, p, at); err != nil {
		return nil, err
	}
	if err := t.gaps.sweep(ctx, p.Server, at); err != nil {
		late.free()
		return nil, err
	}
	return late, nil
}

// withinReach returns the rows of the page that GapHold lets pass, behind findLate.
func (t *tail) withinReach(p *page, at ledger.Age) []source.Row {
	rows := t.stable(p, at)
	if len(rows) == 0 {
		return nil
	}
	var reach uint64
	t.gaps.with(func(l *ledger.Ledger) { reach = l.Reach(rows[len(rows)-1].ID, at.Steady) })
	all := rows
	for len(rows) > 0 && rows[len(rows)-1].ID > reach {
		rows = rows[:len(rows)-1]
	}
	t.delayRest(p, all, len(rows))
	return t.withinRate(p, rows)
}

// probe looks for hot gaps: it reads the committed rows that may fill them, and afterwards which
// ids exist at all, uncommitted rows included. An id may only be judged vacant by a read that came
// after the committed one. It returns the page of those that may be published, nil where none were
// read.
func (t *tail) probe(ctx context.Context, p *page, at ledger.Age) (late *page, err error) {
	var hot ledger.Probe
	t.gaps.with(func(l *ledger.Ledger) { hot = l.Hot(at.Steady) })
	t.lateBacklog.cut, t.lateLeft = false, false
	if len(hot.Rows) > 0 {
		q := source.Query{Ranges: hot.Rows, Limit: lateRows, MaxBytes: t.opts.Limits.pageBytes()}
		if late, err = t.reader.rows(ctx, q); err != nil {
			return nil, err
		}
		// They have been there since the first of them was read.
		late.seen = func(uint64) time.Time { return t.lateBacklog.first }
		t.gaps.with(func(l *ledger.Ledger) { t.keepStable(l, late, at) })
	}
	if len(hot.IDs) == 0 || !t.holds() && t.lateBacklog.skipsEvidence(time.Now(), t.opts.PollInterval) {
		return late, nil
	}
	evidence, err := t.gaps.evidence(ctx, p.Server, hot.IDs)
	if err != nil {
		late.free()
		return nil, err
	}
	asked, got := t.gaps.ids.asked, t.gaps.ids.got
	t.lateBacklog.judged, t.lateBacklog.cost = got, got.Sub(asked)
	t.gaps.with(func(l *ledger.Ledger) { t.gaps.unpolled(l.Observe(evidence)) })
	return late, nil
}

// keepStable keeps of the late page the rows that fill a gap and are old enough.
func (t *tail) keepStable(l *ledger.Ledger, late *page, at ledger.Age) {
	if n := len(late.Rows); late.More && n > 0 {
		t.lateBacklog.cut = true
		l.CutOff(late.Rows[n-1].ID)
	}
	kept := late.Rows[:0]
	for _, row := range late.Rows {
		if !l.Missing(row.ID) {
			continue
		}
		l.Appeared(row.ID)
		if t.lateLeft && t.inOrder() || !t.isStable(late, row, at) {
			l.Young(row.ID)
			t.delay(late, row)
			t.lateLeft = true
			continue
		}
		kept = append(kept, row)
	}
	n := t.grant(len(kept), true)
	t.lateLeft = t.lateLeft || n < len(kept)
	for _, row := range kept[n:] {
		l.Young(row.ID)
	}
	t.delayRest(late, kept, n)
	late.Rows = kept[:n]
}

// stable returns the rows of the page that are old enough. Young ones stay behind as gaps and stall
// nothing, save with GapHold and where rows are in order, where the first of them ends the page.
func (t *tail) stable(p *page, at ledger.Age) []source.Row {
	holds := t.holds() || t.inOrder()
	kept := t.rows[:0]
	for _, row := range p.Rows {
		if t.isStable(p, row, at) {
			kept = append(kept, row)
			continue
		}
		t.delay(p, row)
		if holds {
			break
		}
	}
	t.rows = kept
	return kept
}

// isStable reports whether the row of page is old enough. CREATED is read of those alone whose id
// was not seen long enough ago: of a backlog of none.
func (t *tail) isStable(page *page, row source.Row, at ledger.Age) bool {
	if t.window.Stable(row.ID, time.Time{}, 0, at) {
		return true
	}
	created, resolution := page.created(row)
	return t.window.Stable(row.ID, created, resolution, at)
}

// delay notes a row that stays behind unpublished, for the lag.
func (t *tail) delay(page *page, row source.Row) {
	t.oldestLeft = earlier(t.oldestLeft, page.bornAt(row))
}

// delayRest notes those rows that stay behind of which the first done are taken care of: the first
// of them, as the others are hardly older.
func (t *tail) delayRest(page *page, rows []source.Row, done int) {
	if done < len(rows) {
		t.delay(page, rows[done])
	}
}

// moreLate reports, at the end of a poll that published late rows, whether more of them are there
// to be read at once.
func (t *tail) moreLate(published bool, late *page) (more bool) {
	if published {
		t.gaps.with(func(l *ledger.Ledger) { more = t.lateBacklog.cut || l.Arriving() })
	}
	if b := &t.lateBacklog; !more {
		b.first = time.Time{}
	} else if b.first.IsZero() && late != nil {
		b.first = late.got
	}
	return more
}

// lateBacklog is the state of late rows that are more than one read brings, as when a large
// transaction commits: they are read one page after the other, without a pause, and each poll reads
// a page of the tail, too.
type lateBacklog struct {
	// cut says that a limit ended the last read of late rows.
	cut bool
	// first is when the first of them was read, zero while none are left for the next poll.
	first time.Time
	// judged is when the last evidence was read, cost how long that took.
	judged time.Time
	cost   time.Duration
}

// evidenceShare and evidenceWait bound how much of the time evidence takes while rows land, and how
// long it waits.
const (
	evidenceShare = 20
	evidenceWait  = 5 * time.Second
)

// skipsEvidence reports whether a poll may do without evidence: it would show up to evidenceIDs ids
// that the next reads bring anyway. Ids that are not judged stay as they are, so that it is safe to
// wait.
func (l *lateBacklog) skipsEvidence(now time.Time, interval time.Duration) bool {
	return !l.first.IsZero() && now.Sub(l.judged) < min(max(interval, evidenceShare*l.cost), evidenceWait)
}

// tellEvery is how often a long piece of work says in the log how far it has come.
const tellEvery = 10 * time.Second

// tailLog tells the log where a shard begins or resumes, that it has caught up, and how far a tail
// that lags has come. It has caught up first once all rows that the table had when it was first
// read to its end are saved. It belongs to the owner.
type tailLog struct {
	opts   *Options
	status *tracker
	server *server
	// begun is when the first attempt began, rows how many were published before.
	begun time.Time
	rows  uint64
	// last is the highest id when the table was first read to its end, known says that it was; done
	// that the store has all up to it.
	last        uint64
	known, done bool
	// since is when the tail fell behind, logged when the log was logged last, id its position
	// then.
	since, logged time.Time
	id            uint64
}

// begin notes an attempt that begins. resumes says that something was known of the shard.
func (p *tailLog) begin(position uint64, resumes bool) {
	if !p.begun.IsZero() {
		return
	}
	p.begun = time.Now()
	p.rows, _ = p.status.published()
	if !resumes {
		p.opts.Logger.Info("stream begins", "position", position)
		return
	}
	p.opts.Logger.Info("stream resumes", "position", position)
}

// note notes a position, and whether the tail is behind. Ids, unlike rows, need no count of the
// table.
func (p *tailLog) note(position uint64, behind bool) {
	if !behind {
		p.end(position)
		return
	}
	now := time.Now()
	if p.since.IsZero() {
		p.since, p.logged, p.id = now, now, position
		return
	}
	elapsed := now.Sub(p.logged)
	if elapsed < tellEvery || position <= p.id {
		return
	}
	highest := p.status.highest()
	rate := float64(position-p.id) / elapsed.Seconds()
	// Ids may jump so far that no Duration holds it.
	left := time.Duration(min(float64(highest-min(position, highest))/rate, 1e9) * float64(time.Second))
	p.opts.Logger.Info("catching up", "position", position, "of", highest, "ids_per_second", int(rate), "left", left.Round(time.Second))
	p.logged, p.id = now, position
}

// end notes that the tail is not behind: rows that are too young stay behind.
func (p *tailLog) end(position uint64) {
	highest := p.status.highest()
	if p.server.tailless() {
		highest = position
	}
	if !p.known {
		p.known, p.last = true, highest
	}
	if p.done && p.logged != p.since {
		p.opts.Logger.Info("caught up", "position", position, "after", time.Since(p.since).Round(time.Second))
	}
	if rows, saved := p.status.published(); !p.done && saved >= min(p.last, highest) {
		p.done = true
		p.opts.Logger.Info("caught up", "published", rows-p.rows, "position", saved, "after", time.Since(p.begun).Round(10*time.Millisecond))
	}
	p.since, p.logged, p.id = time.Time{}, time.Time{}, 0
}
