package main

import (
	"context"
	"time"

	"bridge/examples/internal/stage"
)

// scanner is Apollo's ReleaseMessageScanner. It begins at the highest id of the table, and looks
// for an id that it has passed over in the next ten scans only.
type scanner struct {
	*stage.Stage
	maxID uint64
	// missing counts the scans in which an id was missing.
	missing map[uint64]int
	heard   map[uint64]bool
}

const (
	// scanEvery is a tenth of Apollo's, as all times here.
	scanEvery = 100 * time.Millisecond
	// missingRounds is Apollo's missingReleaseMessageMaxAge.
	missingRounds = 10
)

// run scans until ctx ends.
func (s *scanner) run(ctx context.Context) error {
	s.missing = make(map[uint64]int)
	if err := s.DB.QueryRowContext(ctx, "SELECT COALESCE(MAX(Id), 0) FROM ReleaseMessage").Scan(&s.maxID); err != nil {
		return err
	}
	for stage.Pause(ctx, scanEvery) == nil {
		if err := s.scan(context.WithoutCancel(ctx)); err != nil {
			return err
		}
	}
	return nil
}

func (s *scanner) scan(ctx context.Context) error {
	for id, rounds := range s.missing {
		var found int
		if err := s.DB.QueryRowContext(ctx, "SELECT COUNT(*) FROM ReleaseMessage WHERE Id = ?", id).Scan(&found); err != nil {
			return err
		}
		if found > 0 {
			s.heard[id] = true
		}
		if s.missing[id] = rounds + 1; found > 0 || rounds >= missingRounds {
			delete(s.missing, id)
		}
	}
	rows, err := s.DB.QueryContext(ctx, "SELECT Id FROM ReleaseMessage WHERE Id > ? ORDER BY Id LIMIT 500", s.maxID)
	ids, err := scanIDs(rows, err)
	if err != nil {
		return err
	}
	for _, id := range ids {
		for passed := s.maxID + 1; passed < id; passed++ {
			s.missing[passed] = 1
		}
		s.heard[id], s.maxID = true, id
	}
	return nil
}
