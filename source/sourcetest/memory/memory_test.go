package memory_test

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"sync"
	"testing"

	"example.org/bridge/source"
	"example.org/bridge/source/sourcetest"
	"example.org/bridge/source/sourcetest/memory"
)

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
		touched := func(t *testing.T, table string, id uint64, at string) []string {
			row := sourcetest.Read(t, d.tables[table], source.Query{After: id - 1, Limit: 1}).Rows[0].Values
			return []string{string(row[1]), string(row[2]), memory.Null, modified(at)}
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
				d.tables[table].Update(id, touched(t, table, id, at)...)
			},
			TouchOpen: func(t *testing.T, table string, id uint64, at string) func(commit bool) {
				d.tables[table].OpenUpdate(id, touched(t, table, id, at)...)
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

func TestIDsThatAreLost(t *testing.T) {
	table := memory.NewTable(source.Spec{ID: "id"}, source.Column{Name: "id", Kind: source.Int})
	table.Skip(3)
	table.Insert()
	if id := table.Insert(); id != 5 {
		t.Errorf("behind three ids that were skipped comes %d", id)
	}
	table.Lose(4)
	if id := table.Insert(); id != 5 {
		t.Errorf("a lost id comes again as %d", id)
	}
	if table.Truncate(); table.Insert() != 1 {
		t.Error("a truncated table does not begin again")
	}
}
