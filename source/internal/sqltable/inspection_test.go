package sqltable_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"example.org/bridge/internal/inspect"
	"example.org/bridge/source"
	"example.org/bridge/source/internal/sqltable"
)

func TestAPositionIsComparedWithTheIDsOfTheTable(t *testing.T) {
	for _, c := range []struct {
		position, start, highest, next uint64
		want                           []string
	}{
		{0, 0, 0, 1, nil},
		{0, 0, 0, 0, nil},
		{9, 0, 9, 10, nil},
		{9, 0, 5, 10, nil},
		{9, 0, 9, 9, []string{"unsafe ids-reused"}},
		{1<<64 - 1, 0, 3, 4, []string{"unsafe ids-reused"}},
		{9, 0, 9, 0, nil},
		{9, 0, 8, 0, []string{"warning position-ahead"}},
		{9 + inspect.StrayAbove, 0, 9, 10 + inspect.StrayAbove, nil},
		{10 + inspect.StrayAbove, 0, 9, 11 + inspect.StrayAbove, []string{"warning stray-id"}},
		{0, 9, 9, 10, nil},
		{0, 9, 8, 10, []string{"warning start-ahead"}},
		{0, 9, 8, 0, []string{"warning start-ahead"}},
		{0, 1<<64 - 1, 8, 9, []string{"unsafe start-ahead"}},
	} {
		r := sqltable.Inspection{Expected: source.Expected{Position: &c.position, Start: c.start, Stream: "orders", Shard: "t"}}
		r.CheckPosition(c.highest, c.next, "truncated")
		var codes []string
		for _, f := range r.Findings {
			codes = append(codes, fmt.Sprintf("%s %s", f.Severity, f.Code))
			want := fmt.Sprintf("bridge checkpoint set orders t %d", c.highest)
			if f.Code == inspect.StartAhead {
				want = ""
			} else if f.Code != inspect.StrayID {
				// Rows up to the highest id may be others than those that were published.
				want = "bridge checkpoint set orders t 0"
			}
			if f.Statement != want {
				t.Errorf("to type is %q, want %q", f.Statement, want)
			}
			if f.Code == inspect.IDsReused && !strings.Contains(f.Do, "was truncated or restored") {
				t.Errorf("%q lacks the word of the database", f.Do)
			}
		}
		if !slices.Equal(codes, c.want) {
			t.Errorf("position %d, START %d, highest %d, next %d: found %v, want %q", c.position, c.start, c.highest, c.next, r.Findings, c.want)
		}
	}
	var r sqltable.Inspection
	if r.CheckPosition(9, 9, "truncated"); len(r.Findings) > 0 {
		t.Errorf("found %v without a checkpoint", r.Findings)
	}
}

func TestAKeyIsCheckedByItsTypeAndItsIndex(t *testing.T) {
	over := func(index sqltable.Index, columns ...string) sqltable.Index {
		index.Name, index.Unique = "u", true
		for _, column := range columns {
			index.Columns = append(index.Columns, sqltable.IndexColumn{Name: column})
		}
		return index
	}
	for _, c := range []struct {
		name    string
		indexes []sqltable.Index
		key     []string
		want    []string
	}{
		{"a unique index", []sqltable.Index{over(sqltable.Index{}, "a")}, []string{"a"}, nil},
		{"a hash", []sqltable.Index{over(sqltable.Index{Unordered: true}, "a")}, []string{"a"}, []string{"warning key-index"}},
		{"an ignored index", []sqltable.Index{over(sqltable.Index{Ignored: true}, "a")}, []string{"a"}, []string{"warning key-index"}},
		{"an ignored index beside a better one", []sqltable.Index{over(sqltable.Index{Ignored: true}, "a"), over(sqltable.Index{}, "b", "a")}, []string{"a", "b"}, nil},
		{"a column that may be NULL beside one that is not", []sqltable.Index{over(sqltable.Index{}, "null"), over(sqltable.Index{}, "b")}, []string{"null", "b"}, nil},
		{"a column that may be NULL", []sqltable.Index{over(sqltable.Index{}, "null")}, []string{"null", "b"}, []string{"note key-null"}},
		{"a collation of the application's own", []sqltable.Index{over(sqltable.Index{Foreign: true}, "a")}, []string{"a"}, []string{"unsafe key-not-unique"}},
		{"an approximate number", []sqltable.Index{over(sqltable.Index{}, "f")}, []string{"f"}, []string{"unsafe key-type"}},
		{"no index", nil, []string{"a"}, []string{"unsafe key-not-unique"}},
	} {
		var table sqltable.Table
		for _, name := range []string{"a", "b", "null", "f"} {
			column := sqltable.Column{Column: source.Column{Name: name, Kind: source.Int}, Nullable: name == "null"}
			if name == "f" {
				column.Kind = source.Float
			}
			table.Columns = append(table.Columns, column)
		}
		table.Indexes = c.indexes
		r := sqltable.Inspection{Table: table, Spec: source.Spec{Key: c.key, UniqueKey: true}, Dialect: sqltable.Dialect{AddUnique: func(...string) string { return "" }}}
		r.CheckKey()
		var codes []string
		for _, f := range r.Findings {
			codes = append(codes, fmt.Sprintf("%s %s", f.Severity, f.Code))
		}
		if !slices.Equal(codes, c.want) {
			t.Errorf("%s: found %v, want %q", c.name, r.Findings, c.want)
		}
	}
}

// TestTheFormOfAKey: types that write one value differently in a key are told apart.
func TestTheFormOfAKey(t *testing.T) {
	for want, column := range map[string]source.Column{
		"": {Kind: source.Decimal}, "k with 2 decimals": {Kind: source.Decimal, Precision: 2}, "k in base64": {Kind: source.Binary},
		"k with 0 decimals": {Kind: source.DateTime}, "k with 6 decimals": {Kind: source.Timestamp, Precision: 6},
	} {
		column.Name = "k"
		r := sqltable.Inspection{Spec: source.Spec{Key: []string{"k"}}}
		if r.Table.Columns = []sqltable.Column{{Column: column}}; r.KeyForm() != want {
			t.Errorf("%+v: %q, want %q", column, r.KeyForm(), want)
		}
	}
}

// TestHowRowsWithAFormatAreFound: where some of them wait for a reconcile, it is a warning.
func TestHowRowsWithAFormatAreFound(t *testing.T) {
	const note, warning = "note id-order", "warning id-order"
	for _, c := range []struct {
		format             source.IDFormat
		modified, nullable bool
		blind              string
		want               []string
	}{
		{source.ULID, false, false, "", []string{note}},
		{source.ULID, false, false, "a replica", []string{note, warning}},
		{source.ULID, true, false, "", []string{note}},
		{source.ULID, true, true, "a replica", []string{note, warning, warning}},
		{source.UUID, false, false, "a replica", []string{note}},
		{source.UUID, true, false, "a replica", []string{note, warning}},
	} {
		r := sqltable.Inspection{Spec: source.Spec{ID: "id", IDFormat: c.format}}
		r.Table.Indexes = []sqltable.Index{{Name: "PRIMARY", Unique: true, Columns: []sqltable.IndexColumn{{Name: "id"}}}, {Name: "m", Columns: []sqltable.IndexColumn{{Name: "m"}}}}
		r.Table.Columns = []sqltable.Column{{Column: source.Column{Name: "id", Kind: source.Text}}, {Column: source.Column{Name: "m"}, Nullable: c.nullable}}
		if c.modified {
			r.Spec.Modified = "m"
		}
		if err := r.CheckFormat(source.IDColumn{Format: c.format}, c.blind, func(bool, func([]byte)) error { return nil }); err != nil {
			t.Error(err)
		}
		var codes []string
		for _, f := range r.Findings {
			codes = append(codes, fmt.Sprintf("%s %s", f.Severity, f.Code))
		}
		if !slices.Equal(codes, c.want) {
			t.Errorf("%+v: found %v", c, r.Findings)
		}
	}
}
