package sink_test

import (
	"strings"
	"testing"

	"bridge/sink"
)

func TestParseTopic(t *testing.T) {
	for text, want := range map[string]string{
		"{stream}":           "",
		"a.b_c-D9.{table}":   "",
		"{type}":             "allowed are {stream} {table} {family} {tag} {domain}",
		"x-{key}":            "allowed are {stream} {table} {family} {tag} {domain}",
		"eiffel {stream}":    `" "`,
		"{stream}/{table}":   `"/"`,
		"größe.{stream}":     "letters, digits",
		"{stream}.*":         `"*"`,
		"{stream}}":          "without a '{'",
		"{stream}.%20.{tag}": `"%"`,
	} {
		check(t, text, func() error { _, err := sink.ParseTopic(text); return err }, want)
	}
}

func TestCheckTopic(t *testing.T) {
	for name, want := range map[string]string{
		"orders":                 "",
		"...":                    "",
		strings.Repeat("a", 249): "",
		strings.Repeat("a", 250): "at most 249",
		"":                       "empty",
		".":                      "may not be",
		"..":                     "may not be",
		"a b":                    `" "`,
		"a\x00":                  "letters, digits",
	} {
		check(t, name, func() error { return sink.CheckTopic(name) }, want)
	}
}

func TestParseSubject(t *testing.T) {
	for text, want := range map[string]string{
		"eiffel.{family}.{type}.{tag}.{domain}": "",
		"{key}":                                 "",
		"pre-{key}-post.x":                      "",
		"größe.{stream}":                        "",
		"a..b":                                  "empty token",
		".{stream}":                             "empty token",
		"{stream}.":                             "empty token",
		"a.*":                                   "wildcard",
		"a.>":                                   "wildcard",
		"{stream} x":                            "white space",
		"{stream}\t":                            "white space",
		"$JS.{stream}":                          "keeps for itself",
		"{nothing}":                             "allowed are",
	} {
		check(t, text, func() error { _, err := sink.ParseSubject(text); return err }, want)
	}
}

func TestCheckSubject(t *testing.T) {
	for name, want := range map[string]string{
		"a.b":    "",
		"":       "empty",
		"a. b":   "white space",
		"a.\x7f": "white space",
		"a.*.c":  "wildcard",
	} {
		check(t, name, func() error { return sink.CheckSubject(name) }, want)
	}
}

// check runs f and expects success for an empty want, else an error that contains it.
func check(t *testing.T, name string, f func() error, want string) {
	t.Helper()
	switch err := f(); {
	case want == "" && err != nil:
		t.Errorf("%.60q: %v", name, err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
		t.Errorf("%.60q: error %v, want one with %q", name, err, want)
	}
}

func TestCovers(t *testing.T) {
	for _, c := range []struct {
		pattern, other string
		want           bool
	}{
		{"a.b", "a.b", true}, {"a.b", "a.c", false}, {"a.b", "a", false}, {"a", "a.b", false}, {"a.*", "a.b", true}, {"a.*", "a.b.c", false},
		{"a.*", "a", false}, {"a.>", "a.b", true}, {"a.>", "a.b.c", true}, {"a.>", "a", false}, {">", "a", true}, {"*.b", "a.b", true},
		{"a.*", "a.*", true}, {"a.b", "a.*", false}, {"a.*.c", "a.b.*", false}, {"a.*.*", "a.b.*", true}, {"a.>", "a.*", true},
		{"a.>", "a.>", true}, {"a.>", "a.b.>", true}, {">", ">", true}, {"a.*", "a.>", false}, {"*", ">", false}, {"a.b.>", "a.>", false},
	} {
		if got := sink.Covers(c.pattern, c.other); got != c.want {
			t.Errorf("Covers(%q, %q) is %t", c.pattern, c.other, got)
		}
	}
}
