package testenv

import (
	"bytes"
	"context"
	"os/exec"
	"path/filepath"
	"testing"
)

// The folders of Python with confluent-kafka, with nats-py, and with schemathesis.
const (
	PythonOnKafka  = "python-clients"
	PythonOnNATS   = "python-nats"
	PythonOpenAPI  = "python-openapi"
	openAPIProgram = "bin/schemathesis"
)

// Python runs a script of the repository with the packages of a folder, and returns what it prints.
func Python(t testing.TB, packages, script string, args ...string) []byte {
	t.Helper()
	python, err := fetched(packages, "bin/python3")
	if err != nil {
		missing(t, "Python with "+packages, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), clientWithin)
	defer cancel()
	run := exec.CommandContext(ctx, python, append([]string{filepath.Join(root(), script)}, args...)...)
	var stderr bytes.Buffer
	run.Stderr = &stderr
	out, err := run.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s%s", script, err, out, stderr.Bytes())
	}
	report("real", packages)
	return out
}

// Schemathesis asks a server for all that its OpenAPI document describes, and more, and holds what
// it answers against the document.
func Schemathesis(t testing.TB, document string, args ...string) {
	t.Helper()
	program, err := fetched(PythonOpenAPI, openAPIProgram)
	if err != nil {
		missing(t, "schemathesis", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), clientWithin)
	defer cancel()
	run := exec.CommandContext(ctx, program, append([]string{"run", document}, args...)...)
	// It keeps files of its runs.
	run.Dir = t.TempDir()
	if out, err := run.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	report("real", "schemathesis")
}
