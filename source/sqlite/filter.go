package sqlite

import (
	"context"
	"fmt"

	codes "modernc.org/sqlite/lib"

	"bridge/internal/inspect"
	"bridge/internal/option"
	"bridge/source"
)

// filterFault returns what is wrong with the condition on rows.
func (s *shard) filterFault(ctx context.Context, c *session, columns []tableColumn) (fault string, err error) {
	if s.spec.Filter == "" {
		return "", nil
	}
	if err := source.CheckFilter(s.spec.Filter); err != nil {
		return "it " + err.Error(), nil
	}
	for _, name := range source.DoubleQuoted(s.spec.Filter) {
		if find(columns, name) < 0 && upper(name) != upper(s.table.table) {
			// SQLite would take it for a text, without an error where it is a column misspelt.
			return fmt.Sprintf("it has %q in double quotes, which is not a column: write texts in single quotes", name), nil
		}
	}
	// As a WHERE: in the list of a SELECT an aggregate would make one row of all.
	err = c.query(ctx, "SELECT 1 FROM "+s.table.quoted()+" WHERE "+source.Unmatched(s.spec.Filter)+" LIMIT 0", func(func(string) string) {})
	if number(err) == codes.SQLITE_ERROR {
		return err.Error(), nil
	}
	return "", err
}

// checkFilter adds what is wrong with the condition on rows.
func (t *tableInspection) checkFilter(ctx context.Context, c *session) error {
	fault, err := t.filterFault(ctx, c, t.info.columns)
	if fault != "" {
		t.Add(inspect.Unsafe, inspect.BadFilter, t.spec.Table, "does not fit the condition on its rows: "+fault).Says("correct %s", option.Filter)
	}
	return err
}
