package reconcile_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"log/slog"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/client/backoff"
	"example.org/bridge/event"
	"example.org/bridge/reconcile"
	"example.org/bridge/source"
	"example.org/bridge/tests/must"
	"example.org/bridge/tests/testall"
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

// newEndless returns one with so many entities, and a world of it whose table has the last row.
func newEndless(t *testing.T, rows uint64) (*endless, *world) {
	w := newWorld(t, event.Capability)
	w.table.InsertAt(rows, "last", "1", "0")
	w.position = rows
	s := &endless{rows: rows, View: w.options.View, Store: w.options.Store}
	w.options.View, w.options.Store, w.options.Committer = s, s, s
	return s, w
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

func TestMemoryStaysBoundedWhateverIsGone(t *testing.T) {
	rows := testall.Pick[uint64](20_000, 200_000)
	inBubble(func(t *testing.T) {
		s, w := newEndless(t, rows)
		entities := 0
		// It finds nothing to publish.
		w.options.Owner = owner{w, func(_ context.Context, n reconcile.Nomination) (reconcile.Verdict, error) {
			entities += len(n.Entities)
			return reconcile.Verdict{}, nil
		}}
		w.options.PageRows, w.options.SaveEvery = 1000, 0
		s.measure()
		before := s.heap
		report, err := reconcile.New(w.options).Run(t.Context(), reconcile.Mode{AllowDeletes: true})
		if err != nil || report.Absent != rows || s.absent != rows || entities != int(rows) {
			t.Fatalf("%d entities were kept for later, %d were nominated: %+v, %v", s.absent, entities, report, err)
		}
		if grown := s.heap - before; s.most > 2*reconcile.MaxNominated || grown > 8<<20 {
			t.Errorf("the heap grew by %d KiB, at most %d entities were saved at once", grown>>10, s.most)
		}
	})(t)
	t.Run("and the disk where the guard trips in any case", inBubble(func(t *testing.T) {
		s, w := newEndless(t, rows)
		w.table.Delete(rows)
		report, err := reconcile.New(w.options).Run(t.Context(), reconcile.Mode{})
		if err != nil || report.Guard == "" || report.Absent != rows || s.absent > 2*reconcile.MaxNominated {
			t.Errorf("%d entities were kept for later: %+v, %v", s.absent, report, err)
		}
	}))
}

func TestAReconcileThatStandsStillShows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlant(t, reconcile.Run{})
		var hang atomic.Bool
		free := make(chan struct{})
		options := p.worlds[0].options
		options.Source, options.Rate = hooked{Shard: p.worlds[0].table, read: func(source.Query) error {
			if _ = backoff.Pause(p.t.Context(), 10*time.Millisecond); hang.Load() {
				<-free
			}
			return nil
		}}, 1
		p.shards[0].Reconciler, p.shards[0].AtOnce = reconcile.New(options), true
		p.start()
		p.pass(12 * time.Second)
		still := func() time.Duration { s := p.shards[0].Status(); return s.Still() }
		if s := p.shards[0].Status(); !s.Running || s.Still() > time.Second {
			t.Errorf("between two reads, which a rate holds up: running %v, still for %s", s.Running, s.Still())
		}
		hang.Store(true)
		p.pass(5 * time.Minute)
		if got := still(); got < 4*time.Minute {
			t.Errorf("a read that hangs for 5 minutes counts for %s", got)
		}
		hang.Store(false)
		close(free)
		p.pass(time.Second)
		if got := still(); got > 0 {
			t.Errorf("afterwards it still stands, for %s", got)
		}
		p.stop()
	})
}

func TestTheLogDoesNotRepeatItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, event.Capability)
		w.options.Stream, w.options.Shard = key.Stream, key.Shard
		w.options.Source = hooked{Shard: w.table, read: missing}
		var log bytes.Buffer
		logger := slog.New(slog.NewTextHandler(&log, nil))
		s := reconcile.NewScheduler(logger, reconcile.Scheduled{Reconciler: reconcile.New(w.options), Source: "db", AtOnce: true})
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		must.OK(t, s.Run(ctx))
		if n := strings.Count(log.String(), "cut short"); n < 2 || n > 11 {
			t.Errorf("%d lines in 10 minutes:\n%s", n, &log)
		}
	})
}
