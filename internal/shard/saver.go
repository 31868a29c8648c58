package shard

import (
	"context"
	"time"

	"bridge/checkpoint"
	"bridge/internal/failpoint"
)

// save asks for a state to be saved; done are called once it is durable.
type save struct {
	state checkpoint.State
	done  []func()
	// patient says that nobody waits for it, and that a journal may come which it can go with.
	patient bool
}

// patience is how long a save waits for a journal. Each transaction costs two syncs; what is acknowledged meanwhile is repeated after a kill.
const patience = 20 * time.Millisecond

// saver makes the states of one shard durable. It waits for a disk that is full or away.
type saver struct {
	store   checkpoint.Store
	key     checkpoint.Key
	meaning *checkpoint.Meaning
	status  *tracker
	retrier *retrier
	metrics *Metrics
}

func newSaver(opts *Options, status *tracker, retrier *retrier) *saver {
	return &saver{store: opts.Store, key: opts.key(), meaning: opts.Meaning, status: status, retrier: retrier, metrics: opts.Metrics}
}

// run saves the states that come from in, always the newest one that is there, until in is closed.
func (s *saver) run(ctx context.Context, in <-chan save) error {
	defer s.status.rest(storing)
	for request := range in {
		s.status.turn(storing)
		if failpoint.Mutant(failpoint.SavesLate) {
			request.mutantWait(in)
		}
		collect(&request, in)
		if request.patient {
			await(&request, in)
		}
		if err := s.save(ctx, storing, request.state); err != nil {
			return err
		}
		for _, done := range request.done {
			done()
		}
		s.status.rest(storing)
	}
	return nil
}

// collect merges into request those that are ready behind it.
func collect(request *save, in <-chan save) {
	for {
		select {
		case newer, open := <-in:
			if !open {
				return
			}
			request.add(newer)
		default:
			return
		}
	}
}

// await merges into request the next one, if that comes soon.
func await(request *save, in <-chan save) {
	limit := time.NewTimer(patience)
	defer limit.Stop()
	select {
	case newer, open := <-in:
		if open {
			request.add(newer)
		}
	case <-limit.C:
	}
}

// add has request do what newer does behind it.
func (request *save) add(newer save) {
	request.state = checkpoint.MergeStates(request.state, newer.state)
	request.done = append(request.done, newer.done...)
	request.patient = request.patient && newer.patient
}

// save makes state durable.
func (s *saver) save(ctx context.Context, l loop, state checkpoint.State) error {
	state.Meaning = s.meaning
	err := s.retrier.writeStore(ctx, l, func() error {
		if err := failpoint.At(failpoint.BeforeSave); err != nil {
			return err
		}
		began := time.Now()
		err := s.store.Save(ctx, s.key, state)
		s.metrics.saved(s.key.Stream, began)
		failpoint.Pass(failpoint.AfterSave)
		return err
	})
	if err != nil {
		return err
	}
	s.status.saved(state.Position)
	return nil
}
