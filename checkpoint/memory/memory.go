package memory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"bridge/checkpoint"
	"bridge/source"
)

var _ checkpoint.Store = (*Store)(nil)

// Store is a checkpoint in memory. It is safe for concurrent use.
type Store struct {
	mu     sync.Mutex
	states map[checkpoint.Key][]byte
	ledger map[checkpoint.Key]map[uint64][]byte
	saves  int
	fails  int
	err    error
}

// New returns an empty store.
func New() *Store {
	return &Store{states: make(map[checkpoint.Key][]byte), ledger: make(map[checkpoint.Key]map[uint64][]byte)}
}

// Fail makes the next n saves fail with err; the former states hold.
func (s *Store) Fail(n int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fails, s.err = n, err
}

// Saves counts the saves that succeeded.
func (s *Store) Saves() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.saves
}

// Load implements checkpoint.Store.
func (s *Store) Load(ctx context.Context, key checkpoint.Key) (checkpoint.State, error) {
	if err := ctx.Err(); err != nil {
		return checkpoint.State{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	b, ok := s.states[key]
	if !ok {
		return checkpoint.State{}, fmt.Errorf("%s of stream %s: %w", key.Shard, key.Stream, checkpoint.ErrNotFound)
	}
	state, err := checkpoint.DecodeState(b)
	for _, part := range slices.Sorted(maps.Keys(s.ledger[key])) {
		state.Ledger = append(state.Ledger, source.Chunk{Key: part, Bytes: slices.Clone(s.ledger[key][part])})
	}
	return state, err
}

// Save implements checkpoint.Store.
func (s *Store) Save(ctx context.Context, key checkpoint.Key, state checkpoint.State) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if key.Stream == "" || key.Shard == "" {
		return errors.New("save a state without the name of its stream and shard")
	}
	if err := state.Check(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fails > 0 {
		s.fails--
		return s.err
	}
	s.saves++
	s.states[key] = checkpoint.AppendState(nil, state)
	if s.ledger[key] == nil || state.LedgerAnew {
		s.ledger[key] = make(map[uint64][]byte)
	}
	for _, part := range state.Ledger {
		if part.Bytes == nil {
			delete(s.ledger[key], part.Key)
		} else {
			s.ledger[key][part.Key] = slices.Clone(part.Bytes)
		}
	}
	return nil
}

// List implements checkpoint.Store.
func (s *Store) List(ctx context.Context) ([]checkpoint.Entry, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	entries := make([]checkpoint.Entry, 0, len(s.states))
	for key, b := range s.states {
		state, err := checkpoint.DecodeState(b)
		if err != nil {
			return nil, err
		}
		entries = append(entries, checkpoint.Entry{Key: key, State: state})
	}
	slices.SortFunc(entries, func(a, b checkpoint.Entry) int {
		return cmp.Or(cmp.Compare(a.Key.Stream, b.Key.Stream), cmp.Compare(a.Key.Shard, b.Key.Shard))
	})
	return entries, nil
}

// Delete implements checkpoint.Store.
func (s *Store) Delete(ctx context.Context, stream string) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for key := range s.states {
		if key.Stream == stream {
			delete(s.states, key)
			delete(s.ledger, key)
			n++
		}
	}
	return n, nil
}
