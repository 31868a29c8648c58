package testenv

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// foreign is a program that is not ours, as scripts/test-deps fetches it, and how it is run.
type foreign struct {
	name string
	// missing is why it cannot be run, nil where it can.
	missing error
	args    []string
	dir     string
	env     []string
	input   []byte
}

// foreignWithin bounds a run.
const foreignWithin = 5 * time.Minute

// try runs a program to its end and returns what it printed to stdout, or else all in the error.
func (f foreign) try(t testing.TB) ([]byte, error) {
	t.Helper()
	if f.missing != nil {
		missing(t, f.name, f.missing)
	}
	ctx, cancel := context.WithTimeout(t.Context(), foreignWithin)
	defer cancel()
	run := exec.CommandContext(ctx, f.args[0], f.args[1:]...)
	run.Dir, run.Env, run.Stdin = f.dir, append(os.Environ(), f.env...), bytes.NewReader(f.input)
	var stdout, stderr bytes.Buffer
	run.Stdout, run.Stderr = &stdout, &stderr
	if err := run.Run(); err != nil {
		return nil, fmt.Errorf("%s: %w\n%s%s", f.name, err, stdout.Bytes(), stderr.Bytes())
	}
	report("real", f.name)
	return stdout.Bytes(), nil
}

// run is try for a program that has to succeed.
func (f foreign) run(t testing.TB) []byte {
	t.Helper()
	out, err := f.try(t)
	check(t, err)
	return out
}

// jsonLines reads what a program prints, one value a line.
func jsonLines[V any](t testing.TB, f foreign) (values []V) {
	t.Helper()
	for line := range strings.Lines(string(f.run(t))) {
		var v V
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Fatalf("%s says %q: %v", f.name, line, err)
		}
		values = append(values, v)
	}
	return values
}

// fetched returns a path in the cache that is there once scripts/test-deps has made it.
func fetched(dir, path string) (string, error) {
	if _, err := os.Stat(filepath.Join(cacheDir(), dir, "done")); err != nil {
		return "", err
	}
	return filepath.Join(cacheDir(), dir, path), nil
}

// foreignOf is a program of a folder that scripts/test-deps fetches.
func foreignOf(name, dir, path string, args ...string) foreign {
	program, err := fetched(dir, path)
	return foreign{name: name, missing: err, args: append([]string{program}, args...)}
}

// node is a script of the repository for Node.js, with the packages of a folder, whose path is its
// first argument.
func node(name, packages, script string, args ...string) foreign {
	node, err := exec.LookPath("node")
	modules, fetchErr := fetched(packages, "node_modules")
	if err == nil {
		err = fetchErr
	}
	return foreign{name: name, missing: err, args: append([]string{node, filepath.Join(Root(), script), modules}, args...)}
}

// AsyncAPIRemark is what the parser of AsyncAPI says about a document.
type AsyncAPIRemark struct {
	Severity            int
	Code, Path, Message string
}

// ParseAsyncAPI has the parser of its makers read a document.
func ParseAsyncAPI(t testing.TB, document []byte) []AsyncAPIRemark {
	t.Helper()
	f := node("@asyncapi/parser", "node-asyncapi", "tests/testenv/asyncapi/parse.js")
	f.input = document
	return jsonLines[AsyncAPIRemark](t, f)
}

// CloudEvent is what the SDK of CloudEvents reads of an event. Document is meta.id of its data.
type CloudEvent struct {
	ID, Type, Source, SpecVersion, Subject, DataContentType, Document string
	Time                                                              time.Time
}

// ReadCloudEvents has the JavaScript SDK of CloudEvents read values in structured mode and validate
// their attributes.
func ReadCloudEvents(t testing.TB, values [][]byte) []CloudEvent {
	t.Helper()
	f := node("cloudevents", "node-cloudevents", "tests/testenv/cloudevents/read.js")
	f.input = bytes.Join(values, []byte("\n"))
	return jsonLines[CloudEvent](t, f)
}

// BrowserCheck is what a script has found out in a browser: of a scene, in words, and what was
// wrong; Wrong is empty where nothing was.
type BrowserCheck struct{ Scene, Check, Wrong string }

// Browse has Chromium play a script of the repository.
func Browse(t testing.TB, script string, input any) []BrowserCheck {
	t.Helper()
	needReal(t)
	chromium, err := exec.LookPath("chromium")
	f := node("chromium with playwright-core", "node-browser", script, chromium)
	if f.missing == nil {
		f.missing = err
	}
	if f.input, err = json.Marshal(input); err != nil {
		t.Fatal(err)
	}
	return jsonLines[BrowserCheck](t, f)
}

// The folders of Python with confluent-kafka, and with nats-py.
const (
	PythonOnKafka = "python-clients"
	PythonOnNATS  = "python-nats"
)

// Python runs a script of the repository with the packages of a folder, and returns what it prints.
func Python(t testing.TB, packages, script string, args ...string) []byte {
	t.Helper()
	return foreignOf("Python with "+packages, packages, "bin/python3", append([]string{filepath.Join(Root(), script)}, args...)...).run(t)
}

// Schemathesis asks a server for all that its OpenAPI document describes, and more, and compares
// what it answers with the document.
func Schemathesis(t testing.TB, document string, args ...string) {
	t.Helper()
	f := foreignOf("schemathesis", "python-openapi", "bin/schemathesis", append([]string{"run", document}, args...)...)
	f.dir = t.TempDir() // it keeps files of its runs
	f.run(t)
}

// Promtool runs promtool in a folder and returns what it printed.
func Promtool(t testing.TB, dir string, args ...string) (output string, err error) {
	t.Helper()
	f := foreignOf("Prometheus", "prometheus", "usr/bin/promtool", args...)
	f.dir = dir
	out, err := f.try(t)
	if err != nil {
		return err.Error(), err
	}
	return string(out), nil
}

// kubernetesVersion is the one that charts are rendered for and manifests are compared with.
const kubernetesVersion = "1.31"

// Helm runs helm in a folder and returns what it printed to stdout.
func Helm(t testing.TB, dir string, args ...string) ([]byte, error) {
	t.Helper()
	program, home := filepath.Join(cacheDir(), "bin", "helm"), t.TempDir()
	_, err := os.Stat(program)
	f := foreign{name: "helm", missing: err, args: append([]string{program}, args...), dir: dir}
	f.env = []string{"HELM_CACHE_HOME=" + home, "HELM_CONFIG_HOME=" + home, "HELM_DATA_HOME=" + home}
	return f.try(t)
}

// HelmTemplate renders a chart as a release in the namespace default.
func HelmTemplate(t testing.TB, chart, release string, args ...string) (manifests []byte, err error) {
	t.Helper()
	return Helm(t, chart, append([]string{"template", release, ".", "--kube-version", kubernetesVersion + ".0"}, args...)...)
}

// ValidateManifests compares manifests with the schemas of Kubernetes and allows no further field.
func ValidateManifests(t testing.TB, manifests []byte) error {
	t.Helper()
	file := filepath.Join(t.TempDir(), "manifests.yaml")
	check(t, os.WriteFile(file, manifests, 0o600))
	_, err := foreignOf("kubernetes-validate", "python-kubernetes", "bin/kubernetes-validate", "--strict", "-k", kubernetesVersion, file).try(t)
	return err
}

// Tool returns the path of a program that scripts/test-deps does not fetch.
func Tool(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		report("SKIPPED", t.Name()+": no "+name)
		t.Skipf("no %s here", name)
	}
	report("real", name)
	return path
}
