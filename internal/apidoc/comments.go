package apidoc

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"strings"
)

// comments are those of types and of their fields: "bridge/internal/httpapi.Status", and with the
// name of a field behind a dot.
type comments map[string]string

// of returns the comment of a type, or of a field, in one line.
func (c comments) of(t reflect.Type, field string) string {
	name := t.PkgPath() + "." + t.Name()
	if field != "" {
		name += "." + field
	}
	return strings.Join(strings.Fields(c[name]), " ")
}

// readComments reads those of packages, below a folder with the module's go.mod.
func readComments(root string, packages ...string) (comments, error) {
	all := make(comments)
	for _, path := range packages {
		files, err := filepath.Glob(filepath.Join(root, strings.TrimPrefix(path, "bridge/"), "*.go"))
		if err != nil || len(files) == 0 {
			return nil, fmt.Errorf("find the files of %s: %d, %w", path, len(files), err)
		}
		for _, file := range files {
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				return nil, err
			}
			all.add(path, parsed)
		}
	}
	return all, nil
}

func (c comments) add(path string, file *ast.File) {
	for _, decl := range file.Decls {
		group, ok := decl.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, spec := range group.Specs {
			one, ok := spec.(*ast.TypeSpec)
			if !ok {
				continue
			}
			name := path + "." + one.Name.Name
			if c[name] = one.Doc.Text(); c[name] == "" {
				c[name] = group.Doc.Text()
			}
			fields, ok := one.Type.(*ast.StructType)
			if !ok {
				continue
			}
			for _, field := range fields.Fields.List {
				for _, ident := range field.Names {
					c[name+"."+ident.Name] = field.Doc.Text()
				}
			}
		}
	}
}

// moduleRoot returns the folder above with go.mod.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	for err == nil {
		if _, gone := os.Stat(filepath.Join(dir, "go.mod")); gone == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			err = fmt.Errorf("no go.mod above the working directory")
		}
		dir = up
	}
	return "", err
}
