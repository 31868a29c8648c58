package shard

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"

	"bridge/reconcile"
	"bridge/sink"
	"bridge/source"
)

var _ reconcile.Owner = (*Shard)(nil)

// errNotRunning is returned to those who nominate something while the shard is stopped or ends.
var errNotRunning = errors.New("the shard does not run")

// nomination is one call of Nominate on its way through the owner.
type nomination struct {
	reconcile.Nomination
	// letters are sent again; nil for a nomination of reconcile.
	letters []*resending
	// caller ends when nobody waits for the letters any more; nil for a nomination of reconcile, which the owner sees to in any case.
	caller  context.Context
	verdict reconcile.Verdict
	// open counts the batches that are not saved, and one more while the owner reads; saved is closed
	// at 0.
	open  atomic.Int64
	saved chan struct{}
}

// done notes that a batch of n is saved, or that the owner has read all that n names.
func (n *nomination) done() {
	if n.open.Add(-1) == 0 {
		close(n.saved)
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

// nominate hands n to the owner and waits until what it published for it is saved.
func (o *nominator) nominate(ctx context.Context, n *nomination) error {
	ended := o.ended.Load()
	if ended == nil {
		return errNotRunning
	}
	n.saved = make(chan struct{})
	n.open.Store(1)
	if n.letters == nil {
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

// Nominate implements reconcile.Owner.
func (s *Shard) Nominate(ctx context.Context, named reconcile.Nomination) (reconcile.Verdict, error) {
	n := &nomination{Nomination: named}
	if err := s.nominator.nominate(ctx, n); err != nil {
		return reconcile.Verdict{}, err
	}
	return n.verdict, nil
}

// Reach implements reconcile.Owner: what is published and saved.
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
	absence  *absence
	resender *resender
}

// handle reads what n names, publishes what differs and ends n once that is saved. After an error n
// does not end: its caller learns that the shard stopped.
func (o *nominations) handle(ctx context.Context, n *nomination, out chan<- *batch) error {
	if err := o.publish(ctx, n, out); err != nil {
		return err
	}
	o.status.unname(n)
	n.done()
	return nil
}

func (o *nominations) publish(ctx context.Context, n *nomination, out chan<- *batch) error {
	if n.letters != nil {
		return o.resender.resend(ctx, n.letters, n, out)
	}
	if n.Published {
		return o.rereader.published.confirm(ctx)
	}
	if err := o.rereader.rows(ctx, n.Rows, sink.FromReconcile, n, out); err != nil {
		return err
	}
	if o.rereader.view == nil {
		return nil
	}
	for part := range slices.Chunk(n.Entities, keysAtOnce) {
		if err := o.entities(ctx, part, n, out); err != nil {
			return err
		}
	}
	return nil
}

// keysAtOnce bounds the entities of one read by key.
const keysAtOnce = 200

// entities reads entities by key, byte for byte, and publishes what is true of them.
// Invariant 5: only what is not there is gone.
func (o *nominations) entities(ctx context.Context, entities [][]byte, n *nomination, out chan<- *batch) error {
	keys, err := keyValues(o.opts, entities)
	if err != nil {
		return err
	}
	cut := false
	q := source.Query{Keys: keys, Limit: o.opts.BatchRows, MaxBytes: o.opts.Limits.pageBytes()}
	err = o.rereader.publish(ctx, q, n, out, func(b *batch, page *page) error {
		if cut = page.More && len(entities) > 1; cut {
			// Which of them were not read is not known.
			return nil
		}
		decisions, err := o.rereader.addStates(ctx, b, page, sink.FromReconcile)
		if err != nil {
			return err
		}
		return o.addGone(ctx, b, page, withoutRow(entities, decisions))
	})
	if err != nil || !cut {
		return err
	}
	half := len(entities) / 2
	if err := o.entities(ctx, entities[:half], n, out); err != nil {
		return err
	}
	return o.entities(ctx, entities[half:], n, out)
}

// addGone adds to b what became of entities that page does not hold.
func (o *nominations) addGone(ctx context.Context, b *batch, page *page, entities [][]byte) error {
	if len(entities) == 0 {
		return nil
	}
	gone, elsewhere, err := o.absence.prove(ctx, b, page.Server, entities)
	if err != nil {
		return err
	}
	for i := range gone {
		one := &gone[i]
		_, moved := elsewhere[string(one.entity)]
		if err := o.rereader.builder.addGone(b, one, moved, page.Now); err != nil {
			return err
		}
	}
	return nil
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
