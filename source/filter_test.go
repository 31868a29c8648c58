package source_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"example.org/bridge/source"
	"example.org/bridge/tests/must"
)

func TestFilterConditions(t *testing.T) {
	for _, condition := range []string{
		"state <> 'draft' AND region = 'eu'", "`a` IN (1, 2, (3))", "note LIKE '10!%' ESCAPE '!'", "name = 'O''Neil; -- # /* ) '",
		`"state" = 'a"b'`, "doc ->> '$.kind' = 'x'", "a - -1 > 0", "selected = 1 AND tables <> 2", "`select` = 1", "größe > 1", "a\n=\t1",
	} {
		if err := source.CheckFilter(condition); err != nil {
			t.Errorf("%s: %v", condition, err)
		}
	}
	for condition, why := range map[string]string{
		" ": "empty", "a = 1; DROP TABLE t": "end of a statement", "a = 1 -- x": "comment", "a = 1 # x": "comment", "a /* x": "comment", "a */ b": "comment",
		"1) OR (1": "closes a parenthesis", "(a": "does not close", "a)": "closes", "a = 'x": "' that nothing closes", "a = `x": "` that nothing closes", `"a`: "nothing closes",
		"a = ?": "parameter", "a = ?1": "parameter", "a = :x": "parameter", "a = $x": "parameter", "@a := 1": "outside of quotes", "@@sql_mode = 1": "variable",
		`a = 'x\'`: "backslash", "[(] = 1 OR [)] = 1": "quote", "a = 1\x00": "control character", "a = '\x00'": "control character", "a = '\xff'": "UTF-8",
		"a IN (SELECT 1)": "word SELECT", "a IN (select 1)": "word SELECT", "(TABLE t)": "word TABLE", "a IN (VALUES (1))": "word VALUES", "1 INTO OUTFILE 'x'": "word INTO",
		strings.Repeat("a", 9000): "longer than",
	} {
		must.Fail(t, source.CheckFilter(condition), why)
	}
	if _, got, _ := source.Unquoted(`"a" = 'x "b"' AND ` + "`\"`" + ` = "c"`); !slices.Equal(got, []string{"a", "c"}) {
		t.Errorf("names in double quotes: %q", got)
	}
}

// FuzzFilter: what stands behind a condition that is accepted is outside of all quotes, comments
// and parentheses.
func FuzzFilter(f *testing.F) {
	f.Add("a = 'b' AND (c)")
	f.Add("'' '' \"`\" ()")
	f.Fuzz(func(t *testing.T, condition string) {
		if source.CheckFilter(condition) != nil {
			return
		}
		// A lexer of its own, byte by byte.
		depth, quote := 0, byte(0)
		for i := range len(condition) {
			switch b := condition[i]; {
			case quote != 0:
				if b == quote {
					quote = 0
				}
			case b == '\'' || b == '"' || b == '`':
				quote = b
			case b == '(':
				depth++
			case b == ')':
				depth--
			case strings.IndexByte(";#?:$@[]\\", b) >= 0:
				t.Fatalf("%q has %q at %d", condition, b, i)
			}
			if depth < 0 {
				t.Fatalf("%q closes what it has not opened", condition)
			}
		}
		if depth != 0 || quote != 0 {
			t.Fatalf("%q ends at depth %d in quote %q", condition, depth, quote)
		}
	})
}

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

func TestMasks(t *testing.T) {
	for value, want := range map[string]string{
		"": "****", "1234": "****", "12345678": "****", "123456789": "****6789", "ääääöööö": "****", "äääääöööö": "****öööö",
		"\xff\xfe\xfd\xfc\xfb\xfa\xf9\xf8\xf7": "****\xfa\xf9\xf8\xf7",
	} {
		if got := string(source.Last4().Fresh().Append(nil, []byte(value))); got != want {
			t.Errorf("the last four of %q: %q, want %q", value, got, want)
		}
		if got := string(source.Redact().Fresh().Append([]byte("x"), []byte(value))); got != "x****" {
			t.Errorf("redacted, %q is %q", value, got)
		}
	}
	one, other := source.SHA256("one").Fresh(), source.SHA256("other").Fresh()
	first := string(one.Append(nil, []byte("value")))
	if again := string(one.Append(nil, []byte("value"))); again != first || len(first) != 64 {
		t.Errorf("%q, then %q", first, again)
	}
	if string(one.Append(nil, []byte("values"))) == first || string(other.Append(nil, []byte("value"))) == first {
		t.Error("another value or key makes the same")
	}
}

func TestNothingPrintsTheKeyOfAMask(t *testing.T) {
	masks := map[string]source.Mask{"a": source.SHA256("hunter2-hunter2")}
	spec := source.Spec{Masks: masks}
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		for _, v := range []any{masks, spec, &spec, masks["a"], masks["a"].Fresh()} {
			if text := fmt.Sprintf(format, v); strings.Contains(text, "hunter2") {
				t.Errorf("%s prints %s", format, text)
			}
		}
	}
}

func TestColumnsAreHiddenAsTheDatabaseComparesNames(t *testing.T) {
	for names, other := range map[source.NameCase]bool{source.AnyCase: true, source.ASCIICase: false} {
		spec := source.Spec{Exclude: []string{"Note\u00c4"}, Masks: map[string]source.Mask{"CARD\u00c4": source.Redact()}}
		if spec.Reads("NOTE\u00c4", names) || spec.Reads("note\u00e4", names) == other || !spec.Reads("n\u00efte\u00c4", names) {
			t.Errorf("%d: what is left out is read, or what is not is not", names)
		}
		columns := &source.Columns{NameCase: names, List: []source.Column{{Name: "id", Kind: source.Int},
			{Name: "card\u00c4", Kind: source.DateTime, Precision: 3}, {Name: "card\u00e4", Kind: source.Text}}}
		masks := spec.Mask(columns)
		if masks[0] != nil || masks[1] == nil || (masks[2] != nil) != other ||
			columns.List[1] != (source.Column{Name: "card\u00c4", Kind: source.Text, Mask: "redact:****"}) {
			t.Errorf("%d: masks %v of %+v", names, masks, columns.List)
		}
	}
	if source.ASCIICase.Same("a[", "a{") || source.ASCIICase.Same("@", "`") || !source.ASCIICase.Same("aZ_\u00e4", "Az_\u00e4") {
		t.Error("bytes that are no letters have a case, or letters have none")
	}
}
