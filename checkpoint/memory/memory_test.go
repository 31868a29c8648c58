package memory_test

import (
	"errors"
	"testing"

	"bridge/checkpoint"
	"bridge/checkpoint/checkpointtest"
	"bridge/checkpoint/memory"
)

func TestConformance(t *testing.T) {
	checkpointtest.Run(t, func(*testing.T) checkpointtest.Fixture {
		return checkpointtest.Fixture{Store: memory.New()}
	})
}

func TestFail(t *testing.T) {
	full := errors.New("disk full")
	s := memory.New()
	key := checkpoint.Key{Stream: "a", Shard: "b"}
	s.Fail(1, full)
	if err := s.Save(t.Context(), key, checkpointtest.State(1)); !errors.Is(err, full) {
		t.Errorf("Save returns %v, want %v", err, full)
	}
	if _, err := s.Load(t.Context(), key); !errors.Is(err, checkpoint.ErrNotFound) {
		t.Errorf("Load returns %v, want ErrNotFound", err)
	}
	if err := s.Save(t.Context(), key, checkpointtest.State(1)); err != nil || s.Saves() != 1 {
		t.Errorf("Save returns %v after %d saves", err, s.Saves())
	}
}
