package mysql_test

import (
	"database/sql"
	"slices"
	"testing"

	"bridge/source"
	"bridge/tests/testenv"
)

// readIDs reads ids as an uncommitted or a committed reader sees them.
func readIDs(t *testing.T, s source.Shard, uncommitted bool, ranges ...source.Range) []uint64 {
	t.Helper()
	var ids source.IDs
	if err := s.(source.IDReader).ReadIDs(t.Context(), ranges, uncommitted, 100_000, &ids); err != nil {
		t.Fatal(err)
	}
	if ids.Now.IsZero() || ids.Server == "" {
		t.Errorf("clock %v, server %q", ids.Now, ids.Server)
	}
	return ids.List
}

func begin(t *testing.T, b base) *sql.Tx {
	t.Helper()
	tx, err := b.admin.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback() })
	return tx
}

func TestEvidence(t *testing.T) { eachProduct(t, testEvidence) }

func testEvidence(t *testing.T, product testenv.Product) {
	b := newBase(t, product.Shared(t))
	b.exec(t, "CREATE TABLE t (id BIGINT UNSIGNED PRIMARY KEY AUTO_INCREMENT, body VARCHAR(100), KEY (body)) ENGINE=InnoDB")
	reader := b.login(t, "SELECT ON t").Shard(source.Spec{Table: "t", ID: "id"})
	all := source.Range{First: 1, Last: 1000}

	t.Run("SELECT alone shows what is in flight, until it is rolled back or committed", func(t *testing.T) {
		b.exec(t, "INSERT INTO t (id, body) VALUES (1, 'a')")
		open, doomed := begin(t, b), begin(t, b)
		for i, tx := range []*sql.Tx{open, doomed} {
			if _, err := tx.ExecContext(t.Context(), "INSERT INTO t (id, body) VALUES (?, 'b')", 2+i); err != nil {
				t.Fatal(err)
			}
		}
		b.exec(t, "INSERT INTO t (id, body) VALUES (4, 'a')")
		expectIDs(t, readIDs(t, reader, true, all), 1, 2, 3, 4)
		expectIDs(t, readIDs(t, reader, false, all), 1, 4)
		if err := doomed.Rollback(); err != nil {
			t.Fatal(err)
		}
		expectIDs(t, readIDs(t, reader, true, all), 1, 2, 4)
		if err := open.Commit(); err != nil {
			t.Fatal(err)
		}
		expectIDs(t, readIDs(t, reader, false, all), 1, 2, 4)
	})
	t.Run("it makes no writer wait and waits for none", func(t *testing.T) {
		tx := begin(t, b)
		for _, statement := range []string{
			"SET SESSION innodb_lock_wait_timeout = 1", "SELECT * FROM t FOR UPDATE", "INSERT INTO t (id, body) VALUES (10, 'x')",
			"UPDATE t SET body = 'y' WHERE id = 4", "DELETE FROM t WHERE id = 1",
		} {
			if _, err := tx.ExecContext(t.Context(), statement); err != nil {
				t.Fatal(err)
			}
			if statement[0] != 'S' {
				readIDs(t, reader, true, all)
			}
		}
		expectIDs(t, readIDs(t, reader, true, all), 2, 4, 10)
		expectIDs(t, readIDs(t, reader, false, all), 1, 2, 4)
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
	})
}

func expectIDs(t *testing.T, got []uint64, want ...uint64) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got ids %v, want %v", got, want)
	}
}

func TestTraits(t *testing.T) { eachProduct(t, testTraits) }

func testTraits(t *testing.T, product testenv.Product) {
	b := newBase(t, product.Shared(t))
	for _, c := range []struct {
		name, definition string
		evidence         bool
	}{
		{"InnoDB with the id as primary key", "(id INT PRIMARY KEY AUTO_INCREMENT) ENGINE=InnoDB", true},
		{"an id that is not the primary key", "(name VARCHAR(9) PRIMARY KEY, id INT NOT NULL UNIQUE) ENGINE=InnoDB", false},
		{"another engine", "(id INT PRIMARY KEY AUTO_INCREMENT) ENGINE=MyISAM", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			b.replaceTable(t, "t", c.definition)
			got, err := b.source.Shard(source.Spec{Table: "t", ID: "id"}).(source.IDReader).Traits(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if got.Evidence != c.evidence || got.Order != source.OrderStrict || got.LockWait <= 0 || got.OrderWhy == "" || got.EvidenceWhy == "" {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestNextIDAtTheEndOfItsType(t *testing.T) {
	eachProduct(t, func(t *testing.T, product testenv.Product) {
		b := newBase(t, product.Shared(t))
		for definition, last := range map[string]uint64{
			"TINYINT": 127, "TINYINT UNSIGNED": 255, "SMALLINT": 32767, "SMALLINT UNSIGNED": 65535, "MEDIUMINT": 8388607, "MEDIUMINT UNSIGNED": 16777215,
			"INT": 2147483647, "INT(5) UNSIGNED": 4294967295, "BIGINT": 9223372036854775807, "BIGINT UNSIGNED": 18446744073709551615,
		} {
			b.replaceTable(t, "ends", "(id "+definition+" AUTO_INCREMENT PRIMARY KEY)")
			s := b.source.Shard(source.Spec{Table: "ends", ID: "id"})
			next := func() uint64 {
				t.Helper()
				next, err := s.NextID(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				return next
			}
			b.exec(t, "INSERT INTO ends VALUES (?)", last-1)
			if got := next(); got != last {
				t.Errorf("%s: after %d comes %d", definition, last-1, got)
			}
			b.exec(t, "INSERT INTO ends VALUES (?)", last)
			if got := next(); got != 0 && got <= last {
				t.Errorf("%s: after the last id %d comes %d", definition, last, got)
			}
			// MySQL gives that id again.
			b.exec(t, "DELETE FROM ends WHERE id = ?", last)
			if got := next(); product.IsMySQL() && got != last {
				t.Errorf("%s: after the row %d is gone comes %d", definition, last, got)
			}
		}
	})
}
