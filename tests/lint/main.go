package main

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	mostColumns = 100
	mostMethods = 30
	// mostOfTests bounds the methods of a type that only tests have.
	mostOfTests = 40
	mostFields  = 25
)

func main() {
	words := flag.Bool("words", false, "count the words of each page instead")
	flag.Parse()
	names, err := exec.Command("git", "ls-files", "*.go", "*.md").Output()
	files := make(map[string][]byte)
	for name := range strings.FieldsSeq(string(names)) {
		if err == nil {
			files[name], err = os.ReadFile(name)
		}
	}
	var findings []string
	switch {
	case err != nil:
	case *words:
		writeWords(os.Stdout, files)
	default:
		findings, err = check(files)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "lint:", err)
		os.Exit(2)
	}
	for _, f := range findings {
		fmt.Println(f)
	}
	if len(findings) > 0 {
		os.Exit(1)
	}
}

type checker struct {
	fset     *token.FileSet
	findings []string
	// methods are those of each type by "directory.Type", behind ofTests where only tests have
	// them.
	methods map[string][]token.Pos
	// tests are the tests of all files, mentioned those that pages name, by where they do.
	tests     map[string]bool
	mentioned [][2]string
}

// check returns the findings in files, which are named by their paths below the module's root.
func check(files map[string][]byte) ([]string, error) {
	c := &checker{fset: token.NewFileSet(), methods: make(map[string][]token.Pos), tests: make(map[string]bool)}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		text := string(files[name])
		if path.Ext(name) == ".md" {
			c.page(name, text)
			continue
		}
		file, err := parser.ParseFile(c.fset, name, text, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		if !words.cover(name) {
			c.words(file)
		}
		if strings.HasSuffix(name, "_test.go") {
			c.test(file)
		}
		c.types(name, file)
		if product(name) {
			c.schemes(file)
		}
		c.columns(name, text)
	}
	for _, name := range slices.Sorted(maps.Keys(c.methods)) {
		most := mostMethods
		if strings.HasPrefix(name, ofTests) {
			most = mostOfTests
		}
		if all := c.methods[name]; len(all) > most {
			c.add(all[0], "%s has %d methods, at most %d: it is two types", strings.TrimPrefix(name, ofTests), len(all), most)
		}
	}
	for _, m := range c.mentioned {
		if !c.tests[m[1]] {
			c.findings = append(c.findings, fmt.Sprintf("%s: no package has %s", m[0], m[1]))
		}
	}
	return c.findings, nil
}

func (c *checker) add(pos token.Pos, format string, args ...any) {
	p := c.fset.Position(pos)
	c.line(p.Filename, p.Line, format, args...)
}

func (c *checker) line(name string, n int, format string, args ...any) {
	c.findings = append(c.findings, fmt.Sprintf("%s:%d: %s", name, n, fmt.Sprintf(format, args...)))
}

// columns finds lines of comments that are too wide. Directives and lines with a single long word,
// such as an address, are left alone.
func (c *checker) columns(name, text string) {
	for i, line := range strings.Split(text, "\n") {
		comment := strings.TrimLeft(line, "\t ")
		wide := utf8.RuneCountInString(strings.ReplaceAll(line, "\t", "    "))
		if wide > mostColumns && strings.HasPrefix(comment, "// ") && strings.Count(comment, " ") >= 3 {
			c.line(name, i+1, "a comment of %d columns, at most %d", wide, mostColumns)
		}
	}
}

// ofTests begins the names of types whose methods only tests have.
const ofTests = "tests: "

func (c *checker) types(name string, file *ast.File) {
	dir, of := path.Dir(name), ""
	if strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "tests/") {
		of = ofTests
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			if n.Recv != nil {
				name := of + dir + "." + receiver(n.Recv.List[0].Type)
				c.methods[name] = append(c.methods[name], n.Pos())
			}
		case *ast.TypeSpec:
			s, ok := n.Type.(*ast.StructType)
			if !ok {
				break
			}
			name := dir + "." + n.Name.Name
			for _, field := range s.Fields.List {
				if is(field.Type, "context", "Context") && !contexts.cover(name) {
					c.add(field.Pos(), "%s keeps a context: pass it as a parameter", name)
				}
			}
			if all := s.Fields.NumFields(); all > mostFields && !fields.cover(name) {
				c.add(s.Pos(), "%s has %d fields, at most %d: it is two types", name, all, mostFields)
			}
		}
		return true
	})
}

// product reports whether a file is a part of the program and of no single bus or database.
func product(name string) bool {
	return !strings.HasSuffix(name, "_test.go") && !slices.ContainsFunc(kinds, func(folder string) bool { return strings.HasPrefix(name, folder) })
}

// schemes finds decisions by the kind of a bus or database: comparisons and cases with a scheme. A
// driver says what its kind can do.
func (c *checker) schemes(file *ast.File) {
	constants := make(map[string]ast.Expr)
	refuse := func(all ...ast.Expr) {
		for _, e := range all {
			value := e
			if name, ok := e.(*ast.Ident); ok {
				value = constants[name.Name]
			}
			if literal, ok := value.(*ast.BasicLit); ok && slices.Contains(schemes, strings.Trim(literal.Value, "\"`")) {
				c.add(e.Pos(), "a decision by the scheme %s: have internal/driver say what differs", literal.Value)
			}
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ValueSpec:
			for i, value := range n.Values {
				constants[n.Names[i].Name] = value
			}
		case *ast.BinaryExpr:
			if n.Op == token.EQL || n.Op == token.NEQ {
				refuse(n.X, n.Y)
			}
		case *ast.CaseClause:
			refuse(n.List...)
		}
		return true
	})
}

func receiver(t ast.Expr) string {
	switch t := t.(type) {
	case *ast.StarExpr:
		return receiver(t.X)
	case *ast.IndexExpr:
		return receiver(t.X)
	case *ast.IndexListExpr:
		return receiver(t.X)
	case *ast.Ident:
		return t.Name
	}
	return ""
}

// test notes the tests of a file, and finds those that wait for a time to pass: time.Sleep, and a
// receive from time.After that is a statement of its own. In testing/synctest both take no time.
func (c *checker) test(file *ast.File) {
	const sleeps = "a test sleeps: wait for a condition, or use testing/synctest"
	deadlines := make(map[ast.Stmt]bool)
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			c.tests[n.Name.Name] = c.tests[n.Name.Name] || n.Recv == nil
		case *ast.CommClause:
			deadlines[n.Comm] = true
		case *ast.CallExpr:
			if is(n.Fun, "synctest", "Test") {
				return false
			}
			if is(n.Fun, "time", "Sleep") {
				c.add(n.Pos(), sleeps)
			}
		case *ast.ExprStmt:
			if receive, ok := n.X.(*ast.UnaryExpr); ok && !deadlines[n] {
				if call, ok := receive.X.(*ast.CallExpr); ok && is(call.Fun, "time", "After") {
					c.add(n.Pos(), sleeps)
				}
			}
		}
		return true
	})
}

func is(e ast.Expr, pkg, name string) bool {
	s, ok := e.(*ast.SelectorExpr)
	if !ok || s.Sel.Name != name {
		return false
	}
	x, ok := s.X.(*ast.Ident)
	return ok && x.Name == pkg
}
