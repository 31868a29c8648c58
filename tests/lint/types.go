package main

import (
	"go/ast"
	"maps"
	"path"
	"slices"
)

const (
	mostMethods = 40
	mostFields  = 25
)

// types counts methods and looks at structs.
func (c *checker) types(name string, file *ast.File) {
	dir := path.Dir(name)
	for _, decl := range file.Decls {
		f, ok := decl.(*ast.FuncDecl)
		if !ok || f.Recv == nil {
			continue
		}
		t := dir + "." + receiver(f.Recv.List[0].Type)
		c.methods[t]++
		if c.methods[t] == 1 {
			c.first[t] = f.Pos()
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok {
			return true
		}
		if s, ok := spec.Type.(*ast.StructType); ok {
			c.fields(dir+"."+spec.Name.Name, s)
		}
		return true
	})
}

func (c *checker) fields(name string, s *ast.StructType) {
	n := 0
	for _, field := range s.Fields.List {
		n += max(1, len(field.Names))
		if isContext(field.Type) && !excepted(contexts, name) {
			c.add(field.Pos(), "%s keeps a context: pass it as a parameter", name)
		}
	}
	if n > mostFields && !excepted(fields, name) {
		c.add(s.Pos(), "%s has %d fields, at most %d: it is two types", name, n, mostFields)
	}
}

func (c *checker) tooManyMethods() {
	for _, name := range slices.Sorted(maps.Keys(c.methods)) {
		if n := c.methods[name]; n > mostMethods {
			c.add(c.first[name], "%s has %d methods, at most %d: it is two types", name, n, mostMethods)
		}
	}
}

// receiver returns the name of the type that a method belongs to.
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

func isContext(t ast.Expr) bool {
	s, ok := t.(*ast.SelectorExpr)
	if !ok || s.Sel.Name != "Context" {
		return false
	}
	x, ok := s.X.(*ast.Ident)
	return ok && x.Name == "context"
}
