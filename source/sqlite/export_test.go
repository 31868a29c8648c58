package sqlite

import (
	"context"

	"bridge/source"
)

// Query runs a query on a connection of s and returns the columns of its last row.
func (s *Source) Query(ctx context.Context, query string, columns ...string) (values []string, err error) {
	err = s.do(ctx, func(ctx context.Context, c *session) error {
		return c.query(ctx, query, func(get func(string) string) {
			values = values[:0]
			for _, column := range columns {
				values = append(values, get(column))
			}
		})
	})
	return values, err
}

// PretendUser has s take itself for a process of another user.
func (s *Source) PretendUser(user int) { s.connector.guest.user = user }

// Plan returns how SQLite will run the statement of a page, one step a line.
func Plan(ctx context.Context, reader source.Shard) (steps []string, err error) {
	s := reader.(*shard)
	err = s.source.do(ctx, func(ctx context.Context, c *session) error {
		if err := s.refresh(ctx, c); err != nil {
			return err
		}
		return c.query(ctx, "EXPLAIN QUERY PLAN "+s.query.page, func(get func(string) string) { steps = append(steps, get("detail")) }, "0", "9", "9")
	})
	return steps, err
}
