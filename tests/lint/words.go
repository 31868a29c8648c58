package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"io"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

var (
	// retired are words that the glossary replaced, in names, comments, texts and pages, and
	// ordinary English words that had a private meaning: a few phrases keep them.
	retired = regexp.MustCompile(`(?i)\b(?:whoever|anew|forsake\w*|forsook|bury|buries|buried|greet\w*|glance\w*|` +
		`recall\w*|recollect\w*|lanes?|settle[sd]?|settling|patience|sights?|overlays?|places?|marks?|raise[sd]?|` +
		`stir(?:red|s)?|owe[sd]?|wish(?:es|ed)?|lends?|lent|fates?|losers?|untold|acquit\w*|time alone|mend\w*|` +
		`polled for ever|held against|those which|such a one|tells no reason|where from and where to)\b`)
	phrases = regexp.MustCompile(`(?i)\b(?:dead letters?|in place\b|takes? place|decimal places?|(?:question|quotation|byte order|low-water) marks?|told from)|"(?:fates?|twins)"`)
	// retiredName are retired in names alone, verbs begin no names: they mean something else in
	// every file.
	retiredName = regexp.MustCompile(`\b(?:letters?|give back|landings?|consents?|heights|arrivals?|twins?|told|trays?|collect often|` +
		`strangers?|vague|torn|mutes?d?|fly)\b`)
	verbs = regexp.MustCompile(`^(?:take|look|settle|judge|tell|ask|hold|know)\b`)
	// badError is a text of an error that says what a thing is not. That there is nothing of a kind
	// is plain.
	badError = regexp.MustCompile(`\bis no [a-z]`)
	hump     = regexp.MustCompile(`_?([A-Z])|_`)
	quoted   = regexp.MustCompile("`[^`]*`")
	// namedTest matches a test or a benchmark that a page names.
	namedTest = regexp.MustCompile("`((?:Test|Benchmark)[A-Z0-9]\\w*)`")
)

func retiredIn(text string) []string {
	return retired.FindAllString(phrases.ReplaceAllString(text, ""), -1)
}

// promises is the page whose tables name a test in the last cell of each row.
const promises = "docs/guarantees.md"

// page looks at the prose of a page, and at the tests that a page of docs names.
func (c *checker) page(name, text string) {
	promised := false
	for i, line := range strings.Split(text, "\n") {
		for _, word := range retiredIn(quoted.ReplaceAllString(line, "")) {
			if !words.cover(name) {
				c.line(name, i+1, "%q is a retired word", word)
			}
		}
		if path.Dir(name) != "docs" {
			continue
		}
		for _, match := range namedTest.FindAllStringSubmatch(line, -1) {
			c.mentioned = append(c.mentioned, [2]string{fmt.Sprintf("%s:%d", name, i+1), match[1]})
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		switch row := strings.HasPrefix(line, "|"); {
		case !row || name != promises:
			promised = false
		case strings.HasSuffix(line, "| test |"):
			promised = true
		case promised && !strings.HasPrefix(line, "|---") && !namedTest.MatchString(cells[len(cells)-1]):
			c.line(name, i+1, "a promise that names no test")
		}
	}
}

func (c *checker) words(file *ast.File) {
	for _, group := range file.Comments {
		for _, comment := range group.List {
			c.retired(comment.Pos(), comment.Text)
		}
	}
	tags := make(map[*ast.BasicLit]bool)
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.BasicLit:
			if text, err := strconv.Unquote(n.Value); err == nil && n.Kind == token.STRING && !tags[n] {
				c.retired(n.Pos(), text)
				if bad := badError.FindString(strings.ReplaceAll(text, "here is no ", "")); bad != "" {
					c.add(n.Pos(), "%q: say what is wrong and what to use", bad+"…")
				}
			}
		case *ast.FuncDecl:
			c.name(n.Name)
			if first := verbs.FindString(camel(n.Name.Name)); first != "" {
				c.add(n.Name.Pos(), "%q begins the name %s: use the verb of the field", first, n.Name.Name)
			}
		case *ast.TypeSpec:
			c.name(n.Name)
		case *ast.Field:
			c.name(n.Names...)
			tags[n.Tag] = true // what is outside relies on these names
		case *ast.ValueSpec:
			c.name(n.Names...)
		case *ast.AssignStmt:
			for _, left := range n.Lhs {
				if id, ok := left.(*ast.Ident); ok && n.Tok == token.DEFINE {
					c.name(id)
				}
			}
		}
		return true
	})
}

func (c *checker) retired(pos token.Pos, text string) {
	for _, word := range retiredIn(text) {
		c.add(pos, "%q is a retired word", word)
	}
}

func (c *checker) name(ids ...*ast.Ident) {
	for _, id := range ids {
		name := phrases.ReplaceAllString(camel(id.Name), "")
		for _, word := range append(retired.FindAllString(name, -1), retiredName.FindAllString(name, -1)...) {
			c.add(id.Pos(), "%q in the name %s is a retired word", word, id.Name)
		}
	}
}

// camel splits a Go name into lower-case words.
func camel(name string) string {
	return strings.TrimSpace(strings.ToLower(hump.ReplaceAllString(name, " $1")))
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
