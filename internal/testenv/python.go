package testenv

import (
	"bytes"
	"context"
	"os/exec"
	"path/filepath"
	"testing"
)

// PythonOnKafka and PythonOnNATS name the folders of Python with confluent-kafka and with nats-py.
const (
	PythonOnKafka = "python-clients"
	PythonOnNATS  = "python-nats"
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
