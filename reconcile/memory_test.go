package reconcile_test

import (
	"context"
	"encoding/binary"
	"runtime"
	"testing"

	"bridge/checkpoint"
	"bridge/event"
	"bridge/reconcile"
)

// endless is a store whose view has many live entities, made up when they are asked for, and which
// counts what it is given to keep.
type endless struct {
	reconcile.Store
	rows, absent uint64
	most         int
	heap         uint64
}

func (s *endless) ByRow(_ context.Context, _ checkpoint.Key, after uint64, limit int, dst []checkpoint.Entity) ([]checkpoint.Entity, error) {
	for id := after + 1; id <= s.rows && len(dst) < limit; id++ {
		name := binary.BigEndian.AppendUint64([]byte{251, 1}, id)
		dst = append(dst, checkpoint.Entity{Row: id, Fate: checkpoint.Live, Entity: append(name, make([]byte, 242)...)})
	}
	return dst, nil
}

func (s *endless) SaveRun(_ context.Context, _ checkpoint.Key, run checkpoint.Run, absent [][]byte) error {
	s.absent += uint64(len(absent))
	s.most = max(s.most, len(absent))
	if run.Absent != s.absent && run.Ended.IsZero() {
		return checkpoint.ErrUnusable
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

func (s *endless) Absent(context.Context, checkpoint.Key, uint64, int, [][]byte) ([][]byte, error) {
	return nil, s.measure()
}

func TestMemoryStaysBoundedWhateverIsGone(t *testing.T) {
	const rows = 200_000
	inBubble(func(t *testing.T) {
		w := newWorld(t, event.Capability)
		w.table.InsertAt(rows, "last", "1", "0")
		w.position = rows
		s := &endless{Store: w.store, rows: rows}
		w.options.Store, w.options.PageRows, w.options.SaveEvery = s, 1000, 0
		s.measure()
		before := s.heap
		report, err := reconcile.New(w.options).Run(t.Context(), reconcile.Mode{AllowDeletes: true})
		if err != nil || report.Gone != rows || s.absent != rows {
			t.Fatalf("%d entities were kept for later: %+v, %v", s.absent, report, err)
		}
		if grown := s.heap - before; s.most > 2*reconcile.MaxNominated || grown > 8<<20 {
			t.Errorf("the heap grew by %d KiB, at most %d entities were saved at once", grown>>10, s.most)
		}
	})(t)
	t.Run("and the disk where the guard trips in any case", inBubble(func(t *testing.T) {
		w := newWorld(t, event.Capability)
		w.table.InsertAt(rows, "last", "1", "0")
		w.position = rows
		s := &endless{Store: w.store, rows: rows}
		w.options.Store = s
		w.table.Delete(rows)
		report, err := reconcile.New(w.options).Run(t.Context(), reconcile.Mode{})
		if err != nil || report.Guard == "" || report.Gone != rows || s.absent > 2*reconcile.MaxNominated {
			t.Errorf("%d entities were kept for later: %+v, %v", s.absent, report, err)
		}
	}))
}
