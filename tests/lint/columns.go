package main

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

const (
	mostColumns = 100
	tab         = "    "
)

// columns finds lines of comments that reach beyond column 100. Directives and lines with a single
// long word, such as an address, are left alone.
func (c *checker) columns(name, text string) {
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimRight(line, "\n")
		comment := strings.TrimLeft(line, "\t ")
		if !strings.HasPrefix(comment, "// ") || strings.Count(comment, " ") < 3 {
			continue
		}
		if wide := utf8.RuneCountInString(strings.ReplaceAll(line, "\t", tab)); wide > mostColumns {
			c.findings = append(c.findings, fmt.Sprintf("%s:%d: a comment of %d columns, at most %d", name, n, wide, mostColumns))
		}
	}
}
