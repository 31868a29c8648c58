package way

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
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

// noted returns the text of a file whose functions say that they are entered and left, and whether
// they hold the row then.
func noted(text []byte) ([]byte, error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, "", text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	offset := func(p token.Pos) int { return set.Position(p).Offset }
	for _, d := range slices.Backward(file.Decls) {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Body == nil || f.Name.Name == "init" {
			continue
		}
		// From the end of the declaration to its begin: what is inserted moves what follows.
		var edits []edit
		receiver := "nil"
		if f.Recv != nil {
			receiver = named(f.Recv, "wayOf", &edits, offset)[0]
		}
		parameters, results := named(f.Type.Params, "wayIn", &edits, offset), named(f.Type.Results, "wayOut", &edits, offset)
		body := fmt.Sprintf("defer way.Enter(%s)(%s);", strings.Join(append([]string{strconv.Quote(nameOf(file.Name.Name, f)), receiver}, parameters...), ", "), strings.Join(results, ", "))
		edits = append(edits, edit{offset(f.Body.Lbrace) + 1, offset(f.Body.Lbrace) + 1, body})
		for _, e := range slices.Backward(edits) {
			text = slices.Replace(text, e.from, e.to, []byte(e.text)...)
		}
	}
	text = slices.Insert(text, offset(file.Name.End()), fmt.Appendf(nil, "; import %q", imported)...)
	return append(text, "\nvar _ = way.Enter\n"...), nil
}

type edit struct {
	from, to int
	text     string
}

// named returns pointers to all of the parameters or results of a function, and notes in edits what
// gives a name to those without one.
func named(list *ast.FieldList, prefix string, edits *[]edit, offset func(token.Pos) int) (pointers []string) {
	if list == nil {
		return nil
	}
	for _, field := range list.List {
		if len(field.Names) == 0 {
			name := prefix + strconv.Itoa(len(pointers))
			at := offset(field.Type.Pos())
			*edits = append(*edits, edit{at, at, name + " "})
			pointers = append(pointers, "&"+name)
		}
		for _, n := range field.Names {
			name := n.Name
			if name == "_" {
				name = prefix + strconv.Itoa(len(pointers))
				*edits = append(*edits, edit{offset(n.Pos()), offset(n.End()), name})
			}
			pointers = append(pointers, "&"+name)
		}
	}
	if !list.Opening.IsValid() && len(list.List) > 0 {
		// A single result without a name.
		end := offset(list.List[0].Type.End())
		(*edits)[len(*edits)-1].text = "(" + (*edits)[len(*edits)-1].text
		*edits = append(*edits, edit{end, end, ")"})
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
