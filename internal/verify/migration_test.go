package verify_test

import (
	"slices"
	"testing"

	"example.org/bridge/event"
	"example.org/bridge/source"
	"example.org/bridge/source/sourcetest/memory"
)

// TestMigrations has rows published before a migration and after it: what it explains is not a
// fault, and an event from before it that was altered is still found.
func TestMigrations(t *testing.T) {
	const created = "2026-03-01 10:20:30"
	column := func(name string, kind source.Kind) source.Column { return source.Column{Name: name, Kind: kind} }
	before := []source.Column{column("id", source.Int), column("name", source.Text), column("code", source.Int), column("app_name", source.Text),
		{Name: "at", Kind: source.DateTime}, {Name: "created", Kind: source.DateTime}}
	values := []string{"7", "x", "2026-02-01 00:00:01", created}
	with := func(more ...source.Column) []source.Column {
		return append(append([]source.Column(nil), before...), more...)
	}
	replaced := func(c source.Column) []source.Column {
		list := with()
		for i := range list {
			if list[i].Name == c.Name {
				list[i] = c
			}
		}
		return list
	}
	for _, c := range []struct {
		name string
		// columns are the columns of the table then, nil for the same, values a row's but for the
		// key.
		columns []source.Column
		values  []string
		// options are changed, too.
		options func(*event.Options)
		// release and capability are what is found; a capability row has no newer event.
		release, capability string
	}{
		{name: "nothing"},
		{name: "ADD COLUMN NULL", columns: with(column("more", source.Int)), values: values},
		{name: "ADD COLUMN NOT NULL DEFAULT 5", columns: with(column("more", source.Int)), values: append(values[:4:4], "5"), release: " | changed 3", capability: "stale 3"},
		{name: "ADD COLUMN AFTER", columns: []source.Column{before[0], before[1], column("more", source.Int), before[2], before[3], before[4], before[5]}, values: []string{"\x00", "7", "x", values[2], created}, release: " | changed 3", capability: "stale 3"},
		{name: "DROP COLUMN", columns: []source.Column{before[0], before[1], before[2], before[4], before[5]}, values: []string{"7", values[2], created}, release: " | changed 3", capability: "stale 3"},
		{name: "INT to VARCHAR", columns: replaced(column("code", source.Text)), values: values},
		{name: "INT to DECIMAL", columns: replaced(column("code", source.Decimal)), values: append([]string{"7.00"}, values[1:]...), release: " | changed 3", capability: "stale 3"},
		{name: "DATETIME to DATETIME(3)", columns: replaced(source.Column{Name: "at", Kind: source.DateTime, Precision: 3}), values: []string{"7", "x", values[2] + ".000", created}, release: " | changed 3", capability: "stale 3"},
		{name: "CREATED to DATETIME(6)", columns: replaced(source.Column{Name: "created", Kind: source.DateTime, Precision: 6}), values: []string{"7", "x", values[2], created + ".000000"}},
		{name: "VARCHAR to VARBINARY", columns: replaced(column("app_name", source.Binary)), values: values},
		{name: "FIELDS renames", options: func(o *event.Options) {
			o.Fields = []event.Field{{Column: "id"}, {Column: "name"}, {Column: "code", Member: "number"}, {Column: "app_name"}, {Column: "at"}, {Column: "created"}}
		}},
		{name: "FIELDS renames the key", options: func(o *event.Options) {
			o.Fields = []event.Field{{Column: "id"}, {Column: "name", Member: "entity"}, {Column: "code"}, {Column: "app_name"}, {Column: "at"}, {Column: "created"}}
		}},
		{name: "FIELDS leaves out", options: func(o *event.Options) {
			o.Fields = []event.Field{{Column: "name"}, {Column: "code"}, {Column: "at"}, {Column: "created"}}
		}, release: " | changed 3", capability: "stale 3"},
		{name: "EXCLUDE", options: func(o *event.Options) { o.Exclude = []string{"app_name"} }, release: " | changed 3", capability: "stale 3"},
		{name: "EXCLUDE of a column that is not read", columns: []source.Column{before[0], before[1], before[2], before[4], before[5]}, values: []string{"7", values[2], created},
			options: func(o *event.Options) { o.Exclude = []string{"app_name"} }, release: " | changed 3", capability: "stale 3"},
		{name: "MASK", columns: replaced(source.Column{Name: "code", Kind: source.Text, Mask: "redact"}), values: append([]string{"****"}, values[1:]...), release: " | changed 3", capability: "stale 3"},
	} {
		for _, kind := range []event.Kind{event.Release, event.Capability} {
			migrated := func(t *testing.T) *world {
				w := newWorld(t, kind)
				spec := source.Spec{ID: "id", Key: []string{"name"}, Created: "created"}
				w.table = memory.NewTable(spec, before...)
				w.stamp.Epoch, w.stamp.Seq = 7, 1
				for _, name := range []string{"a", "b", "c"} {
					w.publish(w.table.Insert(append([]string{name}, values...)...))
				}
				if c.columns != nil {
					w.table = memory.NewTable(spec, c.columns...)
					for _, name := range []string{"a", "b", "c"} {
						w.table.Insert(append([]string{name}, c.values...)...)
					}
				}
				if c.options != nil {
					c.options(&w.options)
				}
				w.encoder = w.newEncoder()
				row := values
				if c.columns != nil {
					row = c.values
				}
				w.publish(w.table.Insert(append([]string{"d"}, row...)...))
				return w
			}
			found := map[event.Kind]string{event.Release: c.release, event.Capability: c.capability}[kind]
			t.Run(c.name+": "+string(kind), func(t *testing.T) {
				w := migrated(t)
				want(t, w.check(), found)
				for name, tamper := range map[string]func(w *world){
					"a value":   func(w *world) { w.bus.edit(t, 1, `"code":7`, `"code":8`) },
					"CREATED":   func(w *world) { w.bus.edit(t, 1, "03-01", "03-02") },
					"meta.time": func(w *world) { w.bus.edit(t, 1, `"time":1`, `"time":2`) },
				} {
					w := migrated(t)
					tamper(w)
					r := w.check()
					if altered := examplesOf(r, "altered"); len(altered) != 1 || altered[0].At != 1 {
						t.Errorf("%s was changed: found %q", name, summary(r))
					}
				}
			})
		}
	}
}

// TestATimeThatIsNoMember has meta.time from a MODIFIED that FIELDS leaves out.
func TestATimeThatIsNoMember(t *testing.T) {
	w := newWorld(t, event.Capability)
	times := []source.Column{{Name: "created", Kind: source.Timestamp}, {Name: "modified", Kind: source.Timestamp}}
	w.table = memory.NewTable(source.Spec{ID: "id", Key: []string{"name"}, Created: "created", Modified: "modified"}, append(slices.Clone(list[:2]), times...)...)
	w.options.Fields = []event.Field{{Column: "name"}, {Column: "created"}}
	w.encoder = w.newEncoder()
	w.publish(w.table.Insert("a", "2026-03-01 02:20:30", "2026-03-02 02:20:30"))
	want(t, w.check(), "")
}
