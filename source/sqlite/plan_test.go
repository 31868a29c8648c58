package sqlite_test

import (
	"slices"
	"strings"
	"testing"

	"bridge/source"
	"bridge/source/sqlite"
)

func TestPageCosts(t *testing.T) {
	for name, test := range map[string]struct{ create, want string }{
		"INTEGER PRIMARY KEY": {
			"CREATE TABLE t (id INTEGER PRIMARY KEY, v, w JSON)", "SEARCH main.t USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)",
		},
		"WITHOUT ROWID": {
			"CREATE TABLE t (v, w JSON, id INT PRIMARY KEY) WITHOUT ROWID", "SEARCH main.t USING PRIMARY KEY (id>? AND id<?)",
		},
		"a unique column": {
			"CREATE TABLE t (v, w JSON, id INT NOT NULL UNIQUE)", "SEARCH main.t USING INDEX sqlite_autoindex_t_1 (id>? AND id<?)",
		},
		"a second index that looks better": {
			"CREATE TABLE t (v, w JSON, id INTEGER PRIMARY KEY); CREATE INDEX i ON t (id, v, w)", "SEARCH main.t USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)",
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBase(t, wal)
			b.exec(t, test.create)
			b.exec(t, "WITH RECURSIVE s (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < 2000) INSERT INTO t (id, v) SELECT i, i % 3 FROM s; ANALYZE")
			steps, err := sqlite.Plan(t.Context(), b.source.Shard(source.Spec{Table: "t", ID: "id"}))
			if err != nil {
				t.Fatal(err)
			}
			plan := strings.Join(steps, "\n")
			if !slices.Contains(steps, test.want) {
				t.Errorf("the rows do not come by the id:\n%s", plan)
			}
			for _, costly := range []string{"SCAN main.t", "TEMP B-TREE", "MATERIALIZE", "AUTOMATIC"} {
				if strings.Contains(plan, costly) {
					t.Errorf("the page takes a %s:\n%s", costly, plan)
				}
			}
		})
	}
}
