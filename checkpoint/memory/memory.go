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
	"bridge/source/ledger"
)

var _ checkpoint.Store = (*Store)(nil)

// Store is a checkpoint in memory. It is safe for concurrent use.
type Store struct {
	mu     sync.Mutex
	shards map[checkpoint.Key]*shard
	saves  int
	fails  int
	err    error
}

// shard is all that is kept of one shard.
type shard struct {
	state, run       []byte
	meaning          []byte
	ledger, journals map[uint64][]byte
	published        map[uint64][]byte
	view             map[string]checkpoint.Known
	given            []source.Range
	absent           [][]byte
	// byRow are the live and soft-deleted entities in the order of their rows; nil when the view
	// has changed.
	byRow []checkpoint.Entity
}

// New returns an empty store.
func New() *Store { return &Store{shards: make(map[checkpoint.Key]*shard)} }

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
	kept := s.shards[key]
	if kept == nil || kept.state == nil {
		return checkpoint.State{}, notFound(key)
	}
	state, err := checkpoint.DecodeState(kept.state)
	if err != nil {
		return checkpoint.State{}, err
	}
	if head, ok := kept.ledger[0]; ok {
		state.Ledger = []ledger.Chunk{{Bytes: slices.Clone(head)}}
	}
	state.Published = chunksOf(kept.published)
	if state.Meaning, err = kept.meant(); err != nil {
		return state, err
	}
	for _, number := range slices.Sorted(maps.Keys(kept.journals)) {
		j, err := checkpoint.DecodeJournal(kept.journals[number])
		if err != nil {
			return state, err
		}
		j.Number = number
		state.Journals = append(state.Journals, j)
	}
	return state, nil
}

func notFound(key checkpoint.Key) error {
	return fmt.Errorf("%s of stream %s: %w", key.Shard, key.Stream, checkpoint.ErrNotFound)
}

// Save implements checkpoint.Store.
func (s *Store) Save(ctx context.Context, key checkpoint.Key, state checkpoint.State) error {
	if err := state.Check(); err != nil {
		return err
	}
	return s.change(ctx, key, func(kept *shard) error {
		if s.fails > 0 {
			s.fails--
			return s.err
		}
		s.saves++
		kept.save(state)
		return nil
	})
}

// change runs f on what is kept of a shard, which is made where there is nothing.
func (s *Store) change(ctx context.Context, key checkpoint.Key, f func(*shard) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if key.Stream == "" || key.Shard == "" {
		return errors.New("save something of a shard without the name of its stream and shard")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := s.shards[key]
	if kept == nil {
		kept = &shard{ledger: make(map[uint64][]byte), journals: make(map[uint64][]byte), published: make(map[uint64][]byte),
			view: make(map[string]checkpoint.Known)}
	}
	if err := f(kept); err != nil {
		return err
	}
	s.shards[key] = kept
	return nil
}

func (s *shard) save(state checkpoint.State) {
	s.state = checkpoint.AppendState(nil, state)
	maps.DeleteFunc(s.journals, func(number uint64, _ []byte) bool { return state.Keep == 0 || number < state.Keep })
	for _, j := range state.Journals {
		s.journals[j.Number] = checkpoint.AppendJournal(nil, j)
	}
	apply(s.ledger, state.Ledger, state.ReplaceLedger)
	apply(s.published, state.Published, state.ReplacePublished)
	if m := state.Meaning; m != nil {
		s.meaning = nil
		if m.Kind != "" {
			s.meaning = checkpoint.AppendMeaning(nil, m)
		}
	}
	s.apply(state.View)
	s.given = checkpoint.Without(append(s.given, state.Given...), state.Found)
}

// List implements checkpoint.Store.
func (s *Store) List(ctx context.Context) ([]checkpoint.Entry, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	entries := make([]checkpoint.Entry, 0, len(s.shards))
	for key, kept := range s.shards {
		if kept.state == nil {
			continue
		}
		state, err := checkpoint.DecodeState(kept.state)
		if err == nil {
			state.Meaning, err = kept.meant()
		}
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
	for key, kept := range s.shards {
		if key.Stream == stream {
			delete(s.shards, key)
			if kept.state != nil {
				n++
			}
		}
	}
	return n, nil
}

// Copy returns a store that holds what s holds, as a copy of a file does.
func (s *Store) Copy() *Store {
	s.mu.Lock()
	defer s.mu.Unlock()
	copied := New()
	for key, kept := range s.shards {
		own := *kept
		own.ledger, own.journals, own.view, own.byRow = maps.Clone(kept.ledger), maps.Clone(kept.journals), maps.Clone(kept.view), nil
		own.published = maps.Clone(kept.published)
		own.given, own.absent = slices.Clone(kept.given), slices.Clone(kept.absent)
		copied.shards[key] = &own
	}
	return copied
}
