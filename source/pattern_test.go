package source_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"bridge/source"
)

func TestExpandTables(t *testing.T) {
	for pattern, want := range map[string][]string{
		"shop.orders":         {"shop.orders"},
		" a , b.c ":           {"a", "b.c"},
		"t_{0..3}":            {"t_0", "t_1", "t_2", "t_3"},
		"t_{8..11}":           {"t_8", "t_9", "t_10", "t_11"},
		"t_{08..11}":          {"t_08", "t_09", "t_10", "t_11"},
		"t_{7..7}":            {"t_7"},
		"d_{0..1}.b_{00..01}": {"d_0.b_00", "d_0.b_01", "d_1.b_00", "d_1.b_01"},
		"a{0..1}{2..3}":       {"a02", "a03", "a12", "a13"},
		"x,t_{0..1},y":        {"x", "t_0", "t_1", "y"},
		"we ird`'\"-тест😀":    {"we ird`'\"-тест😀"},
	} {
		t.Run("expands "+pattern, func(t *testing.T) {
			got, err := source.ExpandTables(pattern)
			if err != nil || !slices.Equal(got, want) {
				t.Fatalf("got %q, %v; want %q", got, err, want)
			}
		})
	}
}

func TestExpandTablesRefuses(t *testing.T) {
	for pattern, want := range map[string]string{
		"":                        "empty table name",
		"a,":                      "empty table name",
		"t_{0..3":                 `"{" without "}"`,
		"t_0..3}":                 `"}" without "{"`,
		"t_{{0..1}}":              "malformed range",
		"t_{a..b}":                "malformed range",
		"t_{1..}":                 "malformed range",
		"t_{0..1234567890}":       "malformed range",
		"t_{1,2}":                 `"{" without "}"`,
		"t_{3..1}":                "write {1..3}",
		"t_{00..100}":             "write {000..100}",
		"a,b,a":                   `"a" is named twice`,
		"t_{0..3},t_2":            `"t_2" is named twice`,
		"t_{0..9999},x":           "more than 10000 tables",
		"t_{0..10000}":            "more than 10000 tables",
		"t_{0..999999999}":        "more than 10000 tables",
		"t_{0..99}_{0..99}{0..1}": "more than 10000 tables",
		"a.b.c":                   "more than one dot",
		"a.":                      "empty part",
		"a. b":                    "spaces around",
		"a\x00b":                  "control character",
		"a\xff":                   "UTF-8",
	} {
		t.Run("refuses "+pattern, func(t *testing.T) {
			got, err := source.ExpandTables(pattern)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Fatalf("got %d tables and error %v, want an error with %q", len(got), err, want)
			}
		})
	}
	t.Run("10,000 tables are the most", func(t *testing.T) {
		got, err := source.ExpandTables("a.t_{0000..9999}")
		if err != nil || len(got) != 10_000 || got[9_999] != "a.t_9999" {
			t.Fatalf("got %d tables, %v", len(got), err)
		}
	})
}

var padded = regexp.MustCompile(`^[^,{}]*\{(0\d+)\.\.\d+\}[^,{}]*$`)

func FuzzExpandTables(f *testing.F) {
	for _, seed := range []string{
		"a", "d.t", "t_{0..63}", "t_{00..63}", "db_{00..03}.bill_{0..9}", "a,b", "a,a", "{1..2}", "t_{3..1}", "t{{0..1}}",
		"t{0..1}{0..10}", "a.b.c", " x ", "t_{00..100}", "😀`", "\x00",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, pattern string) {
		tables, err := source.ExpandTables(pattern)
		if err != nil {
			if tables != nil {
				t.Fatalf("%d tables with the error %v", len(tables), err)
			}
			return
		}
		if len(tables) == 0 || len(tables) > 10_000 {
			t.Fatalf("%d tables", len(tables))
		}
		seen := make(map[string]bool)
		for _, table := range tables {
			if seen[table] {
				t.Fatalf("%q twice", table)
			}
			seen[table] = true
			if strings.ContainsAny(table, "{},\x00") || strings.Count(table, ".") > 1 || table == "" || table != strings.TrimSpace(table) {
				t.Fatalf("%q is not a table", table)
			}
		}
		if len(tables) == 1 {
			checkSingle(t, tables[0])
		}
		if padded.MatchString(pattern) {
			checkWidths(t, tables)
		}
		again, err := source.ExpandTables(pattern)
		if err != nil || !slices.Equal(again, tables) {
			t.Fatalf("a second call gives %q, %v", again, err)
		}
		list, err := source.ExpandTables(strings.Join(tables, ","))
		if err != nil || !slices.Equal(list, tables) {
			t.Fatalf("the tables as a list give %q, %v", list, err)
		}
	})
}

func checkSingle(t *testing.T, table string) {
	ranged, err := source.ExpandTables(table + "{09..10}")
	if err != nil || !slices.Equal(ranged, []string{table + "09", table + "10"}) {
		t.Fatalf("%q with a range gives %q, %v", table, ranged, err)
	}
}

func checkWidths(t *testing.T, tables []string) {
	for _, table := range tables {
		if len(table) != len(tables[0]) {
			t.Fatalf("%q and %q differ in width", table, tables[0])
		}
	}
}
