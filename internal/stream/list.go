package stream

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"example.org/bridge/checkpoint/store"
)

// ListName is the table, which no stream has, under which the store has the request for a full list
// of a stream: a [Republish] of all its tables.
//
// The shard that leads sends the boundaries that begin the list to every TP, and then has each
// table be published again, from its first row to its last one. Once all are, it sends the
// boundaries that end it. A list that cannot go on truly begins again under another id: a table
// publishes for one id.
const ListName = ""

// Lists are the full lists of the stream of a Feed, one at a time. It is safe for concurrent use.
type Lists struct {
	feed *Feed
	// last is the last request as the store has it, nil for none. Nobody changes it.
	last atomic.Pointer[Republish]
}

// Lists returns the full lists of the stream.
func (f *Feed) Lists() *Lists { return &f.lists }

// Open has Last return what the store says.
func (l *Lists) Open(ctx context.Context) error {
	was := l.last.Load()
	list, err := LoadRepublish(ctx, l.feed.opts.Store, store.Key{Stream: l.feed.opts.Stream, Shard: ListName})
	if err == nil {
		l.last.CompareAndSwap(was, list)
	}
	return err
}

// Last returns the last request for a full list, nil for none. It must not be changed.
func (l *Lists) Last() *Republish { return l.last.Load() }

// Leads reports whether a shard of the configuration sends the boundaries of a list.
func (l *Lists) Leads(name string) bool { return l.feed.opts.Shards[0].Name == name }

// Unlisted returns the tables that are not published again for the list yet, and the error of one
// that does not go on.
func (l *Lists) Unlisted(list *Republish) (left []string, failed string) {
	for name, s := range l.feed.shards {
		own := s.republish.Load()
		if own == nil || own.List != list.List || own.Running() {
			left = append(left, name)
		} else if own.State != RepublishDone {
			failed = cmp.Or(failed, own.Error, string(own.State))
		}
	}
	slices.Sort(left)
	return left, failed
}

// Begin has the tables publish for a list that was asked for under a number: its boundaries are
// on the bus. With the name of a table it is that one alone, which has come since. It returns once
// that is durable: what a table then publishes is known to be of the list after a kill.
func (l *Lists) Begin(ctx context.Context, number uint64, begun *Republish, table string) error {
	tables := []string{table}
	if table == ListName {
		tables = slices.AppendSeq(tables, maps.Keys(l.feed.shards))
	}
	return l.change(ctx, tables, number, func(table string, list, last *Republish) *Republish {
		if table == ListName {
			last.List, last.Epoch, last.Seq, last.TPs = begun.List, begun.Epoch, begun.Seq, begun.TPs
			return last
		}
		next := &Republish{
			From: 1, To: math.MaxUint64, Rate: list.Rate, Epoch: begun.Epoch, Seq: begun.Seq, List: begun.List, Asked: list.Asked, State: Republishing,
		}
		next.Behind(last)
		return next
	})
}

// End ends the list that was asked for under a number, or with no state has it begin again.
func (l *Lists) End(ctx context.Context, number uint64, state RepublishState, why string) error {
	return l.change(ctx, []string{ListName}, number, func(_ string, _, last *Republish) *Republish {
		if state == "" {
			last.List = ""
			return last
		}
		last.State, last.Error, last.Ended = state, why, time.Now()
		return last
	})
}

// change changes the requests of tables, and does nothing where the list that was asked for
// under a number does not run any more.
func (l *Lists) change(ctx context.Context, tables []string, number uint64, change func(table string, list, last *Republish) *Republish) error {
	err := l.feed.ChangeRepublish(ctx, tables, func(table string, last *Republish) (*Republish, error) {
		// Under the token of the committer it stays so.
		list := l.Last()
		if !list.Running() || list.Number != number {
			return nil, nil
		}
		return change(table, list, last), nil
	})
	if err == nil {
		err = l.feed.opts.Committer.Sync(ctx, &store.Batch{})
	}
	return err
}
