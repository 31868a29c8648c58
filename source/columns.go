package source

import "strings"

// SetRoles sets the indexes of the columns that spec names. Index returns that of the column that a
// role names; it is not asked for "".
func (c *Columns) SetRoles(spec Spec, index func(name string) int) {
	at := func(name string) int {
		if name == "" {
			return -1
		}
		return index(name)
	}
	c.ID, c.Created, c.Modified, c.Deleted = at(spec.ID), at(spec.Created), at(spec.Modified), at(spec.Deleted)
	c.Key = nil
	for _, key := range spec.Key {
		c.Key = append(c.Key, at(key))
	}
	if len(c.Key) == 0 {
		c.Key = []int{c.ID}
	}
}

// Changes returns the differences from c to now as log attributes: the names of columns added,
// dropped and altered.
func (c *Columns) Changes(now *Columns) []any {
	var added, dropped, altered []string
	was := make(map[string]Column)
	for _, column := range c.List {
		was[column.Name] = column
	}
	for _, column := range now.List {
		before, ok := was[column.Name]
		switch {
		case !ok:
			added = append(added, column.Name)
		case before != column:
			altered = append(altered, column.Name)
		}
		delete(was, column.Name)
	}
	for _, column := range c.List {
		if _, gone := was[column.Name]; gone {
			dropped = append(dropped, column.Name)
		}
	}
	var attributes []any
	for _, change := range []struct {
		key   string
		names []string
	}{{"added", added}, {"dropped", dropped}, {"altered", altered}} {
		if len(change.names) > 0 {
			attributes = append(attributes, change.key, strings.Join(change.names, ","))
		}
	}
	return attributes
}
