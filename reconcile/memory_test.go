package reconcile_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"runtime"
	"strings"
	"testing"

	"bridge/checkpoint/store"
	"bridge/event"
	"bridge/reconcile"
	"bridge/tests/testall"
)

// endless is a view, and the store of its runs, with many live entities, made up when they are
// asked for. It counts what it is given to keep.
type endless struct {
	reconcile.View
	reconcile.Store
	rows, absent uint64
	most         int
	heap         uint64
}

func (s *endless) use(o *reconcile.Options) {
	s.View, s.Store = o.View, o.Store
	o.View, o.Store, o.Committer = s, s, s
}

func (s *endless) name(id uint64) []byte {
	return fmt.Appendf(nil, "%020d%s", id, strings.Repeat("x", 224))
}

func (s *endless) ByRow(_ context.Context, shard string, after uint64, limit int, dst []store.Change) ([]store.Change, error) {
	for id := after + 1; id <= s.rows && len(dst) < limit; id++ {
		dst = append(dst, store.Change{Entity: s.name(id), Entry: store.Entry{Shard: shard, Row: id, State: store.Live}})
	}
	return dst, nil
}

func (s *endless) Apply(_ context.Context, b *store.Batch) error {
	for _, part := range b.Shards[0].Parts {
		if part.Kind != store.AbsentEntities {
			continue
		}
		var absent [][]byte
		if err := json.Unmarshal(part.Bytes, &absent); err != nil || part.Number != s.absent {
			return fmt.Errorf("%w: part %d behind %d entities: %w", store.ErrDamaged, part.Number, s.absent, err)
		}
		s.absent += uint64(len(absent))
		s.most = max(s.most, len(absent))
	}
	return s.measure()
}

func (s *endless) measure() error {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	s.heap = max(s.heap, m.HeapAlloc)
	return nil
}

func (s *endless) Parts(ctx context.Context, k store.Key, kind store.Kind, from uint64) iter.Seq2[store.Part, error] {
	if kind != store.AbsentEntities {
		return s.Store.Parts(ctx, k, kind, from)
	}
	return func(yield func(store.Part, error) bool) {
		var some [][]byte
		for id := from + 1; id <= s.rows && len(some) < reconcile.MaxNominated; id++ {
			some = append(some, s.name(id))
		}
		b, err := json.Marshal(some)
		yield(store.Part{Kind: kind, Number: from, Bytes: b}, err)
	}
}

// counted is an owner that finds nothing to publish, and counts what it is asked about.
type counted struct {
	*world
	entities int
}

func (c *counted) Nominate(_ context.Context, n reconcile.Nomination) (reconcile.Verdict, error) {
	c.entities += len(n.Entities)
	return reconcile.Verdict{}, nil
}

func TestMemoryStaysBoundedWhateverIsGone(t *testing.T) {
	rows := testall.Pick[uint64](50_000, 200_000)
	inBubble(func(t *testing.T) {
		w := newWorld(t, event.Capability)
		w.table.InsertAt(rows, "last", "1", "0")
		w.position = rows
		s, owner := &endless{rows: rows}, &counted{world: w}
		s.use(&w.options)
		w.options.Owner, w.options.PageRows, w.options.SaveEvery = owner, 1000, 0
		s.measure()
		before := s.heap
		report, err := reconcile.New(w.options).Run(t.Context(), reconcile.Mode{AllowDeletes: true})
		if err != nil || report.Gone != rows || s.absent != rows || owner.entities != int(rows) {
			t.Fatalf("%d entities were kept for later, %d were nominated: %+v, %v", s.absent, owner.entities, report, err)
		}
		if grown := s.heap - before; s.most > 2*reconcile.MaxNominated || grown > 8<<20 {
			t.Errorf("the heap grew by %d KiB, at most %d entities were saved at once", grown>>10, s.most)
		}
	})(t)
	t.Run("and the disk where the guard trips in any case", inBubble(func(t *testing.T) {
		w := newWorld(t, event.Capability)
		w.table.InsertAt(rows, "last", "1", "0")
		w.position = rows
		s := &endless{rows: rows}
		s.use(&w.options)
		w.table.Delete(rows)
		report, err := reconcile.New(w.options).Run(t.Context(), reconcile.Mode{})
		if err != nil || report.Guard == "" || report.Gone != rows || s.absent > 2*reconcile.MaxNominated {
			t.Errorf("%d entities were kept for later: %+v, %v", s.absent, report, err)
		}
	}))
}
