package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
)

func main() {
	names, err := exec.Command("git", "ls-files", "*.go", "*.md").Output()
	if err != nil {
		fmt.Fprintln(os.Stderr, "lint: list the files of the repository:", err)
		os.Exit(2)
	}
	files := make(map[string][]byte)
	for name := range strings.FieldsSeq(string(names)) {
		text, err := os.ReadFile(name)
		if err != nil {
			fmt.Fprintln(os.Stderr, "lint:", err)
			os.Exit(2)
		}
		files[name] = text
	}
	findings, err := check(files)
	if err != nil {
		fmt.Fprintln(os.Stderr, "lint:", err)
		os.Exit(2)
	}
	findings = slices.DeleteFunc(findings, func(f string) bool { return !begins(f, os.Args[1:]) })
	for _, f := range findings {
		fmt.Println(f)
	}
	if len(findings) > 0 {
		os.Exit(1)
	}
}

// begins reports whether s has one of the prefixes, or there are none.
func begins(s string, prefixes []string) bool {
	has := func(prefix string) bool { return strings.HasPrefix(s, prefix) }
	return len(prefixes) == 0 || slices.ContainsFunc(prefixes, has)
}

// checker collects what the rules find.
type checker struct {
	fset     *token.FileSet
	findings []string
	// methods counts the methods of each type by "directory.Type", with where its first method is.
	methods map[string]int
	first   map[string]token.Pos
	// tests are those of all files, mentioned those that pages name.
	tests     map[string]bool
	mentioned []mention
}

// check returns the findings in files, which are named by their paths below the module's root.
func check(files map[string][]byte) ([]string, error) {
	c := &checker{fset: token.NewFileSet(), methods: make(map[string]int), first: make(map[string]token.Pos), tests: make(map[string]bool)}
	names := make([]string, 0, len(files))
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if path.Ext(name) == ".md" {
			c.page(name, string(files[name]))
			c.mentions(name, string(files[name]))
			continue
		}
		file, err := parser.ParseFile(c.fset, name, files[name], parser.ParseComments)
		if err != nil {
			return nil, err
		}
		c.file(name, file)
		c.columns(name, string(files[name]))
	}
	c.tooManyMethods()
	c.unknownTests()
	return c.findings, nil
}

func (c *checker) add(pos token.Pos, format string, args ...any) {
	p := c.fset.Position(pos)
	c.findings = append(c.findings, fmt.Sprintf("%s:%d: %s", p.Filename, p.Line, fmt.Sprintf(format, args...)))
}

func (c *checker) file(name string, file *ast.File) {
	if !excepted(words, name) {
		c.words(file)
	}
	if strings.HasSuffix(name, "_test.go") {
		c.sleeps(file)
		c.declares(file)
	}
	c.types(name, file)
}
