package way

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"

	_ "embed"

	"example.org/bridge/tests/faulty"
)

// variable names the file to which a program built by overlay writes what functions it enters and
// leaves. rowVariable has the text by which it knows the row.
const (
	variable    = "BRIDGE_TEST_WAY"
	rowVariable = "BRIDGE_TEST_WAY_ROW"
)

// recorder is the package that writes them.
//
//go:embed recorder.go.txt
var recorder []byte

const imported = "example.org/bridge/client/way"

// overlay makes, in dir, the files with which the go command builds the program below root so that
// each of its functions says that it is entered. It returns the path of the list of them. A closure
// counts with the function around it.
func overlay(root, dir string) (list string, err error) {
	made, err := faulty.Sources(root)
	for path, text := range made {
		if err == nil {
			made[path], err = noted(text)
		}
	}
	if err != nil {
		return "", err
	}
	made["client/way/way.go"] = recorder
	return faulty.Replace(root, dir, made)
}

// packageLine is where the import of the recorder goes.
var packageLine = regexp.MustCompile(`(?m)^package \w+`)

// noted returns the text of a file whose functions say that they are entered and left, and whether
// they hold the row then.
func noted(text []byte) ([]byte, error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, "", text, parser.SkipObjectResolution|parser.ParseComments)
	if err != nil {
		return nil, err
	}
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Body == nil || f.Name.Name == "init" {
			continue
		}
		entered := []string{strconv.Quote(nameOf(file.Name.Name, f)), "nil"}
		if f.Recv != nil {
			entered[1] = named(f.Recv, "wayOf")[0]
		}
		entered = append(entered, named(f.Type.Params, "wayIn")...)
		// Their text stands for what is called.
		enter := ast.NewIdent("way.Enter(" + strings.Join(entered, ", ") + ")")
		results := ast.NewIdent(strings.Join(named(f.Type.Results, "wayOut"), ", "))
		f.Body.List = slices.Insert(f.Body.List, 0, ast.Stmt(&ast.DeferStmt{Call: &ast.CallExpr{Fun: enter, Args: []ast.Expr{results}}}))
	}
	var b bytes.Buffer
	err = printer.Fprint(&b, set, file)
	at := packageLine.FindIndex(b.Bytes())[1]
	text = slices.Insert(b.Bytes(), at, fmt.Appendf(nil, "; import %q", imported)...)
	return append(text, "\nvar _ = way.Enter\n"...), err
}

// named returns pointers to all of the parameters or results of a function, and gives a name to
// those without one.
func named(list *ast.FieldList, prefix string) (pointers []string) {
	if list == nil {
		return nil
	}
	for _, field := range list.List {
		if len(field.Names) == 0 {
			field.Names = []*ast.Ident{ast.NewIdent("_")}
		}
		for _, n := range field.Names {
			if n.Name == "_" {
				n.Name = prefix + strconv.Itoa(len(pointers))
			}
			pointers = append(pointers, "&"+n.Name)
		}
	}
	return pointers
}

// nameOf returns the name of a function as a reader of the code would search for it.
func nameOf(pkg string, f *ast.FuncDecl) string {
	name := pkg + "."
	if f.Recv != nil {
		of := f.Recv.List[0].Type
		if p, ok := of.(*ast.StarExpr); ok {
			of = p.X
		}
		switch generic := of.(type) {
		case *ast.IndexExpr:
			of = generic.X
		case *ast.IndexListExpr:
			of = generic.X
		}
		name += of.(*ast.Ident).Name + "."
	}
	return name + f.Name.Name
}
