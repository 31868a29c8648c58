package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestCheck(t *testing.T) {
	many := func(n int, format string) (all string) {
		for i := range n {
			all += fmt.Sprintf(format, i)
		}
		return all
	}
	const sleeps = ": a test sleeps: wait for a condition, or use testing/synctest"
	for _, c := range []struct {
		file, text string
		want       []string
	}{
		{"a/a.go", "package a\n\ntype T[K any] struct{}\n" + many(30, "func (t *T[K]) m%d() {}\n") + "func (T[K]) last() {}\n",
			[]string{"a/a.go:4: a.T has 31 methods, at most 30: it is two types"}},
		{"a/a_test.go", "package a\n\ntype T struct{}\n" + many(40, "func (t T) m%d() {}\n"), nil},
		{"a/a.go", "package a\n\ntype T struct {\n" + many(25, "f%d, ") + "last int\n}\n",
			[]string{"a/a.go:3: a.T has 26 fields, at most 25: it is two types"}},
		{"a/a.go", "package a\n\nimport \"context\"\n\ntype T struct{ ctx context.Context }\n",
			[]string{"a/a.go:5: a.T keeps a context: pass it as a parameter"}},
		{"a/a.go", "package a\n\nfunc f() {\n\t// " + many(30, "%d wd") + "\n}\n", []string{"a/a.go:4: a comment of 147 columns, at most 100"}},
		{"a/a.go", "package a\n\n// See: https://" + strings.Repeat("x", 100) + "\nfunc f() {}\n", nil},
		{"a/a_test.go", "package a\n\nfunc f() {\n\ttime.Sleep(1)\n\t<-time.After(1)\n}\n", []string{"a/a_test.go:4" + sleeps, "a/a_test.go:5" + sleeps}},
		{"a/a_test.go", "package a\n\nfunc f() {\n\tselect {\n\tcase <-time.After(1):\n\t}\n}\n", nil},
		{"a/a_test.go", "package a\n\nfunc f() {\n\tsynctest.Test(t, func(t *testing.T) { <-time.After(1) })\n}\n", nil},
		{"a/a.go", "package a\n\n// settles it in place.\nfunc openLane(deadLetter int) string { return \"whoever\" }\n",
			[]string{`a/a.go:3: "settles" is a retired word`, `a/a.go:4: "lane" in the name openLane is a retired word`, `a/a.go:4: "whoever" is a retired word`}},
		{"a/a.go", "package a\n\nconst bus = \"nats\"\n\nvar b = s == \"kafka\" || s == bus\n", []string{
			`a/a.go:5: a decision by the scheme "kafka": have internal/driver say what differs`, `a/a.go:5: a decision by the scheme "nats": have internal/driver say what differs`,
		}},
		{"internal/driver/kafka/a.go", "package kafka\n\nvar b = s == \"kafka\"\n", nil},
		{"a/a.go", "package a\n\nfunc takeAll() {}\n\nfunc lookup() {}\n", []string{`a/a.go:3: "take" begins the name takeAll: use the verb of the field`}},
		{"a/a.go", "package a\n\nconst e = \"%q is no duration\"\n", []string{`a/a.go:3: "is no d…": say what is wrong and what to use`}},
		{"docs/guarantees.md", "| | lost | test |\n|---|---|---|\n| a | nothing | `TestGone` |\n| b | nothing | |\n\n| c | d |\n",
			[]string{"docs/guarantees.md:4: a promise that names no test", "docs/guarantees.md:3: no package has TestGone"}},
		{"README.md", "It settles.\nThe `lane` is a name.\n", []string{`README.md:1: "settles" is a retired word`}},
	} {
		if got, err := check(map[string][]byte{c.file: []byte(c.text)}); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s\ngot %v\n%s\nwant\n%s", c.text, err, strings.Join(got, "\n"), strings.Join(c.want, "\n"))
		}
	}
}

func TestWords(t *testing.T) {
	var b strings.Builder
	writeWords(&b, map[string][]byte{"a/a.go": nil, "a.md": []byte("# Title\n\n- an item\n\n    code\n\n| a | b |\n|---|--:|\n| c | d-1 |\n")})
	if b.String() != "     8 a.md\n     8 in all\n" {
		t.Errorf("got %s", b.String())
	}
}
