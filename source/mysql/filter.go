package mysql

import (
	"context"

	"bridge/internal/inspect"
	"bridge/internal/option"
	"bridge/source"
)

// filterFault returns what is wrong with the condition on rows.
func (s tableSpec) filterFault(ctx context.Context, c conn) (fault string, err error) {
	if s.spec.Filter == "" {
		return "", nil
	}
	if err := source.CheckFilter(s.spec.Filter); err != nil {
		return "it " + err.Error(), nil
	}
	from := "SELECT 1 FROM " + s.table.quoted()
	none := func(func(string) string) {}
	// As a WHERE: in the list of a SELECT an aggregate would make one row of all.
	err = c.query(ctx, from+" WHERE "+source.Unmatched(s.spec.Filter)+" LIMIT 0", none)
	switch number(err) {
	case 0, erLockWait, erDeadlock, erInterrupted, erStatementTimeMariaDB, erStatementTime,
		erTableAccessDenied, erColAccessDenied:
		return "", err
	}
	if without := c.query(ctx, from+" LIMIT 0", none); without != nil {
		return "", without
	}
	return err.Error(), nil
}

// checkFilter adds what is wrong with the condition on rows.
func (t *tableInspection) checkFilter(ctx context.Context, c conn) error {
	fault, err := t.filterFault(ctx, c)
	switch number(err) {
	case erColAccessDenied, erTableAccessDenied:
		t.Add(inspect.Unsafe, inspect.NoGrant, t.spec.Table, "has a condition on columns that this login may not read: "+err.Error()).
			Says("let an administrator run").Types("%s;", t.grant())
		return nil
	}
	if fault != "" {
		t.Add(inspect.Unsafe, inspect.BadFilter, t.spec.Table, "does not fit the condition on its rows: "+fault).Says("correct %s", option.Filter)
	}
	return err
}
