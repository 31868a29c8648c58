package bolt

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"bridge/checkpoint"
)

var errClosed = errors.New("checkpoint is closed")

// change is one change that waits for its transaction.
type change struct {
	apply func(*bbolt.Tx) error
	done  chan error
}

// commit makes a change durable. Changes that come while a transaction is being written wait and then go together into the
// next one; a change that comes alone waits for nothing. Changes are made in the order of the calls.
func (s *Store) commit(ctx context.Context, apply func(*bbolt.Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c := &change{apply: apply, done: make(chan error, 1)}
	s.mu.Lock()
	s.waiting = append(s.waiting, c)
	s.mu.Unlock()
	select {
	case s.turn <- struct{}{}:
		s.commitWaiting()
		<-s.turn
	case err := <-c.done:
		return err
	case <-ctx.Done():
		if s.withdraw(c) {
			return ctx.Err()
		}
	}
	// Whoever has had the turn since has also answered c.
	return <-c.done
}

// withdraw takes c back unless its transaction has begun.
func (s *Store) withdraw(c *change) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.waiting, c)
	if i < 0 {
		return false
	}
	s.waiting = slices.Delete(s.waiting, i, i+1)
	return true
}

// commitWaiting makes all waiting changes durable in one transaction. The caller has the turn.
func (s *Store) commitWaiting() {
	s.mu.Lock()
	changes := s.waiting
	s.waiting = nil
	s.mu.Unlock()
	if len(changes) == 0 {
		return
	}
	err := s.update(func(tx *bbolt.Tx) error {
		for _, c := range changes {
			if err := c.apply(tx); err != nil {
				return err
			}
		}
		return nil
	})
	for _, c := range changes {
		c.done <- err
	}
}

// update runs one transaction. The caller has the turn.
func (s *Store) update(apply func(*bbolt.Tx) error) error {
	txid := 0
	err := s.guard(func() error {
		return s.db.Update(func(tx *bbolt.Tx) error {
			txid = tx.ID()
			return apply(tx)
		})
	})
	if err == nil || txid == 0 {
		return err
	}
	return s.afterFailure(txid, err)
}

// afterFailure decides whether the store can go on after transaction txid failed. It can if the header page that makes
// the transaction count was not written: the former state holds, in memory and on the disk. If it was written and only the
// sync after it failed, nobody knows what the disk holds, and a later sync that succeeds proves nothing.
func (s *Store) afterFailure(txid int, err error) error {
	seen := 0
	viewErr := s.guard(func() error {
		return s.db.View(func(tx *bbolt.Tx) error {
			seen = tx.ID()
			return nil
		})
	})
	if viewErr != nil {
		return errors.Join(err, viewErr)
	}
	if seen >= txid {
		return s.fail(fmt.Errorf("%s cannot tell whether the last save is on the disk: check the disk, then restart bridge: %w", s.path, err))
	}
	return err
}

// guard runs f, which uses the database, unless the store has failed or is closed. It turns a panic or a fault, which a
// file that is changed or cut off under our feet can cause, into an error for good.
func (s *Store) guard(f func() error) (err error) {
	if err := s.failure(); err != nil {
		return err
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = s.fail(fmt.Errorf("%s was changed while in use (%v): %w: restart bridge", s.path, r, checkpoint.ErrCorrupt))
		}
	}()
	err = f()
	if errors.Is(err, berrors.ErrDatabaseNotOpen) {
		return errClosed
	}
	return err
}

// fail notes that the store must not be used any more and returns err.
func (s *Store) fail(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed == nil {
		s.failed = fmt.Errorf("%w: %w", checkpoint.ErrUnusable, err)
	}
	return s.failed
}

// failure returns why the store must not be used, or nil.
func (s *Store) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}
