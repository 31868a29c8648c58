// Package apidoc makes the OpenAPI document of /api/v1 from the types of package httpapi and their
// comments, and holds answers against it. The program has the document alone.
//
// A member that a type gets is in the document after
//
//	go test ./internal/apidoc -update
//
// and a path after an entry in operations. The tests of all answers fail for what is missing.
package apidoc
