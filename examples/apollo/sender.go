package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"bridge/examples/internal/stage"
)

// sender is Apollo's DatabaseMessageSender: it inserts a row for each release, and a background
// job deletes the older rows of its namespace.
type sender struct {
	*stage.Stage
	toClean chan message

	mu sync.Mutex
	// sent and cleaned have the ids whose INSERT or DELETE was committed.
	sent, cleaned map[uint64]bool
}

// message is a row of ReleaseMessage.
type message struct {
	id        uint64
	namespace string
	sent      time.Time
}

const (
	sendEvery  = 50 * time.Millisecond
	namespaces = 8
	// cleanAfter is how long the older rows of a namespace stay. Apollo's job cleans at once while
	// it is awake, and sleeps for five seconds when there was nothing to do.
	cleanAfter = 2 * time.Second
)

func newSender(s *stage.Stage) *sender {
	// The queue is bounded as Apollo's is: what does not fit is cleaned after the next release.
	return &sender{Stage: s, toClean: make(chan message, 100), sent: make(map[uint64]bool), cleaned: make(map[uint64]bool)}
}

const insert = "INSERT INTO ReleaseMessage (Message) VALUES (?)"

// send is sendMessage.
func (s *sender) send(ctx context.Context, namespace string) error {
	id, err := inserted(s.DB.ExecContext(ctx, insert, namespace))
	if err != nil {
		return fmt.Errorf("release %s: %w", namespace, err)
	}
	s.note(s.sent, id)
	select {
	case s.toClean <- message{id, namespace, time.Now()}:
	default:
	}
	return nil
}

// run releases one namespace after the other until ctx ends.
func (s *sender) run(ctx context.Context) error {
	for n := 0; stage.Pause(ctx, sendEvery) == nil; n++ {
		if err := s.send(context.WithoutCancel(ctx), fmt.Sprintf("app-%d+default+application", n%namespaces)); err != nil {
			return err
		}
	}
	return nil
}

// sendLate is send in a transaction that takes its id now and commits when commit is closed.
func (s *sender) sendLate(ctx context.Context, namespace string, commit <-chan struct{}) error {
	tx, err := s.DB.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // nothing, once it is committed
	id, err := inserted(tx.ExecContext(ctx, insert, namespace))
	if err != nil {
		return err
	}
	if !s.MySQL {
		// SQLite has one writer at a time: only the id is taken, and the row comes with it later.
		_, err = tx.ExecContext(ctx, "DELETE FROM ReleaseMessage WHERE Id = ?", id)
		if err = errors.Join(err, tx.Commit()); err != nil {
			return err
		}
	}
	s.Say("a transaction has taken id %d and goes on working", id)
	select {
	case <-commit:
	case <-ctx.Done():
		return nil
	}
	if s.MySQL {
		err = tx.Commit()
	} else {
		_, err = s.DB.ExecContext(ctx, "INSERT INTO ReleaseMessage (Id, Message) VALUES (?, ?)", id, namespace)
	}
	if err != nil {
		return fmt.Errorf("commit the late release %d: %w", id, err)
	}
	s.note(s.sent, id)
	s.Say("it commits id %d, far below the newest", id)
	return nil
}

// clean deletes what is older than each release in the queue, until ctx ends.
func (s *sender) clean(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case m := <-s.toClean:
			if stage.Pause(ctx, time.Until(m.sent.Add(cleanAfter))) != nil {
				return nil
			}
			if err := s.cleanOlder(context.WithoutCancel(ctx), m); err != nil {
				return err
			}
		}
	}
}

// cleanOlder is cleanMessage: it deletes a hundred rows at a time.
func (s *sender) cleanOlder(ctx context.Context, m message) error {
	for {
		rows, err := s.DB.QueryContext(ctx, "SELECT Id FROM ReleaseMessage WHERE Message = ? AND Id < ? ORDER BY Id LIMIT 100", m.namespace, m.id)
		ids, err := scanIDs(rows, err)
		if err != nil || len(ids) == 0 {
			return err
		}
		for _, id := range ids {
			if _, err := s.DB.ExecContext(ctx, "DELETE FROM ReleaseMessage WHERE Id = ?", id); err != nil {
				return fmt.Errorf("clean the release %d: %w", id, err)
			}
			s.note(s.cleaned, id)
		}
	}
}

func (s *sender) note(set map[uint64]bool, id uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	set[id] = true
}

// unheard returns how many releases are not in heard: those that were cleaned meanwhile, and those
// that were not.
func (s *sender) unheard(heard func(id uint64) bool) (cleaned, there int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range s.sent {
		switch {
		case heard(id):
		case s.cleaned[id]:
			cleaned++
		default:
			there++
		}
	}
	return cleaned, there
}

func (s *sender) count() (sent, cleaned int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.sent), len(s.cleaned)
}

// inserted returns the id of a row that was inserted.
func inserted(result sql.Result, err error) (uint64, error) {
	if err != nil {
		return 0, err
	}
	id, err := result.LastInsertId()
	return uint64(id), err
}

func scanIDs(rows *sql.Rows, err error) (ids []uint64, _ error) {
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // it repeats the error of Err
	for rows.Next() {
		var id uint64
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, rows.Err()
}
