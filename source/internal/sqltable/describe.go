package sqltable

import (
	"regexp"
	"slices"
	"strings"

	"example.org/bridge/source"
)

// Describe says how the table could become a stream.
func (t *Inspection) Describe() source.Description {
	var d source.Description
	if id := t.bestID(); id != nil {
		d.ID, d.Numbered = id.Name, id.Numbered
	}
	d.Key = t.bestKey(d.ID)
	modified := t.bestTime(func(c Column) bool { return c.Moves }, func(c Column) bool { return saysChange(c.Name) })
	d.Modified, d.Moves = modified.Name, modified.Moves
	d.Created = t.bestTime(func(c Column) bool { return !c.Moves && c.Name != d.Modified && saysCreation(c.Name) }).Name
	d.Indexed = t.Table.Modified(source.Spec{ID: d.ID, Modified: d.Modified}) != nil
	if at := slices.IndexFunc(t.Table.Columns, func(c Column) bool { return !c.Hidden && saysDeletion(c.Name) }); at >= 0 {
		d.Deleted = t.Table.Columns[at].Name
	}
	return d
}

// bestID returns a unique integer column: rather one by which the database numbers rows, then the
// first index, which is the primary key. It is nil if there is none.
func (t *Inspection) bestID() (best *Column) {
	rank := func(c *Column) int {
		switch index := t.Table.Unique(c.Name); {
		case index == nil, c.Hidden, c.Nullable, !t.Dialect.IsID(*c):
			return 0
		case c.Numbered:
			return 3
		case index == &t.Table.Indexes[0]:
			return 2
		}
		return 1
	}
	for i := range t.Table.Columns {
		if c := &t.Table.Columns[i]; rank(c) > 0 && (best == nil || rank(c) > rank(best)) {
			best = c
		}
	}
	return best
}

// bestKey returns the smallest unique index that identifies rows without the id, nil for none.
func (t *Inspection) bestKey(id string) (best []string) {
	for i := range t.Table.Indexes {
		index := &t.Table.Indexes[i]
		if !index.Unique || !index.usable() || best != nil && len(index.Columns) >= len(best) {
			continue
		}
		var names []string
		for _, part := range index.Columns {
			column, ok := t.Table.Column(part.Name)
			if !ok || part.Prefix || column.Nullable || column.Hidden || column.Kind == source.Float || t.Table.Same(column.Name, id) {
				break
			}
			names = append(names, column.Name)
		}
		if len(names) == len(index.Columns) {
			best = names
		}
	}
	return best
}

// bestTime returns the first column of times that fits the first of the conditions that one fits.
func (t *Inspection) bestTime(fits ...func(Column) bool) Column {
	for _, fit := range fits {
		for _, c := range t.Table.Columns {
			if !c.Hidden && t.Dialect.IsTime(c) && fit(c) {
				return c
			}
		}
	}
	return Column{}
}

// saysCreation reports whether a column is named after the time at which its row was made, as
// created_at, gmt_create and insert_time are, and created_by is not.
func saysCreation(name string) bool {
	name = strings.ToLower(name)
	return name == "ctime" || creation.MatchString(name) && moment.MatchString(name)
}

func saysDeletion(name string) bool {
	name = strings.ToLower(name)
	return deletion.MatchString(name) && !strings.HasSuffix(name, "by")
}

// Names are matched in lower case.
var (
	creation = regexp.MustCompile(`creat|insert|added`)
	moment   = regexp.MustCompile(`(?:at|time|ts|on|date|stamp|create|created|inserted|added)$`)
	deletion = regexp.MustCompile(`delet|removed|del_flag`)
)
