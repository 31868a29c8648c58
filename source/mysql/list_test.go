package mysql_test

import (
	"slices"
	"testing"

	"example.org/bridge/source"
	"example.org/bridge/source/sourcetest"
	"example.org/bridge/tests/must"
	"example.org/bridge/tests/testenv"
)

// TestSystemVersionedTables are tables to patterns and to bridge init.
func TestSystemVersionedTables(t *testing.T) {
	b := newBase(t, testenv.MariaDB(t))
	b.exec(t, "CREATE TABLE log_1 (id INT PRIMARY KEY AUTO_INCREMENT, name VARCHAR(9) NOT NULL UNIQUE, s TIMESTAMP(6) GENERATED ALWAYS AS ROW START, "+
		"e TIMESTAMP(6) GENERATED ALWAYS AS ROW END, PERIOD FOR SYSTEM_TIME(s, e)) WITH SYSTEM VERSIONING")
	spec := source.Spec{Table: "log_1", ID: "id", Key: []string{"name"}, UniqueKey: true}
	if found := b.source.Inspect(t.Context(), []source.Expected{{Spec: spec}}, 1).Tables[0].Findings; len(found) > 0 {
		t.Errorf("found %v", found)
	}
	b.exec(t, "CREATE VIEW log_2 AS SELECT id FROM log_1")
	list := must.Get(b.source.Tables(t.Context()))(t)
	has := func(table string) bool {
		return slices.Contains(list.Names, source.TableName{Database: b.name, Table: table})
	}
	if !has("log_1") || has("log_2") {
		t.Errorf("the tables are %v", list.Names)
	}
	sourcetest.Same(t, list.Settings(), []string{"log_1"}, "to be described")
}
