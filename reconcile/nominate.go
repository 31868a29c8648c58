package reconcile

import (
	"context"
	"errors"
	"time"

	"bridge/internal/panics"
	"bridge/source"
)

// nominator gathers rows and nominates them, one nomination at a time, while the scan goes on. It
// serves one goroutine.
type nominator struct {
	owner nominee
	// timeout bounds a nomination, so that the other shards of the database get their turn while
	// the bus is away.
	timeout time.Duration
	// alone makes nominations run in the caller's goroutine.
	alone bool
	// count is called with the verdict of each nomination.
	count func(Verdict)

	ranges, spare []source.Range
	ids           int
	// silent are rows of the page that is being compared, which are looked up before.
	silent silent
	flying chan outcome
}

// nominee is an [Owner], as far as nominations go.
type nominee interface {
	Nominate(ctx context.Context, n Nomination) (Verdict, error)
}

type outcome struct {
	verdict Verdict
	err     error
}

// row adds a row; ids must be ascending.
func (n *nominator) row(id uint64) {
	n.ids++
	if last := len(n.ranges) - 1; last >= 0 && n.ranges[last].Last+1 == id {
		n.ranges[last].Last = id
		return
	}
	n.ranges = append(n.ranges, source.Range{First: id, Last: id})
}

func (n *nominator) full() bool { return n.ids >= MaxNominated }

// send nominates the gathered rows once the nomination before has been judged.
func (n *nominator) send(ctx context.Context) error {
	if err := n.wait(); err != nil || n.ids == 0 {
		return err
	}
	named := Nomination{Rows: n.ranges}
	// Invariant 7: two lists of rows, one with the owner and one being filled.
	n.ranges, n.spare, n.ids = n.spare[:0], n.ranges, 0
	if n.alone {
		return n.nominateNow(ctx, named)
	}
	flying := make(chan outcome, 1)
	n.flying = flying
	go func() {
		var o outcome
		o.err = panics.Guard(func() (err error) {
			o.verdict, err = n.nominate(ctx, named)
			return err
		})
		flying <- o
	}()
	return nil
}

// wait blocks until the nomination in flight has been judged.
func (n *nominator) wait() error {
	if n.flying == nil {
		return nil
	}
	o := <-n.flying
	n.flying = nil
	n.count(o.verdict)
	return o.err
}

// flush nominates the gathered rows and blocks until the owner has decided.
func (n *nominator) flush(ctx context.Context) error {
	if err := n.send(ctx); err != nil {
		return err
	}
	return n.wait()
}

// nominateNow makes a nomination and blocks until the owner has decided.
func (n *nominator) nominateNow(ctx context.Context, named Nomination) error {
	verdict, err := n.nominate(ctx, named)
	n.count(verdict)
	return err
}

func (n *nominator) nominate(ctx context.Context, named Nomination) (Verdict, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, n.timeout, errTimeout)
	defer cancel()
	return n.owner.Nominate(ctx, named)
}

var errTimeout = errors.New("what differs could not be published for long: is the bus away?")
