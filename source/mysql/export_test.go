package mysql

import (
	"context"
	"strconv"

	"bridge/source"
)

// Query runs a query in a session of s and returns the columns of its first row.
func (s *Source) Query(ctx context.Context, query string, columns ...string) (values []string, err error) {
	err = s.do(ctx, s.db, func(ctx context.Context, c conn) error {
		return c.query(ctx, query, func(get func(string) string) {
			for _, column := range columns {
				values = append(values, get(column))
			}
		})
	})
	return values, err
}

// ReadCost reads a page and returns what the server counted for that statement: rows read, temporary tables, sorts.
func ReadCost(ctx context.Context, reader source.Shard, q source.Query, p *source.Page) (map[string]int, error) {
	s := reader.(*shard)
	cost := make(map[string]int)
	err := s.source.do(ctx, s.source.db, func(ctx context.Context, c conn) error {
		if err := s.refresh(ctx, c); err != nil {
			return err
		}
		if err := c.exec(ctx, "FLUSH STATUS"); err != nil {
			return err
		}
		p.Reset()
		if err := s.readPage(ctx, c, q, p); err != nil {
			return err
		}
		return c.query(ctx, "SHOW SESSION STATUS", func(get func(string) string) {
			if n, err := strconv.Atoi(get("Value")); err == nil {
				cost[get("Variable_name")] = n
			}
		})
	})
	return cost, err
}
