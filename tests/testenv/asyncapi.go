package testenv

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// AsyncAPIRemark is what the parser of AsyncAPI says about a document. Severity 0 is an error, 1 a
// warning, 2 a hint.
type AsyncAPIRemark struct {
	Severity            int
	Code, Path, Message string
}

// ParseAsyncAPI has the parser of its makers, as scripts/test-deps fetches it, read a document.
func ParseAsyncAPI(t testing.TB, document []byte) (remarks []AsyncAPIRemark) {
	t.Helper()
	const name = "@asyncapi/parser"
	node, err := exec.LookPath("node")
	if err != nil {
		missing(t, name, err)
	}
	modules, err := fetched("node-asyncapi", "node_modules")
	if err != nil {
		missing(t, name, err)
	}
	run := exec.CommandContext(t.Context(), node, filepath.Join(root(), "tests", "testenv", "asyncapi", "parse.js"), modules)
	run.Stdin = bytes.NewReader(document)
	var stderr bytes.Buffer
	run.Stderr = &stderr
	out, err := run.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s%s", name, err, out, stderr.Bytes())
	}
	for line := range strings.Lines(string(out)) {
		var r AsyncAPIRemark
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("%s says %q: %v", name, line, err)
		}
		remarks = append(remarks, r)
	}
	report("real", name)
	return remarks
}
