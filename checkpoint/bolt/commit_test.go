package bolt_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"

	"bridge/checkpoint"
	"bridge/checkpoint/checkpointtest"
)

// TestAnUncertainSaveEndsTheStore: when the header page of a failed transaction can be seen, nothing more is saved.
func TestAnUncertainSaveEndsTheStore(t *testing.T) {
	s := mustOpen(t, filepath.Join(t.TempDir(), "bridge.db"))
	if err := s.Save(t.Context(), key, checkpointtest.State(1)); err != nil {
		t.Fatal(err)
	}
	fault := errors.New("input/output error")
	if err := s.AfterFailure(1<<30, fault); !errors.Is(err, fault) {
		t.Errorf("a failure is told as %v", err)
	}
	if err := s.Save(t.Context(), key, checkpointtest.State(2)); err != nil {
		t.Fatalf("Save after a transaction that left no trace: %v", err)
	}
	mustSay(t, s.AfterFailure(1, fault), "input/output error", "check the disk", "restart bridge")
	if err := s.Save(t.Context(), key, checkpointtest.State(3)); !errors.Is(err, fault) {
		t.Errorf("Save after an uncertain one returns %v, want %v", err, fault)
	}
	if err := s.Close(); !errors.Is(err, fault) {
		t.Errorf("Close returns %v, want %v", err, fault)
	}
}

// BenchmarkSave: one saver waits for two fdatasync calls; many savers share them.
func BenchmarkSave(b *testing.B) {
	for _, savers := range []int{1, 16, 128} {
		b.Run(fmt.Sprint("savers=", savers), func(b *testing.B) {
			s := mustOpen(b, filepath.Join(b.TempDir(), "bridge.db"))
			var shard atomic.Int32
			b.SetParallelism(savers)
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				key := checkpoint.Key{Stream: "orders", Shard: fmt.Sprint(shard.Add(1))}
				for pb.Next() {
					if err := s.Save(b.Context(), key, checkpointtest.State(1)); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}
