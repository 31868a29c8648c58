package mysql_test

import (
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"bridge/source"
	"bridge/source/mysql"
	"bridge/tests/testenv"
)

// logBuffer collects log lines of several goroutines.
type logBuffer struct {
	mu    sync.Mutex
	lines strings.Builder
}

func (l *logBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines.Write(b)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines.String()
}

// altered is a table that a shard has read once with columns that are not read again by time.
func altered(t *testing.T, product testenv.Product, sp source.Spec) (base, source.Shard, *logBuffer) {
	t.Helper()
	logs := new(logBuffer)
	b := newBase(t, product.Shared(t), func(o *mysql.Options) {
		o.RefreshEvery = time.Hour
		o.Logger = slog.New(slog.NewTextHandler(logs, nil))
	})
	b.exec(t, "CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, name VARCHAR(20), n INT, at DATETIME)")
	b.exec(t, "INSERT INTO t (name, n, at) VALUES ('a', 1, '2026-01-02 03:04:05')")
	sp.Table, sp.ID = "t", "id"
	s := b.source.Shard(sp)
	read(t, s, source.Query{Limit: 9})
	return b, s, logs
}

func TestAlteredTable(t *testing.T) { eachProduct(t, testAlteredTable) }

func testAlteredTable(t *testing.T, product testenv.Product) {
	t.Run("a dropped column is noticed at the next page and logged once", func(t *testing.T) {
		b, s, logs := altered(t, product, source.Spec{})
		b.exec(t, "ALTER TABLE t DROP n")
		for range 3 {
			if p := read(t, s, source.Query{Limit: 9}); len(p.Columns.List) != 3 {
				t.Fatalf("columns %v", p.Columns.List)
			}
		}
		if got := logs.String(); strings.Count(got, "columns changed") != 1 || !strings.Contains(got, "dropped=n") {
			t.Fatalf("log %q", got)
		}
	})
	t.Run("a renamed column is dropped and added", func(t *testing.T) {
		b, s, logs := altered(t, product, source.Spec{})
		b.exec(t, "ALTER TABLE t CHANGE n m INT")
		if p := read(t, s, source.Query{Limit: 9}); p.Columns.List[2].Name != "m" || string(p.Rows[0].Values[2]) != "1" {
			t.Fatalf("columns %v", p.Columns.List)
		}
		if got := logs.String(); !strings.Contains(got, "added=m dropped=n") {
			t.Fatalf("log %q", got)
		}
	})
	t.Run("another type is noticed at the next page", func(t *testing.T) {
		b, s, logs := altered(t, product, source.Spec{})
		b.exec(t, "ALTER TABLE t MODIFY at DATETIME(3), MODIFY n VARCHAR(10)")
		want := []source.Column{{Name: "n", Kind: source.Text}, {Name: "at", Kind: source.DateTime, Precision: 3}}
		p := read(t, s, source.Query{Limit: 9})
		if p.Columns.List[2] != want[0] || p.Columns.List[3] != want[1] || string(p.Rows[0].Values[3]) != "2026-01-02 03:04:05.000" {
			t.Fatalf("columns %v", p.Columns.List)
		}
		if got := logs.String(); !strings.Contains(got, "altered=n,at") {
			t.Fatalf("log %q", got)
		}
	})
	t.Run("columns in another order change no value", func(t *testing.T) {
		b, s, _ := altered(t, product, source.Spec{})
		b.exec(t, "ALTER TABLE t MODIFY at DATETIME FIRST, ADD extra INT AFTER id")
		p := read(t, s, source.Query{Limit: 9})
		got := make(map[string]string)
		for i, column := range p.Columns.List {
			got[column.Name] = string(p.Rows[0].Values[i])
		}
		if got["id"] != "1" || got["name"] != "a" || got["n"] != "1" || got["at"] != "2026-01-02 03:04:05" {
			t.Fatalf("values %q", got)
		}
		if _, ok := got["extra"]; !ok {
			t.Errorf("the added column is not there at the next page: %q", got)
		}
	})
	t.Run("only the order of columns changes", func(t *testing.T) {
		b, s, _ := altered(t, product, source.Spec{})
		b.exec(t, "ALTER TABLE t MODIFY at DATETIME FIRST")
		p := read(t, s, source.Query{Limit: 9})
		for i, column := range p.Columns.List {
			if want := map[string]string{"id": "1", "n": "1", "at": "2026-01-02 03:04:05"}[column.Name]; want != "" && string(p.Rows[0].Values[i]) != want {
				t.Errorf("%s is %q, want %q", column.Name, p.Rows[0].Values[i], want)
			}
		}
	})
	t.Run("the index of the id may change", func(t *testing.T) {
		b, s, _ := altered(t, product, source.Spec{})
		b.exec(t, "ALTER TABLE t MODIFY id INT NOT NULL, DROP PRIMARY KEY, ADD UNIQUE KEY other (id)")
		if p := read(t, s, source.Query{Limit: 9}); len(p.Rows) != 1 {
			t.Fatalf("%d rows", len(p.Rows))
		}
	})
	t.Run("ids are read though their index was altered since the last page", func(t *testing.T) {
		b, s, _ := altered(t, product, source.Spec{})
		b.exec(t, "ALTER TABLE t MODIFY id INT NOT NULL, DROP PRIMARY KEY, ADD UNIQUE KEY other (id)")
		expectIDs(t, readIDs(t, s, false, source.Range{First: 1, Last: 9}), 1)
	})
	t.Run("a dropped column with a role stops the shard", func(t *testing.T) {
		b, s, _ := altered(t, product, source.Spec{Created: "at"})
		b.exec(t, "ALTER TABLE t DROP at")
		err := s.Read(t.Context(), source.Query{Limit: 9}, new(source.Page))
		if !errors.Is(err, source.ErrMissing) || !strings.Contains(err.Error(), "CREATED") {
			t.Fatalf("error %v", err)
		}
		b.exec(t, "ALTER TABLE t ADD at DATETIME")
		if p := read(t, s, source.Query{Limit: 9}); len(p.Rows) != 1 {
			t.Fatalf("after the repair: %d rows", len(p.Rows))
		}
	})
	t.Run("a dropped table stops the shard", func(t *testing.T) {
		b, s, _ := altered(t, product, source.Spec{})
		b.exec(t, "DROP TABLE t")
		if err := s.Read(t.Context(), source.Query{Limit: 9}, new(source.Page)); !errors.Is(err, source.ErrMissing) {
			t.Fatalf("error %v", err)
		}
	})
	t.Run("an added column is there at the next page although EXCLUDE leaves another one out", func(t *testing.T) {
		b, s, _ := altered(t, product, source.Spec{Exclude: []string{"n"}})
		b.exec(t, "ALTER TABLE t ADD extra FLOAT DEFAULT 0.1")
		if p := read(t, s, source.Query{Limit: 9}); len(p.Columns.List) != 4 || string(p.Rows[0].Values[3]) != "0.1" {
			t.Fatalf("columns %v, rows %v", p.Columns.List, p.Rows)
		}
	})
	t.Run("a column outside the spec changes nothing", func(t *testing.T) {
		b, s, logs := altered(t, product, source.Spec{Fields: []string{"name"}})
		first := read(t, s, source.Query{Limit: 9}).Columns
		b.exec(t, "ALTER TABLE t DROP n, ADD extra INT FIRST")
		if p := read(t, s, source.Query{Limit: 9}); p.Columns != first {
			t.Fatal("another pointer")
		}
		if got := logs.String(); got != "" {
			t.Fatalf("log %q", got)
		}
	})
}
