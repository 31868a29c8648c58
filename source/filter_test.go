package source_test

import (
	"slices"
	"strings"
	"testing"

	"bridge/source"
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
		if err := source.CheckFilter(condition); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%q: %v, want an error that says %q", condition, err, why)
		}
	}
	if got := source.DoubleQuoted(`"a" = 'x "b"' AND ` + "`\"`" + ` = "c"`); !slices.Equal(got, []string{"a", "c"}) {
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
