package mysql_test

import (
	"testing"

	"example.org/bridge/source"
	"example.org/bridge/tests/testenv"
)

// BenchmarkChangesInFlight reads what the second cursor reads of a table with 100,000 changes:
// nothing, the changes of a look-back and of a part of the reach, and a thousand rows by id,
// committed and not.
func BenchmarkChangesInFlight(b *testing.B) {
	server := testenv.MariaDB(b)
	name := server.NewDatabase(b)
	admin := server.Admin(b, name)
	for _, statement := range []string{
		"CREATE TABLE changed (id BIGINT UNSIGNED PRIMARY KEY, at DATETIME(6) NOT NULL, body VARCHAR(300) NOT NULL, KEY (at))",
		"INSERT INTO changed SELECT seq, '2026-01-01' + INTERVAL (seq * 6000) MICROSECOND, REPEAT('b', 200) FROM " + testenv.Sequence(100_000),
	} {
		if _, err := admin.ExecContext(b.Context(), statement); err != nil {
			b.Fatal(err)
		}
	}
	s := open(b, server.URL("", "", name)).Shard(source.Spec{Table: "changed", ID: "id", Modified: "at"})
	from := source.Cursor{Modified: "2026-01-01 00:05:00.000000"}
	var ids []source.Range
	for id := uint64(1); id < 2000; id += 2 {
		ids = append(ids, source.Range{First: id, Last: id})
	}
	for _, c := range []struct {
		name string
		q    source.ChangeQuery
	}{
		{"nothing", source.ChangeQuery{After: source.Cursor{Modified: "2027-01-01 00:00:00.000000"}, Limit: 2000, Uncommitted: true}},
		{"look-back-2000", source.ChangeQuery{After: from, Limit: 2000, Uncommitted: true}},
		{"look-back-2000-committed", source.ChangeQuery{After: from, Limit: 2000}},
		{"reach-5000", source.ChangeQuery{After: from, Limit: 5000, Uncommitted: true}},
		{"ids-1000", source.ChangeQuery{Ranges: ids, Limit: 2000}},
		{"ids-1000-uncommitted", source.ChangeQuery{Ranges: ids, Limit: 2000, Uncommitted: true}},
	} {
		b.Run(c.name, func(b *testing.B) {
			var changes source.Changes
			for b.Loop() {
				if err := s.ReadChanges(b.Context(), c.q, &changes); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(len(changes.List)), "changes/op")
		})
	}
}
