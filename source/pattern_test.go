package source_test

import (
	"fmt"
	"testing"

	"example.org/bridge/source"
)

func TestPatternsOfTables(t *testing.T) {
	for _, c := range []struct {
		pattern, database, table string
		want                     bool
	}{
		{"orders_*", "shop", "orders_1", true},
		{"orders_*", "shop", "orders_", true},
		{"orders_?", "shop", "orders_12", false},
		{"orders_*", "other", "orders_1", false},
		{"shop_*.orders_*", "shop_07", "orders_1", true},
		{"shop_*.orders_*", "shop", "orders_1", false},
		{"*.*_log", "a", "a_log_log", true},
		{"*a*b*c", "shop", "xxaxxbxxbc", true},
		{"*a*b*c", "shop", "xxaxxbxxcx", false},
		{"*", "shop", "_orders_gho", false},
		{"*", "shop", "_orders_20260101_del", false},
		{"*", "shop", "_orders_new", false},
		{"*", "shop", "orders_new", true},
		{"*", "shop", "größe", true},
		{"gr?ße", "shop", "größe", true},
		{"Orders", "shop", "orders", false},
	} {
		if got := (source.TableName{Database: c.database, Table: c.table}).Match(c.pattern, "shop"); got != c.want {
			t.Errorf("%s and %s.%s: %t", c.pattern, c.database, c.table, got)
		}
	}
}

func TestPatternsThatMayShareATable(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"orders", "orders", true}, {"orders", "order", false}, {"orders_*", "orders_", true}, {"orders_*", "orders", false},
		{"orders_*", "*_eu", true}, {"a*b", "b*a", false}, {"a*", "*b*", true}, {"??", "*a", true}, {"??", "???", false}, {"a?c", "ab?", true},
		{"*", "", true}, {"*a*b*", "*b*a*", true}, {"größe_?", "größe_*", true},
	} {
		if source.MayShare(c.a, c.b) != c.want || source.MayShare(c.b, c.a) != c.want {
			t.Errorf("%s and %s: not %t", c.a, c.b, c.want)
		}
	}
}

func TestTablesAsSettingsNameThem(t *testing.T) {
	list := source.TableList{Names: []source.TableName{{Database: "shop", Table: "b"}, {Database: "shop", Table: "a"}, {Database: "crm", Table: "c"}, {Database: "crm", Table: "d"}},
		Inner: []source.TableName{{Database: "crm", Table: "d"}}}
	for own, want := range map[string]string{"shop": "[a b]", "": "[crm.c shop.a shop.b]", "none": "[]"} {
		if list.Own = own; fmt.Sprint(list.Settings()) != want {
			t.Errorf("of %q: %q, want %s", own, list.Settings(), want)
		}
	}
}

func TestColumnsThatChanged(t *testing.T) {
	was := &source.Columns{List: []source.Column{{Name: "a"}, {Name: "b"}, {Name: "c"}}}
	now := &source.Columns{List: []source.Column{{Name: "a", Kind: source.Text}, {Name: "c"}, {Name: "d"}}}
	if got := fmt.Sprint(was.Changes(now)); got != "[added d dropped b altered a]" || was.Changes(was) != nil {
		t.Errorf("changes %s", got)
	}
}
