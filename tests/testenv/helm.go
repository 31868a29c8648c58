package testenv

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// kubernetesVersion is the one that charts are rendered for and manifests are compared with.
const kubernetesVersion = "1.31"

// Helm runs helm in a folder and returns what it printed to stdout. The error has what it printed
// to stderr.
func Helm(t testing.TB, dir string, args ...string) (output []byte, err error) {
	t.Helper()
	const name = "helm"
	program := filepath.Join(cacheDir(), "bin", name)
	if _, err := os.Stat(program); err != nil {
		missing(t, name, err)
	}
	run := exec.CommandContext(t.Context(), program, args...)
	home := t.TempDir()
	run.Dir, run.Env = dir, append(os.Environ(), "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home)
	var stdout, stderr bytes.Buffer
	run.Stdout, run.Stderr = &stdout, &stderr
	if err := run.Run(); err != nil {
		return nil, fmt.Errorf("helm %v: %w\n%s%s", args, err, stdout.Bytes(), stderr.Bytes())
	}
	report("real", name)
	return stdout.Bytes(), nil
}

// HelmTemplate renders a chart as a release in the namespace default.
func HelmTemplate(t testing.TB, chart, release string, args ...string) (manifests []byte, err error) {
	t.Helper()
	return Helm(t, chart, append([]string{"template", release, ".", "--kube-version", kubernetesVersion + ".0"}, args...)...)
}

// ValidateManifests compares manifests with the schemas of Kubernetes and allows no further field.
// It knows no resources of operators.
func ValidateManifests(t testing.TB, manifests []byte) error {
	t.Helper()
	const name = "kubernetes-validate"
	program, err := fetched("python-kubernetes", "bin/"+name)
	if err != nil {
		missing(t, name, err)
	}
	file := filepath.Join(t.TempDir(), "manifests.yaml")
	if err := os.WriteFile(file, manifests, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), program, "--strict", "-k", kubernetesVersion, file).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	report("real", name)
	return nil
}
