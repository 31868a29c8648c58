package shard

import (
	"context"
	"errors"
	"sync/atomic"

	"bridge/event"
	"bridge/internal/failpoint"
	"bridge/reconcile"
	"bridge/sink"
	"bridge/source"
)

var _ reconcile.Owner = (*Shard)(nil)

// errNotRunning is returned to whoever nominates something while the shard is stopped or ends.
var errNotRunning = errors.New("the shard does not run")

// nomination is one call of Nominate on its way through the owner.
type nomination struct {
	reconcile.Nomination
	// letters are sent again; nil for a nomination of reconcile.
	letters []*resending
	// asker ends when nobody waits for the letters any more; nil for a nomination of reconcile, which the owner sees to in any case.
	asker   context.Context
	verdict reconcile.Verdict
	// open counts the batches that are not saved, and one more while the owner reads.
	open    atomic.Int64
	settled chan struct{}
}

func (n *nomination) settle() {
	if n.open.Add(-1) == 0 {
		close(n.settled)
	}
}

// left reports whether whoever asked has left.
func (n *nomination) left() bool { return n != nil && n.asker != nil && n.asker.Err() != nil }

// within returns a context that ends with ctx and when whoever asked has left.
func (n *nomination) within(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	if n == nil || n.asker == nil {
		return ctx, cancel
	}
	stop := context.AfterFunc(n.asker, cancel)
	return ctx, func() { stop(); cancel() }
}

// lifetime is one attempt to run the shard.
type lifetime struct{ ended chan struct{} }

// Nominate implements reconcile.Owner.
func (s *Shard) Nominate(ctx context.Context, named reconcile.Nomination) (reconcile.Verdict, error) {
	n := &nomination{Nomination: named}
	if err := s.nominate(ctx, n); err != nil {
		return reconcile.Verdict{}, err
	}
	return n.verdict, nil
}

// nominate hands n to the owner and waits until what it published for it is saved.
func (s *Shard) nominate(ctx context.Context, n *nomination) error {
	life := s.life.Load()
	if life == nil {
		return errNotRunning
	}
	n.settled = make(chan struct{})
	n.open.Store(1)
	if n.letters == nil {
		s.status.name(n)
		defer s.status.unname(n)
	}
	select {
	case s.nominated <- n:
	case <-life.ended:
		return errNotRunning
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case <-n.settled:
		// What whoever asked has left is settled, too, and not done.
		return context.Cause(ctx)
	case <-life.ended:
		return errNotRunning
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Reach implements reconcile.Owner: what is published and saved.
func (s *Shard) Reach() (uint64, bool) {
	status := s.Status()
	running := s.life.Load() != nil && (status.State == Running || status.State == Waiting)
	if running && s.server.noTail.Load() {
		return everyID, true
	}
	return status.Position, running
}

// judge reads what n names, publishes what differs and has n settled once that is saved. After an error it is never settled: whoever
// nominated learns that the shard stopped.
func (s *Shard) judge(ctx context.Context, n *nomination, out chan<- *batch) error {
	if err := s.judgeAll(ctx, n, out); err != nil {
		return err
	}
	s.status.unname(n)
	n.settle()
	return nil
}

func (s *Shard) judgeAll(ctx context.Context, n *nomination, out chan<- *batch) error {
	if n.letters != nil {
		return s.sendAgain(ctx, n.letters, n, out)
	}
	if n.Published {
		return s.published.confirm(ctx)
	}
	if err := s.republish(ctx, n.Rows, sink.FromReconcile, n, out); err != nil {
		return err
	}
	if s.view == nil {
		return nil
	}
	for rest := n.Entities; len(rest) > 0; {
		part := rest[:min(len(rest), keysAtOnce)]
		rest = rest[len(part):]
		if err := s.judgeEntities(ctx, part, n, out); err != nil {
			return err
		}
	}
	return nil
}

// keysAtOnce bounds the entities of one read by key.
const keysAtOnce = 200

// republish reads the rows in ranges and publishes those that say something new.
func (s *Shard) republish(ctx context.Context, ranges []source.Range, origin sink.Origin, n *nomination, out chan<- *batch) error {
	for len(ranges) > 0 {
		q := source.Query{Ranges: ranges, Limit: s.opts.BatchRows, MaxBytes: s.opts.Limits.pageBytes()}
		err := s.reread(ctx, q, n, out, func(b *batch, page *page) error {
			ranges = nil
			if count := len(page.Rows); page.More && count > 0 {
				ranges = rangesBehind(q.Ranges, page.Rows[count-1].ID)
			}
			if n != nil && failpoint.Mutant(failpoint.StaleState) {
				s.mutantRestore(page)
			}
			return s.encodeAgain(ctx, b, page, origin)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// rangesBehind returns what of ranges lies behind the id last.
func rangesBehind(ranges []source.Range, last uint64) []source.Range {
	var rest []source.Range
	for _, r := range ranges {
		if r.Last > last {
			rest = append(rest, source.Range{First: max(r.First, last+1), Last: r.Last})
		}
	}
	return rest
}

// encodeAgain appends what the records of a page say that was not read by the tail.
func (s *Shard) encodeAgain(ctx context.Context, b *batch, page *page, origin sink.Origin) error {
	if s.view != nil {
		_, err := s.encodeStates(ctx, b, page, origin)
		return err
	}
	b.journal = true
	for _, record := range page.Rows {
		missed, err := s.unpublished(ctx, b, record.ID)
		if err != nil {
			return err
		}
		if !missed {
			// The tail has published it since it was nominated.
			continue
		}
		b.born(page, record)
		if _, err := s.builder.add(b, event.Row{Row: record, Read: page.Now}, origin); err != nil {
			return err
		}
		b.count(event.Published)
		b.filled = append(b.filled, record.ID)
	}
	return nil
}

// encodeStates appends what the records of a page say of their entities, and returns the decisions about them.
func (s *Shard) encodeStates(ctx context.Context, b *batch, page *page, origin sink.Origin) ([]decision, error) {
	decisions, err := s.view.decide(ctx, b, page.Rows)
	if err != nil {
		return nil, err
	}
	n, err := s.builder.addStates(b, page, page.Rows, decisions, origin)
	b.filled = appendIDs(b.filled, page.Rows[:n])
	if err != nil {
		return nil, err
	}
	for i, record := range page.Rows {
		if !s.ahead(record.ID) {
			// A row that the tail has yet to reach would shut out those before it.
			s.published.note(b, page.Columns, record, decisions[i].digest, decisions[i].entity)
		}
	}
	return decisions, nil
}

// judgeEntities reads entities by key, byte for byte, and publishes what is true of them. Invariant 5: only what is not there is gone.
func (s *Shard) judgeEntities(ctx context.Context, entities [][]byte, n *nomination, out chan<- *batch) error {
	keys, err := s.keyValues(entities)
	if err != nil {
		return err
	}
	cut := false
	q := source.Query{Keys: keys, Limit: s.opts.BatchRows, MaxBytes: s.opts.Limits.pageBytes()}
	err = s.reread(ctx, q, n, out, func(b *batch, page *page) error {
		if cut = page.More && len(entities) > 1; cut {
			// Which of them were not read is not known.
			return nil
		}
		decisions, err := s.encodeStates(ctx, b, page, sink.FromReconcile)
		if err != nil {
			return err
		}
		return s.encodeAbsent(ctx, b, page, withoutRow(entities, decisions))
	})
	if err != nil || !cut {
		return err
	}
	half := len(entities) / 2
	if err := s.judgeEntities(ctx, entities[:half], n, out); err != nil {
		return err
	}
	return s.judgeEntities(ctx, entities[half:], n, out)
}

// withoutRow returns those of entities that no decision is about.
func withoutRow(entities [][]byte, decisions []decision) (absent [][]byte) {
	there := make(map[string]struct{}, len(decisions))
	for i := range decisions {
		there[string(decisions[i].entity)] = struct{}{}
	}
	for _, entity := range entities {
		if _, ok := there[string(entity)]; !ok {
			absent = append(absent, entity)
		}
	}
	return absent
}

// encodeAbsent appends what became of entities that page does not hold.
func (s *Shard) encodeAbsent(ctx context.Context, b *batch, page *page, absent [][]byte) error {
	if len(absent) == 0 {
		return nil
	}
	decisions, elsewhere, err := s.proveAbsent(ctx, b, page, absent)
	if err != nil {
		return err
	}
	for i := range decisions {
		one := &decisions[i]
		_, moved := elsewhere[string(one.entity)]
		if err := s.builder.addGone(b, one, moved, page.Now); err != nil {
			return err
		}
	}
	return nil
}

// proveAbsent returns what is known of those of absent, which page does not hold, that the shard has no row of, and those that have one
// in another shard. Where absence is not judged there are none.
func (s *Shard) proveAbsent(ctx context.Context, b *batch, page *page, absent [][]byte) (decisions []decision, elsewhere map[string]struct{}, err error) {
	if err := s.server.meet(ctx, page.Server); err != nil || !s.server.traits.Writer || !s.server.knows(page.Server) {
		// A server that does not take the writes may be behind.
		return nil, nil, err
	}
	if elsewhere, err = s.elsewhere(ctx, absent); err != nil {
		return nil, nil, err
	}
	if absent, err = s.stillAbsent(ctx, absent); err != nil {
		return nil, nil, err
	}
	decisions, err = s.view.absent(ctx, b, absent)
	return decisions, elsewhere, err
}

// reread reads a page and hands on the batch that fill makes of it. A page that does not fit is read again.
func (s *Shard) reread(ctx context.Context, q source.Query, n *nomination, out chan<- *batch, fill func(*batch, *page) error) error {
	for {
		again, err := s.rereadOnce(ctx, q, n, out, fill)
		if err != nil || !again {
			return err
		}
	}
}

func (s *Shard) rereadOnce(ctx context.Context, q source.Query, n *nomination, out chan<- *batch, fill func(*batch, *page) error) (again bool, err error) {
	held, err := s.reader.reserve(ctx)
	if err != nil {
		return false, err
	}
	defer func() { s.opts.Limits.release(&held) }()
	page, err := s.readNamed(ctx, q, n)
	if err != nil {
		return false, err
	}
	defer func() { page.free() }()
	if err := s.reader.bind(page.Columns); err != nil {
		return false, err
	}
	at := s.reader.age(page)
	b := s.newBatch()
	if err := fill(b, page); err != nil {
		s.drop(b)
		return false, err
	}
	if !s.opts.Limits.settle(&held, b.size()) {
		s.drop(b)
		// Invariant 7: what is read again does not wait beside others.
		page.free()
		page = nil
		return true, s.reader.reserveBig(ctx, &held)
	}
	if err := s.pass(b, at); err != nil {
		s.drop(b)
		return false, err
	}
	b.held, held = held, hold{}
	if b.empty() {
		s.discard(b)
		return false, nil
	}
	if n != nil {
		n.verdict.Add(b.verdict)
		n.open.Add(1)
		b.settled = n.settle
	}
	return false, s.handOver(ctx, b, out)
}

// readNamed reads what was named. A row that cannot be read holds up the tail no longer than somebody waits for it.
func (s *Shard) readNamed(ctx context.Context, q source.Query, n *nomination) (*page, error) {
	reading, end := n.within(ctx)
	defer end()
	page, err := s.reader.rows(reading, q)
	if err != nil && n.left() && ctx.Err() == nil && !permanent(err) {
		return nil, errLeft
	}
	return page, err
}
