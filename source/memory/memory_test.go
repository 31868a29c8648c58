package memory_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync"
	"testing"

	"bridge/source"
	"bridge/source/memory"
	"bridge/source/sourcetest"
)

// database is a source of tables in memory.
type database struct {
	mu     sync.Mutex
	tables map[string]*memory.Table
}

func (d *database) Shard(spec source.Spec) source.Shard {
	d.mu.Lock()
	defer d.mu.Unlock()
	if table := d.tables[spec.Table]; table != nil {
		return table.As(spec)
	}
	return missing{memory.NewTable(spec), fmt.Errorf("%w: no table %q", source.ErrMissing, spec.Table)}
}

// missing is a table that is not there.
type missing struct {
	source.Shard
	err error
}

func (m missing) Read(context.Context, source.Query, *source.Page) error { return m.err }
func (m missing) NextID(context.Context) (uint64, error)                 { return 0, m.err }

func (*database) Ready(context.Context) error { return nil }
func (*database) Close() error                { return nil }

func TestTable(t *testing.T) {
	sourcetest.Run(t, func(t *testing.T) sourcetest.Fixture {
		d := &database{tables: make(map[string]*memory.Table)}
		create := func(name string, columns ...source.Column) *memory.Table {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.tables[name] = memory.NewTable(source.Spec{Table: name, ID: "id"}, append([]source.Column{{Name: "id", Kind: source.Int}}, columns...)...)
			return d.tables[name]
		}
		values := func(table *memory.Table, row sourcetest.Row) []string {
			note := memory.Null
			if row.Note != nil {
				note = *row.Note
			}
			created := source.Column{Kind: source.Timestamp, Precision: 6}
			return []string{row.Name, note, created.Text(table.Clock(), nil)}
		}
		modified := func(text string) string {
			if text == "" {
				return memory.Null
			}
			return text
		}
		return sourcetest.Fixture{
			Source:    d,
			HighestID: math.MaxUint64,
			NewTable: func(t *testing.T) string {
				table := create("suite", source.Column{Name: "name", Kind: source.Text}, source.Column{Name: "note", Kind: source.Text},
					source.Column{Name: "created", Kind: source.Timestamp, Precision: 6})
				table.Repeated, table.Unindexed = true, true
				return "suite"
			},
			Insert: func(t *testing.T, table string, rows ...sourcetest.Row) {
				for _, row := range rows {
					d.tables[table].InsertAt(row.ID, values(d.tables[table], row)...)
				}
			},
			NewKeyed: func(t *testing.T) string {
				create("states", source.Column{Name: "name", Kind: source.Text}, source.Column{Name: "part", Kind: source.Int},
					source.Column{Name: "ratio", Kind: source.Float}, source.Column{Name: "modified", Kind: source.DateTime, Precision: 3})
				return "states"
			},
			InsertKeyed: func(t *testing.T, table string, rows ...sourcetest.KeyedRow) {
				for _, row := range rows {
					d.tables[table].InsertAt(row.ID, row.Name, strconv.FormatInt(row.Part, 10), memory.Null, modified(row.Modified))
				}
			},
			Touch: func(t *testing.T, table string, id uint64, at string) {
				var p source.Page
				if err := d.tables[table].Read(t.Context(), source.Query{After: id - 1, Limit: 1}, &p); err != nil {
					t.Fatal(err)
				}
				row := p.Rows[0].Values
				d.tables[table].Update(id, string(row[1]), string(row[2]), memory.Null, modified(at))
			},
			TouchOpen: func(t *testing.T, table string, id uint64, at string) func(commit bool) {
				var p source.Page
				if err := d.tables[table].Read(t.Context(), source.Query{After: id - 1, Limit: 1}, &p); err != nil {
					t.Fatal(err)
				}
				row := p.Rows[0].Values
				d.tables[table].OpenUpdate(id, string(row[1]), string(row[2]), memory.Null, modified(at))
				return func(commit bool) {
					if commit {
						d.tables[table].CommitUpdate(id)
					} else {
						d.tables[table].RollbackUpdate(id)
					}
				}
			},
			AddColumn: func(t *testing.T, table, column string) {
				d.tables[table].AddColumn(source.Column{Name: column, Kind: source.Text})
			},
			DropColumn: func(t *testing.T, table, column string) { d.tables[table].DropColumn(column) },
			Uncommitted: func(t *testing.T, table string, row sourcetest.Row) func() {
				id := d.tables[table].Open(values(d.tables[table], row)...)
				return func() { d.tables[table].Commit(id) }
			},
		}
	})
}

func TestReplaceAndUpdate(t *testing.T) {
	spec := source.Spec{ID: "id", Key: []string{"name"}, UniqueKey: true}
	table := memory.NewTable(spec, source.Column{Name: "id", Kind: source.Int}, source.Column{Name: "name", Kind: source.Text}, source.Column{Name: "v", Kind: source.Text})
	state := func() (rows []string) {
		var p source.Page
		if err := table.Read(t.Context(), source.Query{Limit: 99}, &p); err != nil {
			t.Fatal(err)
		}
		for _, r := range p.Rows {
			rows = append(rows, fmt.Sprintf("%d %q", r.ID, r.Values[1:]))
		}
		return rows
	}
	table.Insert("a", "1")
	var before source.Page
	if err := table.Read(t.Context(), source.Query{Limit: 9}, &before); err != nil {
		t.Fatal(err)
	}
	table.Update(1, "a", "2")
	if got := string(before.Rows[0].Values[2]); got != "1" {
		t.Errorf("a page that was read before the update shows %q", got)
	}
	if id := table.Replace("a", "3"); id != 2 {
		t.Errorf("replaced under the id %d", id)
	}
	table.Replace("A", "4")
	if got, want := state(), []string{`2 ["a" "3"]`, `3 ["A" "4"]`}; !slices.Equal(got, want) {
		t.Errorf("rows %s, want %s", got, want)
	}
	table.Loose = true
	table.Replace("a", "5")
	if got, want := state(), []string{`4 ["a" "5"]`}; !slices.Equal(got, want) {
		t.Errorf("where case does not count the rows are %s, want %s", got, want)
	}
}
