package mysql

import (
	"context"
	"fmt"
	"slices"

	"example.org/bridge/source"
	"example.org/bridge/source/internal/sqltable"
)

var _ source.Describer = (*Source)(nil)

// TableNames implements [source.Describer].
func (s *Source) TableNames(ctx context.Context) (names []string, err error) {
	const tables = "SELECT TABLE_SCHEMA AS db, TABLE_NAME AS name FROM information_schema.TABLES WHERE TABLE_TYPE IN ('BASE TABLE', 'SYSTEM VERSIONED')" +
		" AND TABLE_SCHEMA NOT IN ('information_schema', 'mysql', 'performance_schema', 'sys') ORDER BY TABLE_SCHEMA, TABLE_NAME LIMIT 10000"
	err = s.do(ctx, s.db, func(ctx context.Context, c conn) error {
		names = nil
		return c.query(ctx, tables, func(get func(string) string) {
			name := get("name")
			if db := get("db"); db != s.options.Database {
				if s.options.Database != "" {
					return
				}
				name = db + "." + name
			}
			names = append(names, name)
		})
	})
	if err != nil {
		return nil, fmt.Errorf("list the tables: %w", err)
	}
	return names, nil
}

// Describe implements [source.Describer].
func (s *Source) Describe(ctx context.Context, table string) (source.Description, error) {
	shard := s.newShard(source.Spec{Table: table})
	if shard.table.database == "" {
		return source.Description{}, errNoDatabase
	}
	t := shard.inspection(source.Expected{Spec: shard.spec})
	err := s.do(ctx, s.db, func(ctx context.Context, c conn) error {
		if err := t.readColumns(ctx, c); err != nil {
			return err
		}
		// With a counter, the first column of the primary key is an id even beside others.
		if at := slices.IndexFunc(t.Table.Columns, func(c sqltable.Column) bool { return c.Numbered }); at >= 0 {
			t.Spec.ID = t.Table.Columns[at].Name
			if err := t.readColumns(ctx, c); err != nil {
				return err
			}
		}
		return t.readIndexes(ctx, c)
	})
	if err != nil {
		return source.Description{}, fmt.Errorf("read the columns of %s: %w", table, shard.explain(err))
	}
	return t.Describe(), nil
}
