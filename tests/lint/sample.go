package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"maps"
	"math/rand/v2"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// text is a message of the log, a comment, or a paragraph of a page.
type text struct{ at, text string }

// newItem begins a paragraph of a page: a list's item, a table's row.
var newItem = regexp.MustCompile(`^(?:\||[-*] |\d+\. )`)

// writeSample prints n texts, a third of each kind, picked by a seed, for a person to read.
func writeSample(w io.Writer, files map[string][]byte, n int, seed uint64) error {
	var logs, comments, paragraphs []text
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if path.Ext(name) == ".md" {
			paragraphs = append(paragraphs, paragraphsOf(name, string(files[name]))...)
			continue
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, name, files[name], parser.ParseComments)
		if err != nil {
			return err
		}
		at := func(n ast.Node) string { return fmt.Sprintf("%s:%d", name, fset.Position(n.Pos()).Line) }
		for _, group := range file.Comments {
			if line := strings.Join(strings.Fields(group.Text()), " "); strings.Contains(line, " ") {
				comments = append(comments, text{at(group), line})
			}
		}
		if strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "tests/") || strings.Contains(name, "test/") {
			continue
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				if message := logged(call); message != "" {
					logs = append(logs, text{at(call), message})
				}
			}
			return true
		})
	}
	random := rand.New(rand.NewPCG(seed, 0))
	for i, all := range [][]text{logs, comments, paragraphs} {
		picked := random.Perm(len(all))
		picked = picked[:min(len(picked), (n+2-i)/3)]
		slices.Sort(picked)
		for _, k := range picked {
			fmt.Fprintf(w, "%s: %s\n", all[k].at, all[k].text)
		}
	}
	return nil
}

// logged returns the message and the keys of a line that a call logs, "" for another call.
func logged(call *ast.CallExpr) string {
	f, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || !slices.Contains([]string{"Debug", "Info", "Warn", "Error"}, f.Sel.Name) || len(call.Args) == 0 {
		return ""
	}
	var parts []string
	for i, arg := range call.Args {
		if literal, ok := arg.(*ast.BasicLit); ok && literal.Kind == token.STRING && (i == 0 || i%2 == 1) {
			part, _ := strconv.Unquote(literal.Value)
			parts = append(parts, part)
		} else if i == 0 {
			return ""
		}
	}
	return strings.Join(parts, " · ")
}

// paragraphsOf returns the paragraphs, items and rows of a page without its code.
func paragraphsOf(name, page string) (all []text) {
	joins, code := false, false
	for i, line := range strings.Split(page, "\n") {
		code = code != strings.HasPrefix(line, "```")
		trimmed := strings.TrimSpace(line)
		switch {
		case code, trimmed == "", strings.HasPrefix(line, "    "), strings.HasPrefix(line, "#"), strings.HasPrefix(line, "|--"), trimmed == "```":
			joins = false
		case joins && !newItem.MatchString(trimmed):
			all[len(all)-1].text += " " + trimmed
		default:
			all = append(all, text{fmt.Sprintf("%s:%d", name, i+1), trimmed})
			joins = true
		}
	}
	return all
}

// countWords counts the words of pages: a word has a letter or a digit, a table's lines have none.
func countWords(page []byte) (n int) {
	for word := range strings.FieldsSeq(string(page)) {
		if strings.ContainsFunc(word, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }) {
			n++
		}
	}
	return n
}

// writeWords prints how many words each page has, and all of them.
func writeWords(w io.Writer, files map[string][]byte) {
	total := 0
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if path.Ext(name) == ".md" {
			n := countWords(files[name])
			total += n
			fmt.Fprintf(w, "%6d %s\n", n, name)
		}
	}
	fmt.Fprintf(w, "%6d in all\n", total)
}
