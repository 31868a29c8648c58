package source

import "strings"

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
