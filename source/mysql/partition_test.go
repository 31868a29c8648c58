package mysql_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"example.org/bridge/internal/inspect"
	"example.org/bridge/source"
	"example.org/bridge/source/sourcetest"
	"example.org/bridge/tests/must"
	"example.org/bridge/tests/testenv"
)

const byDay = " PARTITION BY RANGE COLUMNS(day) (PARTITION p0 VALUES LESS THAN ('2026-01-02'), PARTITION p1 VALUES LESS THAN ('2026-01-03'), PARTITION p2 VALUES LESS THAN (MAXVALUE))"

// newDays makes a table whose rows fall into three partitions in turn.
func newDays(t *testing.T, b base, rows int) source.Shard {
	t.Helper()
	b.replaceTable(t, "days", "(id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT, day DATE NOT NULL, name VARCHAR(20) NOT NULL, PRIMARY KEY (id, day))"+byDay)
	for i := range rows {
		b.exec(t, "INSERT INTO days (day, name) VALUES (?, ?)", fmt.Sprintf("2026-01-0%d", 1+i%3), fmt.Sprint("n", i+1))
	}
	return b.source.Shard(source.Spec{Table: "days", ID: "id"})
}

func TestPartitionedTablesThatCountTheirIDs(t *testing.T) {
	eachProduct(t, func(t *testing.T, product testenv.Product) {
		b := newBase(t, product.Shared(t), refreshAlways)
		t.Run("are read in the order of ids", func(t *testing.T) {
			s := newDays(t, b, 20)
			var ids []uint64
			for after, more := uint64(0), true; more; {
				p := sourcetest.Read(t, s, source.Query{After: after, Limit: 3})
				ids = append(ids, sourcetest.IDs(p)...)
				after, more = ids[len(ids)-1], p.More
				if p.MaxID != 20 || len(p.Rows) > 3 {
					t.Fatalf("highest %d, %d rows", p.MaxID, len(p.Rows))
				}
			}
			if len(ids) != 20 || ids[0] != 1 || ids[19] != 20 {
				t.Errorf("ids %v", ids)
			}
			if p := sourcetest.Read(t, s, source.Query{Ranges: []source.Range{{First: 4, Last: 5}, {First: 9, Last: 9}}, Limit: 9}); len(p.Rows) != 3 || p.More {
				t.Errorf("by ranges: %v, more %t", p.Rows, p.More)
			}
			if p := sourcetest.Read(t, s, source.Query{Keys: [][][]byte{{[]byte("7")}, {[]byte("99")}}, Limit: 9}); len(p.Rows) != 1 || p.Rows[0].ID != 7 {
				t.Errorf("by key: %v", p.Rows)
			}
			if next, err := s.NextID(t.Context()); err != nil || next != 21 {
				t.Errorf("next id %d, %v", next, err)
			}
		})
		t.Run("show uncommitted rows, also one that moves to another partition", func(t *testing.T) {
			s := newDays(t, b, 3)
			traits, err := s.Traits(t.Context())
			if err != nil || !traits.Evidence {
				t.Errorf("%+v, %v", traits, err)
			}
			tx := begin(t, b)
			for _, statement := range []string{"INSERT INTO days VALUES (9, '2026-01-01', 'x')", "UPDATE days SET day = '2026-01-03' WHERE id IN (1, 9)"} {
				must.Get(tx.ExecContext(t.Context(), statement))(t)
			}
			var ids source.IDs
			all := []source.Range{{First: 1, Last: 100}}
			if err := s.ReadIDs(t.Context(), all, true, 10, &ids); err != nil || fmt.Sprint(ids.List) != "[1 2 3 9]" {
				t.Errorf("uncommitted: %v, %v", ids.List, err)
			}
			if err := s.ReadIDs(t.Context(), all, false, 10, &ids); err != nil || fmt.Sprint(ids.List) != "[1 2 3]" {
				t.Errorf("committed: %v, %v", ids.List, err)
			}
		})
		t.Run("a check says what they rely on", func(t *testing.T) {
			newDays(t, b, 1)
			found := inspected(t, b, source.Spec{ID: "id"})
			if len(found) != 1 || found[0].Code != inspect.IDUnproved || found[0].Severity != inspect.Warning || found[0].Statement != "" {
				t.Errorf("found %v", found)
			}
		})
		t.Run("an id that comes twice is an error", func(t *testing.T) {
			s := newDays(t, b, 6)
			b.exec(t, "INSERT INTO days VALUES (3, '2026-01-01', 'again')")
			for name, q := range map[string]source.Query{
				"within a page":            {Limit: 9},
				"across the end of a page": {Limit: 3},
				"behind a full budget":     {Limit: 9, MaxBytes: 1, After: 2},
				"by key":                   {Keys: [][][]byte{{[]byte("3")}}, Limit: 9},
			} {
				if err := s.Read(t.Context(), q, new(source.Page)); !errors.Is(err, source.ErrUnfit) || !strings.Contains(err.Error(), "3") {
					t.Errorf("%s: %v", name, err)
				}
			}
			must.Fail(t, s.ReadIDs(t.Context(), []source.Range{{First: 1, Last: 9}}, false, 9, new(source.IDs)), source.ErrUnfit)
			// Beside it everything can be read.
			if p := sourcetest.Read(t, s, source.Query{After: 3, Limit: 2}); len(p.Rows) != 2 || !p.More {
				t.Errorf("behind it: %v", p.Rows)
			}
		})
	})
}

// Without partitions the table could have a unique index, and is read the same way until it has.
func TestIDsThatOnlyTheirCounterKeepsUnique(t *testing.T) {
	eachProduct(t, func(t *testing.T, product testenv.Product) {
		b := newBase(t, product.Shared(t), refreshAlways)
		b.replaceTable(t, "days", "(id INT NOT NULL AUTO_INCREMENT, code CHAR(3) NOT NULL, PRIMARY KEY (id, code))")
		b.exec(t, "INSERT INTO days (code) VALUES ('a'), ('b'), ('c')")
		s := b.source.Shard(source.Spec{Table: "days", ID: "id"})
		if p := sourcetest.Read(t, s, source.Query{Limit: 2}); len(p.Rows) != 2 || !p.More || p.MaxID != 3 {
			t.Errorf("%v, more %t", p.Rows, p.More)
		}
		found := inspected(t, b, source.Spec{ID: "id"})
		if len(found) != 1 || found[0].Code != inspect.IDUnproved || found[0].Severity != inspect.Warning {
			t.Fatalf("found %v", found)
		}
		b.exec(t, found[0].Statement)
		if found := inspected(t, b, source.Spec{ID: "id"}); len(found) != 0 {
			t.Errorf("found %v", found)
		}
		sourcetest.Holds(t, s, 3)
	})
}

func inspected(t *testing.T, b base, spec source.Spec) []inspect.Finding {
	t.Helper()
	spec.Table = "days"
	return b.source.Inspect(t.Context(), []source.Expected{{Spec: spec, Order: source.OrderStrict}}, 1).Tables[0].Findings
}
