package main

import "go/ast"

// sleeps finds tests that wait for a time to pass: time.Sleep, and a receive from time.After that
// is a statement of its own. Inside a bubble of testing/synctest both take no time.
func (c *checker) sleeps(file *ast.File) {
	deadlines := make(map[ast.Stmt]bool)
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CommClause:
			deadlines[n.Comm] = true
		case *ast.CallExpr:
			if isCall(n, "synctest", "Test") {
				return false
			}
			if isCall(n, "time", "Sleep") {
				c.add(n.Pos(), "a test sleeps: wait for a condition, or use testing/synctest")
			}
		case *ast.ExprStmt:
			if !deadlines[n] && receivesAfter(n) {
				c.add(n.Pos(), "a test sleeps: wait for a condition, or use testing/synctest")
			}
		}
		return true
	})
}

// receivesAfter reports whether s is a receive from time.After.
func receivesAfter(s *ast.ExprStmt) bool {
	receive, ok := s.X.(*ast.UnaryExpr)
	if !ok {
		return false
	}
	call, ok := receive.X.(*ast.CallExpr)
	return ok && isCall(call, "time", "After")
}

func isCall(call ast.Expr, pkg, name string) bool {
	c, ok := call.(*ast.CallExpr)
	if !ok {
		return false
	}
	s, ok := c.Fun.(*ast.SelectorExpr)
	if !ok || s.Sel.Name != name {
		return false
	}
	x, ok := s.X.(*ast.Ident)
	return ok && x.Name == pkg
}
