package workload

import "testing"

func TestSomeRowsStandForAll(t *testing.T) {
	rows := make([]*Row, 10)
	for i := range rows {
		rows[i] = &Row{Version: i}
	}
	if all := evenly(rows, 10); len(all) != 10 {
		t.Errorf("%d of 10", len(all))
	}
	some := evenly(rows, 3)
	if len(some) != 3 || some[0].Version != 2 || some[1].Version != 5 || some[2].Version != 9 {
		t.Errorf("%v", some)
	}
}
