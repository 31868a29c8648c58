package app

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"bridge/internal/backoff"
	"bridge/internal/config/configtest"
	"bridge/source"
)

// slowShard takes a second to read, and complains about two reads at a time.
type slowShard struct {
	source.Shard
	reading atomic.Int32
	t       *testing.T
}

func (s *slowShard) Read(ctx context.Context, _ source.Query, _ *source.Page) error {
	if s.reading.Add(1) > 1 {
		s.t.Error("two reads at a time")
	}
	defer s.reading.Add(-1)
	return backoff.Pause(ctx, time.Second)
}

func TestSharedShardServesOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &sharedShard{Shard: &slowShard{t: t}, turn: make(chan struct{}, 1)}
		ended := make(chan error, 3)
		begun := time.Now()
		for range 3 {
			go func() { ended <- s.Read(t.Context(), source.Query{}, nil) }()
		}
		synctest.Wait()
		late, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := s.Read(late, source.Query{}, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("who no longer wants to wait gets %v", err)
		}
		for range 3 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
		if took := time.Since(begun); took != 3*time.Second {
			t.Errorf("three reads of a second took %s", took)
		}
	})
}

func TestSiblingsAreTheOtherTables(t *testing.T) {
	cfg := load(t, configtest.With("BRIDGE_STREAM_ORDERS_TABLE", "orders_{0..2}"))
	src, err := OpenSource(cfg, textLogger(t.Output()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := src.Close(); err != nil {
			t.Error(err)
		}
	}()
	all := newSiblings(cfg, &cfg.Streams[0], src)
	readers := func(table string) []source.Shard {
		t.Helper()
		others, err := all.of(table)
		if err != nil {
			t.Fatal(err)
		}
		var list []source.Shard
		for _, one := range others() {
			list = append(list, one.Source)
		}
		return list
	}
	first, second := readers("orders_0"), readers("orders_1")
	if len(first) != 2 || len(second) != 2 || first[1] != second[1] || first[0] == second[0] {
		t.Errorf("%v and %v, want two each, that of orders_2 shared", first, second)
	}
	alone := load(t, configtest.With("BRIDGE_STREAM_ORDERS_TABLE", "orders"))
	if others, err := newSiblings(alone, &alone.Streams[0], src).of("orders"); err != nil || others != nil {
		t.Errorf("a table by itself has siblings: %v", err)
	}
}
