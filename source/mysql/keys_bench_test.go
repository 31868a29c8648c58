package mysql_test

import (
	"testing"

	"bridge/source"
	"bridge/tests/testenv"
)

// BenchmarkKeys reads 1000 rows of a million by their keys, and 1000 changes.
func BenchmarkKeys(b *testing.B) {
	server := testenv.MariaDB(b)
	admin := server.Admin(b, server.NewDatabase(b))
	var name string
	if err := admin.QueryRow("SELECT DATABASE()").Scan(&name); err != nil {
		b.Fatal(err)
	}
	if _, err := admin.Exec(`CREATE TABLE t (id BIGINT UNSIGNED PRIMARY KEY, app VARCHAR(50) NOT NULL, cluster VARCHAR(50) NOT NULL, at DATETIME(3) NOT NULL, note TEXT,
		UNIQUE KEY (app, cluster), KEY (at)) DEFAULT CHARSET utf8mb4;
		INSERT INTO t SELECT seq, CONCAT('application ', seq), 'default', '2026-01-01' + INTERVAL seq SECOND, REPEAT('x', 100) FROM ` + testenv.Sequence(1000000)); err != nil {
		b.Fatal(err)
	}
	s := open(b, server.URL("", "", name)).Shard(source.Spec{Table: "t", ID: "id", Key: []string{"app", "cluster"}, UniqueKey: true, Modified: "at"})
	var page source.Page
	if err := s.Read(b.Context(), source.Query{After: 500_000, Limit: source.MaxKeys}, &page); err != nil {
		b.Fatal(err)
	}
	var keys [][][]byte
	for _, r := range page.Rows {
		keys = append(keys, keyOf(&page, r))
	}
	b.Run("rows by 1000 keys", func(b *testing.B) {
		var p source.Page
		for b.Loop() {
			if err := s.Read(b.Context(), source.Query{Keys: keys, Limit: source.MaxKeys}, &p); err != nil || len(p.Rows) != source.MaxKeys {
				b.Fatal(len(p.Rows), err)
			}
		}
	})
	b.Run("1000 changes", func(b *testing.B) {
		var c source.Changes
		q := source.ChangeQuery{After: source.Cursor{Modified: "2026-01-05 00:00:00.000"}, Limit: 1000}
		for b.Loop() {
			if err := s.ReadChanges(b.Context(), q, &c); err != nil || len(c.List) != 1000 {
				b.Fatal(len(c.List), err)
			}
		}
	})
}
