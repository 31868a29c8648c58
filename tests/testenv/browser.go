package testenv

import (
	"bytes"
	"context"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// browserWithin bounds a run of a browser.
const browserWithin = 5 * time.Minute

// BrowserCheck is what a script has found out in a browser: of a scene, in words, and what was
// wrong; Wrong is empty where nothing was.
type BrowserCheck struct{ Scene, Check, Wrong string }

// Browse has Chromium, as scripts/test-deps installs it, play a script of the repository. The
// script gets input as JSON on its standard input, and prints a BrowserCheck a line.
func Browse(t testing.TB, script string, input any) (checks []BrowserCheck) {
	t.Helper()
	needReal(t)
	const name = "chromium with playwright-core"
	node, err := exec.LookPath("node")
	if err != nil {
		missing(t, name, err)
	}
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		missing(t, name, err)
	}
	modules, err := fetched("node-browser", "node_modules")
	if err != nil {
		missing(t, name, err)
	}
	text, err := json.Marshal(input)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), browserWithin)
	defer cancel()
	run := exec.CommandContext(ctx, node, filepath.Join(root(), script), modules, chromium)
	run.Stdin = bytes.NewReader(text)
	var stderr bytes.Buffer
	run.Stderr = &stderr
	out, err := run.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s%s", script, err, out, stderr.Bytes())
	}
	for line := range strings.Lines(string(out)) {
		var c BrowserCheck
		if err := json.Unmarshal([]byte(line), &c); err != nil {
			t.Fatalf("%s says %q: %v", script, line, err)
		}
		checks = append(checks, c)
	}
	report("real", name)
	return checks
}
