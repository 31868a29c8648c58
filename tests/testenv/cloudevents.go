package testenv

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// CloudEvent is what the SDK of CloudEvents reads of an event. Document is meta.id of its data.
type CloudEvent struct {
	ID, Type, Source, SpecVersion, Subject, DataContentType, Document string
	Time                                                              time.Time
}

// ReadCloudEvents has the JavaScript SDK of CloudEvents, as scripts/test-deps fetches it, read
// values in structured mode and validate their attributes.
func ReadCloudEvents(t testing.TB, values [][]byte) (events []CloudEvent) {
	t.Helper()
	const name = "cloudevents"
	node, err := exec.LookPath("node")
	if err != nil {
		missing(t, name, err)
	}
	modules, err := fetched("node-cloudevents", "node_modules")
	if err != nil {
		missing(t, name, err)
	}
	run := exec.CommandContext(t.Context(), node, filepath.Join(root(), "tests", "testenv", "cloudevents", "read.js"), modules)
	run.Stdin = bytes.NewReader(bytes.Join(values, []byte("\n")))
	var stderr bytes.Buffer
	run.Stderr = &stderr
	out, err := run.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s%s", name, err, out, stderr.Bytes())
	}
	for line := range strings.Lines(string(out)) {
		var e CloudEvent
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%s says %q: %v", name, line, err)
		}
		events = append(events, e)
	}
	report("real", name)
	return events
}
