package logevent

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"example.org/bridge/tests/must"
)

const top = "../../"

// notOfTheDaemon are folders whose code does not log into the daemon's log: programs of users,
// tests and what only tests use.
var notOfTheDaemon = regexp.MustCompile(`^(client|examples|tests|internal/(testenv|acceptance|bench|model|lint|logevent))(/|$)|/\w+test$|^\.|/testdata`)

// messageAt is the argument of a method of slog.Logger that is the message.
var messageAt = map[string]int{
	"Debug": 0, "Info": 0, "Warn": 0, "Error": 0, "DebugContext": 1, "InfoContext": 1, "WarnContext": 1, "ErrorContext": 1, "Log": 2, "LogAttrs": 2,
}

// loggers are the names that loggers have.
var loggers = regexp.MustCompile(`(?i)^(slog|log|\w*logger)$`)

// site is a call that logs.
type site struct {
	at             token.Position
	folder         string
	message, level string
}

// scanner reads the Go files of the daemon.
type scanner struct {
	fset   *token.FileSet
	sites  []site
	faults []string
	// constants are those of the package that is read.
	constants map[string]string
}

func scan(t *testing.T) *scanner {
	t.Helper()
	s := &scanner{fset: token.NewFileSet()}
	must.OK(t, filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		folder, err := filepath.Rel(top, path)
		if err != nil {
			return err
		}
		folder = filepath.ToSlash(folder)
		if folder != "." && notOfTheDaemon.MatchString(folder) {
			return fs.SkipDir
		}
		return s.read(path, folder)
	}))
	return s
}

func (s *scanner) read(path, folder string) error {
	names, err := filepath.Glob(filepath.Join(path, "*.go"))
	if err != nil {
		return err
	}
	var files []*ast.File
	s.constants = map[string]string{}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(s.fset, name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		files = append(files, file)
		ast.Inspect(file, s.constant)
	}
	for _, file := range files {
		for _, d := range file.Decls {
			s.calls(folder, d)
		}
	}
	return nil
}

// constant notes constants that are texts.
func (s *scanner) constant(n ast.Node) bool {
	decl, ok := n.(*ast.GenDecl)
	if !ok || decl.Tok != token.CONST {
		return true
	}
	for _, spec := range decl.Specs {
		spec := spec.(*ast.ValueSpec)
		for i, value := range spec.Values {
			if text, ok := s.text(value); ok {
				s.constants[spec.Names[i].Name] = text
			}
		}
	}
	return true
}

// text returns the value of an expression that is a constant text.
func (s *scanner) text(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind == token.STRING {
			return constant.StringVal(constant.MakeFromLiteral(e.Value, e.Kind, 0)), true
		}
	case *ast.Ident:
		text, ok := s.constants[e.Name]
		return text, ok
	case *ast.BinaryExpr:
		left, one := s.text(e.X)
		right, other := s.text(e.Y)
		return left + right, one && other
	}
	return "", false
}

func (s *scanner) calls(folder string, d ast.Decl) {
	ast.Inspect(d, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		method, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		where := s.fset.Position(call.Pos())
		if _, logs := messageAt[method.Sel.Name]; lastName(method.X) == "slog" && (logs || method.Sel.Name == "NewLogLogger") {
			s.faults = append(s.faults, fmt.Sprintf("%s: slog.%s: log to a logger that is handed in, with a constant message", where, method.Sel.Name))
		}
		at, ok := messageAt[method.Sel.Name]
		if !ok || len(call.Args) <= at || !loggers.MatchString(lastName(method.X)) {
			return true
		}
		message, ok := s.text(call.Args[at])
		if !ok {
			s.faults = append(s.faults, fmt.Sprintf("%s: the message is not constant: what varies goes into attributes", where))
			return true
		}
		for _, arg := range call.Args[at+1:] {
			if text, ok := s.text(arg); ok && text == Key {
				s.faults = append(s.faults, fmt.Sprintf("%s: the key %s is that of the line's name", where, Key))
			}
		}
		s.sites = append(s.sites, site{at: where, folder: folder, message: message, level: level(method.Sel.Name, call.Args[:at])})
		return true
	})
}

// lastName returns the last name of a.b.c, "" of other expressions.
func lastName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

func level(method string, before []ast.Expr) string {
	name := strings.TrimSuffix(method, "Context")
	if !strings.HasPrefix(name, "Log") {
		return strings.ToLower(name)
	}
	if chosen := lastName(before[1]); strings.HasPrefix(chosen, "Level") {
		return strings.ToLower(strings.TrimPrefix(chosen, "Level"))
	}
	return "varies"
}
