package mysql

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"bridge/internal/inspect"
	"bridge/internal/option"
	"bridge/source"
)

const (
	// offsetRows is how many of the newest rows are compared, offsetLeast how many of them must
	// agree.
	offsetRows, offsetLeast = 20, 3
	// offsetStep is the unit of the offsets of time zones, offsetSlack how far a time may be from a
	// multiple.
	offsetStep, offsetSlack = 15 * time.Minute, time.Minute
)

// rowTimes are the CREATED and MODIFIED of a row, zero where it has none.
type rowTimes struct{ created, modified time.Time }

// checkOffsets looks for a MODIFIED that is hours off, as sessions in another time zone write it
// into a DATETIME: the second cursor sees a change of the future when its time comes, and one of
// long ago not at all.
func (t *tableInspection) checkOffsets(ctx context.Context, c conn) error {
	column, ok := t.facts.column(t.spec.Modified)
	if t.spec.Modified == "" || !ok || !t.expected.Updates {
		return nil
	}
	now, newest, rows, err := t.readTimes(ctx, c, column)
	if err != nil {
		return err
	}
	what := ""
	if ahead := newest.Sub(now); ahead > offsetSlack {
		what = fmt.Sprintf("has a MODIFIED (%s) %s in the future: such an update is published when its time comes, or by the next reconcile", column.name, ahead.Round(time.Minute))
	} else if behind := behindCreated(rows); behind > 0 {
		what = fmt.Sprintf("has MODIFIED (%s) %s before CREATED in its newest rows: updates look that old, and what is older than ten minutes waits for the next reconcile", column.name, behind)
	}
	if what != "" {
		t.Add(inspect.Warning, inspect.TimeOffset, t.spec.Table, what).
			Says("let all sessions that write have one time zone, and set %s to it; or make the column a TIMESTAMP, which has none", option.TimeZone)
	}
	return nil
}

// readTimes reads the database's clock, the newest MODIFIED where an index has it, and the times of
// the newest rows.
func (t *tableInspection) readTimes(ctx context.Context, c conn, modified tableColumn) (now, newest time.Time, rows []rowTimes, err error) {
	err = c.query(ctx, "SELECT UTC_TIMESTAMP(6) AS now", func(get func(string) string) { now = t.timeOf("datetime(6)", get("now"), time.UTC) })
	if err != nil {
		return now, newest, nil, err
	}
	if modifiedIndex(t.facts.indexes, t.spec) != "" {
		query := "SELECT MAX(" + quoteName(modified.name) + ") AS newest FROM " + t.table.quoted()
		err = c.query(ctx, query, func(get func(string) string) { newest = t.timeOf(modified.columnType, get("newest"), t.expected.Zone) })
		if err != nil {
			return now, newest, nil, err
		}
	}
	created, ok := t.facts.column(t.spec.Created)
	if t.spec.Created == "" || !ok {
		return now, newest, nil, nil
	}
	query := fmt.Sprintf("SELECT %s AS created, %s AS modified FROM %s ORDER BY %s DESC LIMIT %d",
		quoteName(created.name), quoteName(modified.name), t.table.quoted(), quoteName(t.spec.ID), offsetRows)
	err = c.query(ctx, query, func(get func(string) string) {
		rows = append(rows, rowTimes{t.timeOf(created.columnType, get("created"), t.expected.Zone), t.timeOf(modified.columnType, get("modified"), t.expected.Zone)})
	})
	return now, newest, rows, err
}

// timeOf reads a value of a column; zero where it is none.
func (t *tableInspection) timeOf(columnType, value string, zone *time.Location) time.Time {
	zone = cmp.Or(zone, time.UTC)
	kind, precision := parseType(columnType)
	at, ok := source.Column{Kind: kind, Precision: precision}.Time([]byte(value), zone)
	if !ok {
		return time.Time{}
	}
	return at
}

// behindCreated returns by how much MODIFIED lies before CREATED, where it does so by the same
// multiple of 15 minutes in all rows that have both; 0 where it does not.
func behindCreated(rows []rowTimes) time.Duration {
	var behind time.Duration
	n := 0
	for _, r := range rows {
		if r.created.IsZero() || r.modified.IsZero() {
			continue
		}
		d := r.created.Sub(r.modified)
		steps := d.Round(offsetStep)
		if steps <= 0 || (d-steps).Abs() > offsetSlack || behind != 0 && behind != steps {
			return 0
		}
		behind = steps
		n++
	}
	if n < offsetLeast {
		return 0
	}
	return behind
}
