package mysql_test

import (
	"fmt"
	"testing"

	"example.org/bridge/source"
	"example.org/bridge/source/mysql"
	"example.org/bridge/tests/testenv"
)

// TestRowsOfAFormatAreLookedUp has more of them than one statement may name, and a read that fails
// before.
func TestRowsOfAFormatAreLookedUp(t *testing.T) {
	b := newBase(t, testenv.MariaDB(t), refreshNever)
	b.exec(t, "CREATE TABLE looked_up (id CHAR(26) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY)")
	low := string(source.IDColumn{Format: source.ULID}.Lowest(1 << 62)[:16])
	b.exec(t, "INSERT INTO looked_up SELECT CONCAT('"+low+"', LPAD(seq, 10, '0')) FROM "+testenv.Sequence(700))
	s := b.source.Shard(source.Spec{Table: "looked_up", ID: "id", IDFormat: source.ULID, UniqueKey: true})
	q := source.ChangeQuery{Limit: 1000, Ranges: []source.Range{{First: 1 << 62, Last: 1 << 62}}}
	for i := range 500 {
		q.Rows = append(q.Rows, fmt.Sprintf("%s%010d", low, 999-2*i))
	}
	var c source.Changes
	if err := s.ReadChanges(t.Context(), q, &c); err != nil || len(c.List) != 350 || c.More || c.List[0].Row != low+"0000000001" || c.List[349].Row != low+"0000000699" {
		t.Fatalf("%d rows, %v", len(c.List), err)
	}
	mysql.Interrupt(s, 1<<62)
	var p source.Page
	if err := s.Read(t.Context(), source.Query{Keys: [][][]byte{{[]byte(c.List[3].Row)}}, Limit: 9}, &p); err != nil || len(p.Rows) != 1 {
		t.Fatalf("by key: %d rows, %v", len(p.Rows), err)
	}
}
