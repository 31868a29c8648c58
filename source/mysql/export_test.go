package mysql

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"example.org/bridge/source"
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

// costs are the counters of what the server did for a statement: rows read, temporary tables,
// sorts.
var costs = strings.Fields("Handler_read_key Handler_read_next Handler_read_first Handler_read_last Handler_read_prev Handler_read_rnd Handler_read_rnd_next " +
	"Handler_tmp_write Sort_rows Sort_scan Sort_range Select_scan Select_full_join")

// cost runs something in a session and returns those of costs that are not 0.
func cost(ctx context.Context, s *shard, run func(ctx context.Context, c conn) error) (map[string]int, error) {
	counters := make(map[string]int)
	err := s.source.do(ctx, s.source.db, func(ctx context.Context, c conn) error {
		if err := s.refresh(ctx, c); err != nil {
			return err
		}
		// The first statement about a table has MySQL read its dictionary, too.
		if err := run(ctx, c); err != nil {
			return err
		}
		if err := c.exec(ctx, "FLUSH STATUS"); err != nil {
			return err
		}
		if err := run(ctx, c); err != nil {
			return err
		}
		err := c.query(ctx, "SHOW SESSION STATUS", func(get func(string) string) {
			if n, err := strconv.Atoi(get("Value")); err == nil && n != 0 && slices.Contains(costs, get("Variable_name")) {
				counters[get("Variable_name")] = n
			}
		})
		if !s.source.connector.server.Load().isMariaDB() {
			// MySQL counts the first and the last entry of an index as looked up, too.
			counters["Handler_read_key"] -= counters["Handler_read_first"] + counters["Handler_read_last"]
		}
		return err
	})
	return counters, err
}

// ReadCost reads a page and returns what the server counted for that statement.
func ReadCost(ctx context.Context, reader source.Shard, q source.Query, p *source.Page) (map[string]int, error) {
	s := reader.(*shard)
	return cost(ctx, s, func(ctx context.Context, c conn) error {
		p.Reset()
		return s.readPage(ctx, c, q, p)
	})
}

// ChangesCost reads changes and returns what the server counted for that statement.
func ChangesCost(ctx context.Context, reader source.Shard, q source.ChangeQuery, found *source.Changes) (map[string]int, error) {
	s := reader.(*shard)
	return cost(ctx, s, func(ctx context.Context, c conn) error { return s.readChanges(ctx, c, q, found) })
}

// Interrupt leaves a shard as a read does that was to read all rows of an id and failed.
func Interrupt(s source.Shard, id uint64) { s.(*shard).reader.again = id }
