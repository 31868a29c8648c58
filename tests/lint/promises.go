package main

import (
	"fmt"
	"go/ast"
	"path"
	"regexp"
	"strings"
)

// promises is the page whose tables name a test in the last cell of each row.
const promises = "docs/guarantees.md"

// namedTest matches a test or a benchmark that a page names.
var namedTest = regexp.MustCompile("`((?:Test|Benchmark)[A-Z0-9]\\w*)`")

// mention is a test that a page names, and where.
type mention struct{ at, test string }

// declares notes the tests of a file.
func (c *checker) declares(file *ast.File) {
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil {
			c.tests[f.Name.Name] = true
		}
	}
}

// mentions notes the tests that a page of docs names, and finds rows of promises that name none.
func (c *checker) mentions(name, text string) {
	if path.Dir(name) != "docs" {
		return
	}
	n, promised := 0, false
	for line := range strings.Lines(text) {
		n++
		at, line := fmt.Sprintf("%s:%d", name, n), strings.TrimSpace(line)
		for _, match := range namedTest.FindAllStringSubmatch(line, -1) {
			c.mentioned = append(c.mentioned, mention{at, match[1]})
		}
		switch row := strings.HasPrefix(line, "|"); {
		case !row || name != promises:
			promised = false
		case strings.HasSuffix(line, "| test |"):
			promised = true
		case promised && !strings.HasPrefix(line, "|---"):
			if cells := strings.Split(strings.Trim(line, "|"), "|"); !namedTest.MatchString(cells[len(cells)-1]) {
				c.findings = append(c.findings, at+": a promise that names no test")
			}
		}
	}
}

// unknownTests finds the tests that pages name and no package has.
func (c *checker) unknownTests() {
	for _, m := range c.mentioned {
		if !c.tests[m.test] {
			c.findings = append(c.findings, fmt.Sprintf("%s: no package has %s", m.at, m.test))
		}
	}
}
