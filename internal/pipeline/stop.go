package pipeline

import (
	"context"
	"errors"
	"fmt"
)

// ErrIDsReused is returned when the table hands out ids at or below the position: it was truncated, restored or its counter
// was reset. Rows under such ids would never be seen by the tail.
var ErrIDsReused = errors.New("the table uses ids again that were published")

// refuseReusedIDs stops the shard when the next id of the table is not above the position. Deleting the newest rows leaves
// the counter where it is and is no such case.
func (s *Shard) refuseReusedIDs(ctx context.Context, position uint64) error {
	if position == 0 {
		return nil
	}
	var next uint64
	err := s.retry(ctx, s.readFault, reading, func() (err error) {
		next, err = s.opts.Source.NextID(ctx)
		return err
	})
	if err != nil || next == 0 || next > position {
		return err
	}
	return fmt.Errorf("%w: the next id of %s is %d, the position is %d: was it truncated or restored? "+
		"Stop bridge, then to publish all of the table: bridge checkpoint set %s %s 0; to go on behind another id: the same with that id",
		ErrIDsReused, s.opts.Name, next, position, s.opts.Stream, s.opts.Name)
}

// watchIDs asks for the next id when the highest id of the page lies below the position and has changed since it was asked.
func (s *Shard) watchIDs(ctx context.Context, position uint64) error {
	if s.page.MaxID >= position {
		s.askedAt = nil
		return nil
	}
	if s.askedAt != nil && *s.askedAt == s.page.MaxID {
		return nil
	}
	highest := s.page.MaxID
	if err := s.refuseReusedIDs(ctx, position); err != nil {
		return err
	}
	s.askedAt = &highest
	return nil
}
