package shard

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/internal/stream"
	"example.org/bridge/reconcile"
)

var _ reconcile.Owner = (*Shard)(nil)

var errNotRunning = errors.New("the shard does not run")

// nomination is one call of Nominate on its way through the owner.
type nomination struct {
	reconcile.Nomination
	// deadLetters are sent again, moves are published; both are nil for a nomination of reconcile.
	// What is made for a dry one is not published.
	deadLetters []*resending
	dry         bool
	moves       []stream.Move
	// compared is the number of a demand for a reconcile that was granted, 0 for none.
	compared uint64
	// ctx ends when nobody waits for n any more, nil where nobody ever does.
	ctx context.Context
	// open counts the lists of entities that Movers has, and one more until all that the owner has
	// handed over is committed; saved is closed at 0.
	open atomic.Int64
	// left says that Movers goes on with some when nobody waits, since a database is away.
	left  atomic.Bool
	saved chan struct{}
	// mu guards verdict.
	mu      sync.Mutex
	verdict reconcile.Verdict
}

func (n *nomination) count(v reconcile.Verdict) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.verdict.Add(v)
}

// done notes that Movers has ended with entities of n, or that the owner's batches are committed.
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
	n.open.Add(1)
	go func() {
		defer n.done()
		began, look := time.Now(), time.NewTicker(lookAgain)
		defer look.Stop()
		var waits []<-chan struct{}
		for left := keys; len(left)+len(waits) > 0; {
			for len(left) > 0 && e.opts.Movers.HasRoom() {
				waits, left = append(waits, e.opts.Movers.Nominate(e.opts.Name, left[0])), left[1:]
			}
			var first <-chan struct{}
			if len(waits) > 0 {
				first = waits[0]
			}
			select {
			case <-first:
				waits = waits[1:]
			case <-look.C:
				// Also where those that others have nominated leave no room.
				if e.opts.Movers.Away() != nil && time.Since(began) >= reconcile.AwayLimit {
					n.left.Store(true)
					return
				}
			case <-n.ctx.Done():
				return
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

// lookAgain is how often who waits for Movers looks for room in the queue, and for a database that
// is away.
const lookAgain = 20 * time.Millisecond

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

// cancelled reports whether nobody waits for n any more.
func (n *nomination) cancelled() bool { return n != nil && n.ctx != nil && n.ctx.Err() != nil }

// nominator hands nominations to the owner of the attempt that runs. It is safe for concurrent use.
type nominator struct {
	// nominated leads to the owner.
	nominated chan *nomination
	// ended is closed when the attempt that runs has ended, nil between two.
	ended atomic.Pointer[chan struct{}]
	// calls counts those who have something for the owner, or wait for what it does with it; wake
	// is called behind that, and has an idle shard go on.
	calls atomic.Int64
	wake  func()
}

// call notes that somebody needs the owner, until done is called.
func (o *nominator) call() (done func()) {
	o.calls.Add(1)
	o.wake()
	return func() { o.calls.Add(-1) }
}

// nominate hands n to the owner and waits until what it published for it is committed.
func (o *nominator) nominate(ctx context.Context, n *nomination) error {
	defer o.call()()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	n.ctx = ctx
	ended, err := o.handOver(ctx, n, nil)
	if err != nil {
		return err
	}
	select {
	case <-n.saved:
		// A cancelled nomination ends, too, and is not done.
		return context.Cause(ctx)
	case <-ended:
		return errNotRunning
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// handOver hands n to the owner of the attempt that runs, until a limit. ended is closed when that
// attempt has ended.
func (o *nominator) handOver(ctx context.Context, n *nomination, limit <-chan time.Time) (ended <-chan struct{}, err error) {
	attempt := o.ended.Load()
	if attempt == nil {
		return nil, errNotRunning
	}
	n.saved = make(chan struct{})
	n.open.Store(1)
	select {
	case o.nominated <- n:
		return *attempt, nil
	case <-limit:
		return nil, errBusy
	case <-*attempt:
		return nil, errNotRunning
	case <-ctx.Done():
		return nil, context.Cause(ctx)
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
	if n.left.Load() {
		return n.verdict, errLeft
	}
	return n.verdict, nil
}

// errLeft is what is returned of entities that wait for another table.
var errLeft = fmt.Errorf("another table of the stream %w", stream.ErrAway)

// Publish hands moves to the owner, and does not wait for the bus. The error says that the shard
// does not run, or is busy: the moves are tried again later.
func (s *Shard) Publish(ctx context.Context, moves []stream.Move) error {
	defer s.nominator.call()()
	limit := time.NewTimer(offerFor)
	defer limit.Stop()
	_, err := s.nominator.handOver(ctx, &nomination{moves: moves}, limit.C)
	if errors.Is(err, errNotRunning) {
		return fmt.Errorf("%s %w: %w", s.opts.Name, stream.ErrAway, err)
	}
	return err
}

// ReconcileDue implements reconcile.Owner. What is read again has to be read before (rule 21): what
// the bus still has is not to be published again.
func (s *Shard) ReconcileDue() (demand uint64, due bool) {
	demand, due = s.opts.Feed.Due(s.opts.Name)
	return demand, due && !s.opts.Recovery.Rereading(s.opts.Stream)
}

// Reconciled implements reconcile.Owner.
func (s *Shard) Reconciled(ctx context.Context, demand uint64) error {
	if demand == 0 {
		return nil
	}
	return s.nominator.nominate(ctx, &nomination{compared: demand})
}

// Reach implements reconcile.Owner: what is published and committed.
func (s *Shard) Reach() (uint64, bool) {
	status := s.Status()
	running := (s.dry || s.nominator.ended.Load() != nil) && (status.State == Running || status.State == Waiting)
	if running && status.NoTail {
		return everyID, true
	}
	return status.Position, running
}
