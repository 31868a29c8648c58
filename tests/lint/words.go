package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"regexp"
	"strconv"
	"strings"
	"unicode"
)

// retired are words that the glossary replaced, in names, comments, texts and pages. The second
// group is of ordinary English words that had a private meaning: a few set phrases keep them.
var retired = regexp.MustCompile(`(?i)\b(?:whoever|anew|forsake\w*|forsook|bury|buries|buried|greet\w*|glance\w*|` +
	`recall\w*|recollect\w*|lanes?|settle[sd]?|settling|patience|sights?|overlays?|` +
	`places?|marks?|raise[sd]?)\b`)

// retiredName are words that prose keeps in another meaning: a letter of the alphabet.
var retiredName = regexp.MustCompile(`\b(?:letters?)\b`)

// phrases are what a retired word may stand in.
var phrases = regexp.MustCompile(`(?i)\b(?:dead letters?|in place\b|takes? place|decimal places?|(?:question|quotation|byte order|low-water) marks?)`)

// verbs begin no names: they mean something else in every file.
var verbs = map[string]bool{"take": true, "look": true, "settle": true, "judge": true, "tell": true, "ask": true, "hold": true, "know": true}

// badError is a text of an error that says what a thing is not.
// That there is nothing of a kind is plain.
var badError = regexp.MustCompile(`\bis no [a-z]`)

func retiredIn(text string) []string {
	return retired.FindAllString(phrases.ReplaceAllString(text, ""), -1)
}

// page looks at the prose of a page; what stands between backquotes is a name.
func (c *checker) page(name, text string) {
	if excepted(words, name) {
		return
	}
	n := 0
	for line := range strings.Lines(text) {
		n++
		for _, word := range retiredIn(quoted.ReplaceAllString(line, "")) {
			c.findings = append(c.findings, fmt.Sprintf("%s:%d: %q is a retired word", name, n, word))
		}
	}
}

var quoted = regexp.MustCompile("`[^`]*`")

// words looks at names, comments and texts.
func (c *checker) words(file *ast.File) {
	for _, group := range file.Comments {
		for _, comment := range group.List {
			for _, word := range retiredIn(comment.Text) {
				c.add(comment.Pos(), "%q is a retired word", word)
			}
		}
	}
	tags := make(map[*ast.BasicLit]bool)
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.BasicLit:
			if !tags[n] {
				c.literal(n)
			}
		case *ast.FuncDecl:
			c.name(n.Name)
			if first, _, _ := strings.Cut(camel(n.Name.Name), " "); verbs[first] {
				c.add(n.Name.Pos(), "%q begins the name %s: use the verb of the field", first, n.Name.Name)
			}
		case *ast.TypeSpec:
			c.name(n.Name)
		case *ast.Field:
			c.name(n.Names...)
			if n.Tag != nil {
				// What is outside relies on these names.
				tags[n.Tag] = true
			}
		case *ast.ValueSpec:
			c.name(n.Names...)
		case *ast.AssignStmt:
			if n.Tok == token.DEFINE {
				for _, left := range n.Lhs {
					if id, ok := left.(*ast.Ident); ok {
						c.name(id)
					}
				}
			}
		}
		return true
	})
}

func (c *checker) literal(l *ast.BasicLit) {
	if l.Kind != token.STRING {
		return
	}
	text, err := strconv.Unquote(l.Value)
	if err != nil {
		return
	}
	for _, word := range retiredIn(text) {
		c.add(l.Pos(), "%q is a retired word", word)
	}
	if bad := badError.FindString(strings.ReplaceAll(text, "here is no ", "")); bad != "" {
		c.add(l.Pos(), "%q: say what is wrong and what to use", bad+"…")
	}
}

// name looks at names where they are declared.
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
	var b strings.Builder
	for i, r := range name {
		if unicode.IsUpper(r) && i > 0 || r == '_' {
			b.WriteByte(' ')
		}
		if r != '_' {
			b.WriteRune(unicode.ToLower(r))
		}
	}
	return b.String()
}
