package mysql

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"time"

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
	if err == nil && fault == "" {
		t.checkFilterClock()
	}
	return err
}

// filterClock are the functions that read the clock in the zone of the session.
var filterClock = regexp.MustCompile(`(?i)\b(NOW|SYSDATE|CURDATE|CURTIME|UNIX_TIMESTAMP|CURRENT_DATE|CURRENT_TIME|CURRENT_TIMESTAMP|LOCALTIME|LOCALTIMESTAMP)\b`)

// checkFilterClock warns of a condition that reads the clock, which is UTC, where the columns or
// the other sessions of the server have another zone.
func (t *tableInspection) checkFilterClock() {
	zone := cmp.Or(t.expected.Zone, time.UTC)
	_, offset := time.Now().In(zone).Zone()
	// It was accepted.
	bare, _ := source.Unquoted(t.spec.Filter)
	word := filterClock.FindString(bare)
	if word == "" || offset == 0 && (t.server.zone == nil || *t.server.zone == 0) {
		return
	}
	t.Add(inspect.Warning, inspect.TimeZone, t.spec.Table, fmt.Sprintf("has a condition on its rows with %s, which is the time in UTC in the sessions of bridge, where TIME_ZONE is %s", word, zone)).
		Says("nothing where %s compares it with a TIMESTAMP; compare a DATETIME of another zone with UTC_TIMESTAMP() and the difference, such as UTC_TIMESTAMP() + INTERVAL 8 HOUR", option.Filter)
}
