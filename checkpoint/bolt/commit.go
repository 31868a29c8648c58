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
	"bridge/internal/failpoint"
)

var errClosed = errors.New("checkpoint is closed")

// change is one change that waits for its transaction.
type change struct {
	apply func(*bbolt.Tx) error
	// recent is what apply adds to the recent values, set by it.
	recent *addition
	done   chan error
}

// addition is recent values that were added to a shard, the first with this number.
type addition struct {
	key   checkpoint.Key
	forms [][]byte
	first uint64
}

// commit makes a change durable. Changes that come while a transaction is being written wait and then go together into the
// next one; a change that comes alone waits for nothing. Changes are made in the order of the calls.
// recent may be nil.
func (s *Store) commit(ctx context.Context, recent *addition, apply func(*bbolt.Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c := &change{apply: apply, recent: recent, done: make(chan error, 1)}
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
	err := s.settle(0)
	if err == nil {
		err = s.update(func(tx *bbolt.Tx) error {
			for _, c := range changes {
				if err := c.apply(tx); err != nil {
					return err
				}
			}
			return nil
		})
	}
	count := 0
	if err == nil {
		count, err = s.noteRecent(changes)
	}
	for _, c := range changes {
		c.done <- err
	}
	if err == nil {
		// A step that fails changes nothing, and the next save meets it again.
		_ = s.settle(count)
	}
}

// noteRecent adds what changes have added to the recent values to the overlay, all at once, and returns how many changes of
// views that is. The caller has the turn.
func (s *Store) noteRecent(changes []*change) (count int, err error) {
	s.overlay.mu.Lock()
	defer s.overlay.mu.Unlock()
	for _, c := range changes {
		if c.recent == nil || len(c.recent.forms) == 0 {
			continue
		}
		n, err := s.addRecent(*c.recent)
		if err != nil {
			return 0, err
		}
		count += n
	}
	return count, nil
}

// addRecent adds recent values that are in the file to the overlay. The caller has the turn and the overlay.
func (s *Store) addRecent(a addition) (count int, err error) {
	err = s.view(func(tx *bbolt.Tx) error {
		r := recentsOf(bucketOf(tx, a.key.Stream, a.key.Shard), a.key)
		for i, form := range a.forms {
			n, err := s.overlay.add(r, a.first+uint64(i), form)
			if err != nil {
				return err
			}
			count += n
		}
		return nil
	})
	if err != nil {
		// It is durable, and yet readers would not see it.
		return 0, s.fail(fmt.Errorf("%s: what was saved cannot be read: %w", s.path, err))
	}
	return count, nil
}

// alone runs f with the turn and without readers of views. What f commits need not go together with what others save.
func (s *Store) alone(ctx context.Context, f func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-s.turn }()
	s.overlay.mu.Lock()
	defer s.overlay.mu.Unlock()
	return f()
}

// update runs one transaction. The caller has the turn.
func (s *Store) update(apply func(*bbolt.Tx) error) error {
	txid := 0
	err := s.guard(func() error {
		err := s.db.Update(func(tx *bbolt.Tx) error {
			txid = tx.ID()
			if err := apply(tx); err != nil {
				return err
			}
			return failpoint.At(failpoint.StoreSync)
		})
		if err != nil {
			return err
		}
		return failpoint.At(failpoint.StoreHeaderSync)
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
		close(s.broken)
	}
	return s.failed
}

// failure returns why the store must not be used, or nil.
func (s *Store) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}
