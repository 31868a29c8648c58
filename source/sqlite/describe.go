package sqlite

import (
	"context"
	"fmt"

	"example.org/bridge/source"
)

var _ source.Describer = (*Source)(nil)

// TableNames implements [source.Describer].
func (s *Source) TableNames(ctx context.Context) (names []string, err error) {
	err = s.do(ctx, func(ctx context.Context, c *session) error {
		names = nil
		const tables = "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name LIMIT 10000"
		return c.query(ctx, tables, func(get func(string) string) { names = append(names, get("name")) })
	})
	if err != nil {
		return nil, fmt.Errorf("list the tables: %w", explain(err))
	}
	return names, nil
}

// Describe implements [source.Describer].
func (s *Source) Describe(ctx context.Context, table string) (source.Description, error) {
	shard := &shard{source: s, spec: source.Spec{Table: table}, table: nameTable(table)}
	var t *inspection
	err := s.do(ctx, func(ctx context.Context, c *session) error {
		t = shard.inspection(source.Expected{Spec: shard.spec})
		return t.read(ctx, c)
	})
	if err != nil {
		return source.Description{}, fmt.Errorf("read the columns of %s: %w", table, explain(err))
	}
	return t.Inspection.Describe(), nil
}
