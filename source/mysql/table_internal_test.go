package mysql

import (
	"sync/atomic"
	"testing"

	"example.org/bridge/source"
	"example.org/bridge/source/internal/sqltable"
)

// A server that ends the statement about its LONGTEXT columns, as a time limit does, has not said
// that they are no documents.
func TestDocumentsThatCannotBeAskedAbout(t *testing.T) {
	table := &sqltable.Table{Columns: []sqltable.Column{{Column: source.Column{Name: "doc", Kind: source.Text}, Type: "longtext"}}}
	if _, err := (tableSpec{}).findDocuments(t.Context(), conn{clocked{}}, []source.Column{table.Columns[0].Column}, table); err == nil {
		t.Error("they are taken for texts")
	}
}

func TestUnite(t *testing.T) {
	page := func(rows ...string) *source.Page {
		p := new(source.Page)
		for _, v := range rows {
			p.Append(uint64(v[0]-'0'), 1)
			p.Set(0, []byte(v[1:]))
		}
		return p
	}
	t.Run("a row that two statements found comes once", func(t *testing.T) {
		p := page("2b", "1a", "2b")
		if err := unite(p); err != nil || len(p.Rows) != 2 || p.Bytes != 2 {
			t.Errorf("%d rows of %d bytes, %v", len(p.Rows), p.Bytes, err)
		}
	})
	t.Run("a row whose key was changed between two statements is read again", func(t *testing.T) {
		if err := unite(page("2b", "1a", "2c")); err == nil {
			t.Error("one of its keys would count as absent")
		}
	})
}

func TestDefinitionsAreRewritten(t *testing.T) {
	create := "CREATE TABLE `t` (\n  `a` timestamp NOT NULL DEFAULT current_timestamp() ON UPDATE current_timestamp() COMMENT 'not current_timestamp()',\n" +
		"  `a b``c` datetime(0) DEFAULT NULL,\n  `d` timestamp NULL DEFAULT CURRENT_TIMESTAMP,\n  `e` varchar(9) DEFAULT 'x' COMMENT 'DEFAULT NULL',\n" +
		"  `f` longtext CHARACTER SET utf8mb4 COLLATE utf8mb4_bin DEFAULT NULL CHECK (json_valid(`f`)),\n  `g` int(11),\n  KEY `h` (`a`)\n)"
	for _, c := range []struct{ column, finer, notNull string }{
		{"a", "`a` timestamp(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6) COMMENT 'not current_timestamp()'", ""},
		{"a b`c", "`a b``c` datetime(6) DEFAULT NULL", "`a b``c` datetime(0) NOT NULL"},
		{"d", "`d` timestamp(6) NULL DEFAULT CURRENT_TIMESTAMP(6)", "`d` timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP"},
		{"e", "", "`e` varchar(9) NOT NULL DEFAULT 'x' COMMENT 'DEFAULT NULL'"},
		{"f", "", "`f` longtext CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL CHECK (json_valid(`f`))"},
		{"g", "", "`g` int(11) NOT NULL"},
		{"h", "", ""},
	} {
		definition := definitionOf(create, c.column)
		if got := finer(definition); got != c.finer {
			t.Errorf("finer is %q, want %q", got, c.finer)
		}
		if got := notNull(definition); c.notNull != "" && got != c.notNull || definition == "" && got != "" {
			t.Errorf("not null is %q, want %q", got, c.notNull)
		}
	}
}

func TestTheAccountOfAGrantIsText(t *testing.T) {
	s := &Source{options: Options{User: `a\'b`}, connector: &connector{server: new(atomic.Pointer[server])}}
	if got, want := s.grant("t"), `GRANT SELECT ON t TO 'a\\''b'@'%'`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
