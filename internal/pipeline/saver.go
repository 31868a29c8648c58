package pipeline

import (
	"context"

	"bridge/checkpoint"
	"bridge/source"
)

// save asks for a state to be saved; done, when not nil, is closed once it is durable.
type save struct {
	state checkpoint.State
	done  chan<- struct{}
}

// saveAll saves the states that come from in, always the newest one that is there, until in is closed.
func (s *Shard) saveAll(ctx context.Context, in <-chan save) error {
	for request := range in {
		waiting := collect(&request, in)
		if err := s.save(ctx, request.state); err != nil {
			return err
		}
		for _, done := range waiting {
			close(done)
		}
	}
	return nil
}

// collect replaces request by the newest that is ready and returns those who wait for one of them.
func collect(request *save, in <-chan save) []chan<- struct{} {
	var waiting []chan<- struct{}
	for {
		if request.done != nil {
			waiting = append(waiting, request.done)
		}
		select {
		case newer, open := <-in:
			if !open {
				return waiting
			}
			newer.state.Ledger = source.MergeChunks(request.state.Ledger, newer.state.Ledger)
			*request = newer
		default:
			return waiting
		}
	}
}

// save makes state durable and waits for a disk that is full or away.
func (s *Shard) save(ctx context.Context, state checkpoint.State) error {
	key := checkpoint.Key{Stream: s.opts.Stream, Shard: s.opts.Name}
	err := s.retry(ctx, func(context.Context) string { return placeCheckpoint }, saving, func() error {
		return s.opts.Store.Save(ctx, key, state)
	})
	if err != nil {
		return err
	}
	s.opts.Faults.OK(placeCheckpoint)
	s.status.saved(state.Position)
	return nil
}

const placeCheckpoint = "checkpoint"
