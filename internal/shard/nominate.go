package shard

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"bridge/checkpoint/store"
	"bridge/internal/view"
	"bridge/reconcile"
	"bridge/sink"
	"bridge/source"
	"bridge/source/ledger"
)

var _ reconcile.Owner = (*Shard)(nil)

// errNotRunning is returned to those who nominate something while the shard is stopped or ends.
var errNotRunning = errors.New("the shard does not run")

// nomination is one call of Nominate on its way through the owner.
type nomination struct {
	reconcile.Nomination
	// deadLetters are sent again, moves published; nil for a nomination of reconcile.
	deadLetters []*resending
	moves       []view.Move
	// compared is the number of a wish for a reconcile that was granted, 0 for none.
	compared uint64
	// caller ends when nobody waits for the dead letters any more; nil for a nomination of
	// reconcile, which the owner handles in any case.
	caller context.Context
	// open counts the batches that are not committed, the entities that Movers has, and one more
	// while the owner reads; saved is closed at 0.
	open  atomic.Int64
	saved chan struct{}
	// mu guards verdict.
	mu      sync.Mutex
	verdict reconcile.Verdict
}

// count adds to the verdict.
func (n *nomination) count(v reconcile.Verdict) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.verdict.Add(v)
}

// done notes that a batch of n is committed, that Movers has ended with its entities, or that the
// owner has read all that n names.
func (n *nomination) done() {
	if n.open.Add(-1) == 0 {
		close(n.saved)
	}
}

// move has Movers publish what is true of entities that another row may have (rule 29), and counts
// what that was. It does not wait; n does.
func (n *nomination) move(ctx context.Context, e *entities, keys [][]byte) error {
	if len(keys) == 0 {
		return nil
	}
	for i := range keys {
		keys[i] = slices.Clone(keys[i])
	}
	before, err := e.lookup(ctx, keys)
	if err != nil {
		return err
	}
	var waits []<-chan struct{}
	for _, key := range keys {
		waits = append(waits, e.opts.Movers.Nominate(e.opts.Name, key))
	}
	e.noteOverflow()
	n.open.Add(1)
	go func() {
		defer n.done()
		for _, done := range waits {
			select {
			case <-done:
			case <-ctx.Done():
				return
			}
		}
		after, err := e.opts.View.Lookup(ctx, e.opts.Name, keys, nil)
		if err != nil {
			// It is not counted, that is all.
			return
		}
		for i := range after {
			n.countMove(&before[i], &after[i])
		}
	}()
	return nil
}

// countMove counts what was published of an entity between two entries.
func (n *nomination) countMove(before, after *store.Entry) {
	lives := func(e *store.Entry) bool { return e.State == store.Live || e.State == store.Recorded }
	switch {
	case before.Event == after.Event && before.At == after.At:
	case !lives(after):
		n.count(reconcile.Verdict{Deleted: 1})
	case lives(before):
		n.count(reconcile.Verdict{Modified: 1})
	default:
		n.count(reconcile.Verdict{Added: 1})
	}
}

// cancelled reports whether the caller's context is done.
func (n *nomination) cancelled() bool { return n != nil && n.caller != nil && n.caller.Err() != nil }

// within returns a context that ends with ctx and with the caller's.
func (n *nomination) within(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	if n == nil || n.caller == nil {
		return ctx, cancel
	}
	stop := context.AfterFunc(n.caller, cancel)
	return ctx, func() { stop(); cancel() }
}

// nominator hands nominations to the owner of the attempt that runs. It is safe for concurrent use.
type nominator struct {
	status *tracker
	// nominated leads to the owner.
	nominated chan *nomination
	// ended is closed when the attempt that runs has ended, nil between two.
	ended atomic.Pointer[chan struct{}]
}

func newNominator(status *tracker) *nominator {
	return &nominator{status: status, nominated: make(chan *nomination)}
}

// begin notes that an attempt runs, until end is called.
func (o *nominator) begin() (end func()) {
	ended := make(chan struct{})
	o.ended.Store(&ended)
	return func() {
		o.ended.Store(nil)
		close(ended)
	}
}

// running reports whether an attempt runs.
func (o *nominator) running() bool { return o.ended.Load() != nil }

// nominate hands n to the owner and waits until what it published for it is committed.
func (o *nominator) nominate(ctx context.Context, n *nomination) error {
	ended := o.ended.Load()
	if ended == nil {
		return errNotRunning
	}
	n.begin()
	if n.deadLetters == nil && n.compared == 0 {
		o.status.name(n)
		defer o.status.unname(n)
	}
	select {
	case o.nominated <- n:
	case <-*ended:
		return errNotRunning
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case <-n.saved:
		// A cancelled nomination ends, too, and is not done.
		return context.Cause(ctx)
	case <-*ended:
		return errNotRunning
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// begin makes n ready for the owner.
func (n *nomination) begin() {
	n.saved = make(chan struct{})
	n.open.Store(1)
}

// offer hands n to the owner and does not wait for what it publishes.
func (o *nominator) offer(ctx context.Context, n *nomination) error {
	ended := o.ended.Load()
	if ended == nil {
		return errNotRunning
	}
	n.begin()
	limit := time.NewTimer(offerFor)
	defer limit.Stop()
	select {
	case o.nominated <- n:
		return nil
	case <-limit.C:
		return errBusy
	case <-*ended:
		return errNotRunning
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// offerFor is how long a shard may be busy before others of its stream have their turn.
const offerFor = time.Second

// errBusy is returned to those who offer something to a shard whose bus does not answer.
var errBusy = errors.New("the shard is busy")

// Nominate implements reconcile.Owner.
func (s *Shard) Nominate(ctx context.Context, named reconcile.Nomination) (reconcile.Verdict, error) {
	n := &nomination{Nomination: named}
	if err := s.nominator.nominate(ctx, n); err != nil {
		return reconcile.Verdict{}, err
	}
	return n.verdict, nil
}

// Publish hands moves to the owner, and does not wait for the bus. The error says that the shard
// does not run, or is busy: the moves are tried again later.
func (s *Shard) Publish(ctx context.Context, moves []view.Move) error {
	return s.nominator.offer(ctx, &nomination{moves: moves})
}

// ReconcileDue implements reconcile.Owner.
func (s *Shard) ReconcileDue() (wish uint64, due bool) { return s.opts.Feed.due(s.opts.Name) }

// Reconciled implements reconcile.Owner.
func (s *Shard) Reconciled(ctx context.Context, wish uint64) error {
	if wish == 0 {
		return nil
	}
	return s.nominator.nominate(ctx, &nomination{compared: wish})
}

// Reach implements reconcile.Owner: what is published and committed.
func (s *Shard) Reach() (uint64, bool) {
	status := s.Status()
	running := s.nominator.running() && (status.State == Running || status.State == Waiting)
	if running && s.server.noTail.Load() {
		return everyID, true
	}
	return status.Position, running
}

// nominations publishes what is true of nominated rows and entities. It belongs to the owner.
type nominations struct {
	opts     *Options
	status   *tracker
	rereader *rereader
	resender *resender
}

// handle reads what n names, publishes what differs and ends n once that is committed. After an
// error n does not end: its caller learns that the shard stopped.
func (o *nominations) handle(ctx context.Context, n *nomination, out chan<- *batch) error {
	if err := o.publish(ctx, n, out); err != nil {
		return err
	}
	o.status.unname(n)
	n.done()
	return nil
}

func (o *nominations) publish(ctx context.Context, n *nomination, out chan<- *batch) error {
	if err := o.rereader.reader.ready(ctx); err != nil {
		return err
	}
	switch {
	case n.deadLetters != nil:
		return o.resender.resend(ctx, n.deadLetters, n, out)
	case n.moves != nil:
		return o.move(ctx, n.moves, n, out)
	case n.compared > 0:
		return o.compared(ctx, n, out)
	case n.Published:
		return o.rereader.published.confirm(ctx)
	}
	if err := o.rereader.rows(ctx, n.Rows, sink.FromReconcile, n, out); err != nil {
		return err
	}
	if o.rereader.entities == nil {
		return nil
	}
	for part := range slices.Chunk(n.Entities, keysAtOnce) {
		if err := o.keys(ctx, part, n, out); err != nil {
			return err
		}
	}
	return nil
}

// compared hands on that a reconcile has compared the whole table.
func (o *nominations) compared(ctx context.Context, n *nomination, out chan<- *batch) error {
	b := o.rereader.builder.begin()
	b.compared = n.compared
	if err := o.rereader.gaps.advance(b, ledger.Age{Steady: o.rereader.gaps.at}); err != nil {
		b.discard(o.opts)
		return err
	}
	n.open.Add(1)
	b.saved = n.done
	return o.rereader.handOver(ctx, b, out)
}

// keysAtOnce bounds the entities of one read by key.
const keysAtOnce = 200

// keys reads entities by key, byte for byte, and publishes what is true of them. Those without a
// row go to Movers.
// Invariant 5: only what no table of the stream has is gone.
func (o *nominations) keys(ctx context.Context, keys [][]byte, n *nomination, out chan<- *batch) error {
	values, err := KeyValues(o.opts.Encoder, o.opts.Stream, keys)
	if err != nil {
		return err
	}
	cut := false
	q := source.Query{Keys: values, Limit: o.opts.BatchRows, MaxBytes: o.opts.Limits.pageBytes()}
	err = o.rereader.publish(ctx, q, n, out, func(b *batch, page *page) error {
		if cut = page.More && len(keys) > 1; cut {
			// Which of them were not read is not known.
			return nil
		}
		decisions, err := o.rereader.addStates(ctx, b, page, fromReconcile)
		if err != nil {
			return err
		}
		missing := withoutRow(keys, decisions)
		return n.move(ctx, o.rereader.entities, append(missing, nominatedOf(decisions)...))
	})
	if err != nil || !cut {
		return err
	}
	half := len(keys) / 2
	if err := o.keys(ctx, keys[:half], n, out); err != nil {
		return err
	}
	return o.keys(ctx, keys[half:], n, out)
}

// move publishes entities with the permission of the stream (rule 29). It reads them again, so the
// order of its reads is the order on the bus (invariant 3).
func (o *nominations) move(ctx context.Context, moves []view.Move, n *nomination, out chan<- *batch) error {
	keys := make([][]byte, len(moves))
	for i := range moves {
		keys[i] = moves[i].Entity
	}
	values, err := KeyValues(o.opts.Encoder, o.opts.Stream, keys)
	if err != nil {
		o.opts.Movers.Return(moves)
		return err
	}
	q := source.Query{Keys: values, Limit: max(o.opts.BatchRows, len(moves)), MaxBytes: o.opts.Limits.pageBytes()}
	if len(moves) == 1 {
		// Which of its rows has the entity is known by all of them alone.
		q.MaxBytes = 0
	}
	cut := false
	err = o.rereader.publish(ctx, q, n, out, func(b *batch, page *page) error {
		if cut = page.More && len(moves) > 1; cut {
			// Which of them were not read is not known.
			return nil
		}
		given := b.claims.Permit(moves)
		decisions, err := o.rereader.addStates(ctx, b, page, o.moved)
		if err != nil {
			return err
		}
		o.rereader.entities.nominate(decisions)
		// Of a move that has ended nothing is proved any more: Movers reads its key again.
		return o.addAbsences(ctx, b, page, given, decisions)
	})
	if err != nil || !cut {
		return err
	}
	half := len(moves) / 2
	if err := o.move(ctx, moves[:half], n, out); err != nil {
		return err
	}
	return o.move(ctx, moves[half:], n, out)
}

// moved returns the origin of a row that has a nominated entity. Only one that fills a gap is late:
// when the key is read, the entity may have a row that the tail has yet to reach. The position must
// not rise to either.
func (o *nominations) moved(id uint64) sink.Origin {
	if o.rereader.gaps.missing(id) {
		return sink.FromLate
	}
	return sink.FromReconcile
}

// addAbsences adds to b the absence of those of moves that no table had, and that have no row in
// page either.
func (o *nominations) addAbsences(ctx context.Context, b *batch, page *page, moves []view.Move, decisions []view.Decision) error {
	var gone [][]byte
	for i := range moves {
		if moves[i].Absent {
			gone = append(gone, moves[i].Entity)
		}
	}
	if gone = withoutRow(gone, decisions); len(gone) == 0 {
		return nil
	}
	absences, err := o.rereader.entities.absent(ctx, b, gone)
	if err != nil {
		return err
	}
	for i := range absences {
		if err := o.rereader.builder.addAbsence(b, &absences[i], page.Now); err != nil {
			return err
		}
	}
	return nil
}
