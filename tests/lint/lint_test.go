package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestCheck(t *testing.T) {
	many := func(n int, format string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	for _, c := range []struct {
		name, file, text string
		want             []string
	}{
		{"nothing", "a/a.go", "// Package a is fine.\npackage a\n", nil},
		{"41 methods", "a/a.go", "package a\n\ntype T[K any] struct{}\n" + many(41, "func (t *T[K]) m%d() {}\n"),
			[]string{"a/a.go:4: a.T has 41 methods, at most 40: it is two types"}},
		{"40 methods", "a/a.go", "package a\n\ntype T struct{}\n" + many(40, "func (T) m%d() {}\n"), nil},
		{"26 fields", "a/a.go", "package a\n\ntype T struct {\n" + many(25, "f%d, ") + "last int\n}\n",
			[]string{"a/a.go:3: a.T has 26 fields, at most 25: it is two types"}},
		{"a context that is kept", "a/a.go", "package a\n\nimport \"context\"\n\ntype T struct{ ctx context.Context }\n",
			[]string{"a/a.go:5: a.T keeps a context: pass it as a parameter"}},
		{"a wide comment", "a/a.go", "package a\n\nfunc f() {\n\t// " + many(30, "%d wd") + "\n}\n",
			[]string{"a/a.go:4: a comment of 147 columns, at most 100"}},
		{"an address", "a/a.go", "package a\n\n// See: https://" + strings.Repeat("x", 100) + "\nfunc f() {}\n", nil},
		{"a test that sleeps", "a/a_test.go", "package a\n\nimport \"time\"\n\nfunc f() {\n\ttime.Sleep(1)\n\t<-time.After(1)\n}\n",
			[]string{"a/a_test.go:6: a test sleeps: wait for a condition, or use testing/synctest",
				"a/a_test.go:7: a test sleeps: wait for a condition, or use testing/synctest"}},
		{"a deadline", "a/a_test.go", "package a\n\nfunc f() {\n\tselect {\n\tcase <-time.After(1):\n\t}\n}\n", nil},
		{"a bubble", "a/a_test.go", "package a\n\nfunc f() {\n\tsynctest.Test(t, func(t *testing.T) { <-time.After(1) })\n}\n", nil},
		{"retired words", "a/a.go", "package a\n\n// settles it in place.\nfunc openLane(deadLetter int) string { return \"whoever\" }\n",
			[]string{`a/a.go:3: "settles" is a retired word`, `a/a.go:4: "lane" in the name openLane is a retired word`,
				`a/a.go:4: "whoever" is a retired word`}},
		{"a verb of ours", "a/a.go", "package a\n\nfunc takeAll() {}\n\nfunc lookup() {}\n",
			[]string{`a/a.go:3: "take" begins the name takeAll: use the verb of the field`}},
		{"a riddle of an error", "a/a.go", "package a\n\nconst e = \"%q is no duration\"\n",
			[]string{`a/a.go:3: "is no d…": say what is wrong and what to use`}},
		{"promises", "docs/guarantees.md", "| | lost | test |\n|---|---|---|\n| a | nothing | `TestGone` |\n| b | nothing | |\n\n| c | d |\n",
			[]string{"docs/guarantees.md:4: a promise that names no test", "docs/guarantees.md:3: no package has TestGone"}},
		{"a page", "README.md", "It settles.\nThe `lane` is a name.\n", []string{`README.md:1: "settles" is a retired word`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := check(map[string][]byte{c.file: []byte(c.text)})
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
}

// TestEveryExceptionHasItsReason also holds that each one names something with a path.
func TestEveryExceptionHasItsReason(t *testing.T) {
	for _, e := range slices.Concat(words, fields, contexts) {
		if e.reason == "" || !strings.Contains(e.prefix, "/") {
			t.Errorf("exception %+v", e)
		}
	}
}
