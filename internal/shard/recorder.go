package shard

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"bridge/checkpoint/store"
	"bridge/event"
	"bridge/internal/catchup"
	"bridge/internal/view"
)

// recorder commits what the bus has acknowledged of a shard: the progress, the view and the offsets
// of a batch at once. It serves the publisher.
type recorder struct {
	opts    *Options
	status  *tracker
	retrier *retrier
	// applied is told of each change of the progress that was committed, and that of the rows
	// published last with it.
	applied func(number uint64)

	acks  []catchup.Ack
	order []int
}

// record commits b, whose messages are sent; first is the first of their seqs. An error says that
// nothing was committed. What is not a matter of outcome (catchup.ErrReadBack) or of ctx is that of
// a store that is broken.
func (r *recorder) record(ctx context.Context, b *batch, first uint64, sent *sent) error {
	began := time.Now()
	r.status.beginSave()
	defer r.status.endSave()
	change := b.change.ShardChange
	for _, chunk := range b.rowChunks {
		change.Parts = append(change.Parts, store.Part{Kind: store.Published, Number: chunk.Key, Bytes: chunk.Bytes})
	}
	if b.schema != nil {
		change.Key, change.Parts = r.opts.key(), append(change.Parts, schemaPart(b))
	}
	commit := func(entries []store.Change) error {
		whole := &store.Batch{}
		if change.Progress != nil || b.schema != nil {
			whole.Shards = []store.ShardChange{change}
		}
		if len(entries) > 0 {
			whole.Views = []store.ViewChange{{Stream: r.opts.Stream, Changes: entries}}
		}
		return r.opts.Committer.Acknowledged(ctx, first, r.acked(b, sent), whole)
	}
	err := r.retrier.writeStore(ctx, publishing, func() error {
		return r.opts.Feed.commit(r.opts.Name, &change, b.compared, func() error {
			if b.claims == nil {
				return commit(nil)
			}
			return r.opts.View.Acknowledge(b.claims, sent.at, commit)
		})
	})
	r.opts.Metrics.saved(r.opts.Stream, began)
	if err != nil {
		r.opts.Committer.Unknown(first)
		if ctx.Err() != nil || errors.Is(err, catchup.ErrReadBack) {
			return err
		}
		return &storeError{err}
	}
	r.status.healed(saving)
	b.claims = nil
	r.applied(b.change.Number)
	if change.Progress != nil {
		r.status.saved(b.last)
	}
	return nil
}

// storeError is the error of a store that cannot be used any more.
type storeError struct{ error }

func (e *storeError) Unwrap() error { return e.error }

// at tells where message i lies, and its stamp.
func (s *sent) at(i int) (store.At, view.Stamp) { return s.locations[i].at, s.locations[i].stamp }

// acked returns the runs of messages of b that lie one behind the other in a TP.
func (r *recorder) acked(b *batch, s *sent) []catchup.Ack {
	r.acks, r.order = r.acks[:0], r.order[:0]
	if s == nil {
		return nil
	}
	for i := range s.locations {
		if s.locations[i].covered {
			r.order = append(r.order, i)
		}
	}
	locations := s.locations
	slices.SortFunc(r.order, func(a, b int) int {
		return cmp.Or(cmp.Compare(locations[a].at.TP, locations[b].at.TP), cmp.Compare(locations[a].at.Offset, locations[b].at.Offset))
	})
	for n, i := range r.order {
		at := locations[i].at
		if k := len(r.acks) - 1; k >= 0 && r.acks[k].TP == at.TP && r.acks[k].Range.To == at.Offset {
			r.acks[k].Range.To++
		} else {
			r.acks = append(r.acks, catchup.Ack{TP: at.TP, Range: catchup.Range{From: at.Offset, To: at.Offset + 1}, Marker: locations[i].marker})
		}
		if n == len(r.order)-1 || locations[r.order[n+1]].at != (store.At{TP: at.TP, Offset: at.Offset + 1}) {
			r.acks[len(r.acks)-1].Range.Last = store.Anchor{Offset: at.Offset, Hash: hashAt(b, s, i)}
		}
	}
	return r.acks
}

// hashAt returns the hash of the anchor at message i of b, 0 where its id is none of bridge.
func hashAt(b *batch, s *sent, i int) uint64 {
	m, key := &b.messages[i], b.messages[i].Key
	if dead := s.locations[i].dead; dead != nil {
		if m = dead; m.State.Key == "" {
			key = m.Key
		}
	}
	id, err := event.ParseID(m.ID)
	if err != nil {
		return 0
	}
	return catchup.HashMessage(key, id, m.State.Epoch, m.State.Seq)
}
