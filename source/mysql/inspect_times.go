package mysql

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"bridge/internal/inspect"
	"bridge/internal/option"
	"bridge/source"
)

// checkTimes looks at the columns with the times of a row.
func (t *tableInspection) checkTimes() {
	zoneless := ""
	for _, r := range []source.Role{{Setting: option.Created, Column: t.spec.Created}, {Setting: option.Modified, Column: t.spec.Modified}} {
		column, ok := t.facts.column(r.Column)
		if r.Column == "" || !ok {
			continue
		}
		kind, precision := parseType(column.columnType)
		switch resolution := (source.Column{Kind: kind, Precision: precision}).Resolution(); {
		case resolution == 0:
			t.Add(inspect.Unsafe, inspect.TimeType, t.spec.Table, fmt.Sprintf("has the column %s of type %s, but %s must be a DATETIME or TIMESTAMP", column.name, column.columnType, r.Setting)).
				Says("correct %s", r.Setting)
		case resolution >= time.Second:
			t.checkPrecision(r, column, resolution)
		}
		if kind == source.DateTime {
			zoneless = column.name
		}
	}
	if zoneless != "" {
		t.checkZone(zoneless)
	}
}

func (t *tableInspection) checkPrecision(r source.Role, column tableColumn, resolution time.Duration) {
	what := fmt.Sprintf("keeps %s (%s) in steps of %s: ", r.Setting, column.name, strings.TrimSuffix(resolution.String(), "0m0s"))
	if r.Setting == option.Created {
		what += "the stability window grows by as much, up to the time since a row was first seen"
	} else {
		what += "two changes within one step look alike until they are read"
	}
	f := t.Add(inspect.Note, inspect.SecondPrecision, t.spec.Table, what).Says("nothing has to be done; for microseconds let an administrator run")
	if definition := finer(definitionOf(t.facts.create, column.name)); definition != "" {
		f.Types("ALTER TABLE %s MODIFY %s;", t.table.quoted(), definition)
	}
}

// checkZone compares the zone in which the server writes times with the one that the stream takes
// them for.
func (t *tableInspection) checkZone(column string) {
	zone := t.expected.Zone
	zone = cmp.Or(zone, time.UTC)
	_, want := time.Now().In(zone).Zone()
	if t.server.zone == nil || t.server.zone.Abs() > 15*time.Hour || *t.server.zone == time.Duration(want)*time.Second {
		return
	}
	t.Add(inspect.Note, inspect.TimeZone, t.spec.Table, fmt.Sprintf("has %s without a zone; the server writes NOW() %s from UTC there, TIME_ZONE is %s", column, *t.server.zone, zone)).
		Says("set %s to the zone in which the column is filled; nothing where the application fills it in %s", option.TimeZone, zone)
}
