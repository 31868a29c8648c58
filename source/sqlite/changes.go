package sqlite

import (
	"context"
	"fmt"

	"bridge/source"
)

// ReadChanges reads along the index that MODIFIED leads.
func (s *shard) ReadChanges(ctx context.Context, q source.ChangeQuery, c *source.Changes) error {
	return fmt.Errorf("%w: no index begins with MODIFIED", source.ErrUnfit)
}
