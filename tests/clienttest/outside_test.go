package clienttest_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"example.org/bridge/tests/must"
)

// consumer is a program of another module.
const consumer = `package main

import (
	"context"

	"example.org/bridge/client"
	"example.org/bridge/client/jetstream"
	"example.org/bridge/client/kafka"
)

func main() {
	buses := make(map[string]client.Bus)
	buses["kafka"], _ = kafka.New(kafka.Options{Brokers: []string{"localhost:9092"}})
	buses["nats"], _ = jetstream.New(jetstream.Options{URLs: []string{"nats://localhost:4222"}})
	for _, bus := range buses {
		table, _ := client.NewTable(bus, client.Options{Stream: "orders", Destinations: []string{"orders"}})
		go table.Run(context.Background())
	}
}
`

// TestAConsumerNeedsNothingOfTheDaemon: the client is a module of its own. A program elsewhere
// builds with it, and gets no package and no module of bridge beside it.
func TestAConsumerNeedsNothingOfTheDaemon(t *testing.T) {
	const module = "example.org/bridge/client"
	bridge := strings.TrimSuffix(module, "/client")
	tree := must.Get(filepath.Abs("../../client"))(t)
	dir := t.TempDir()
	sums := must.Get(os.ReadFile(filepath.Join(tree, "go.sum")))(t)
	for name, content := range map[string]string{
		"main.go": consumer, "go.sum": string(sums),
		"go.mod": fmt.Sprintf("module consumer\n\ngo 1.26.0\n\nrequire %s v0.0.0\n\nreplace %s => %s\n", module, module, tree),
	} {
		must.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	run := func(args ...string) []string {
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOFLAGS=-mod=mod -trimpath", "GOWORK=off", "CGO_ENABLED=0")
		var failed bytes.Buffer
		cmd.Stderr = &failed
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, &failed)
		}
		return strings.Fields(string(out))
	}
	run("build", "-o", os.DevNull, ".")
	of := func(name string) bool {
		return (name == bridge || strings.HasPrefix(name, bridge+"/") || strings.HasPrefix(name, bridge+"@")) &&
			name != module && !strings.HasPrefix(name, module+"/") && !strings.HasPrefix(name, module+"@")
	}
	if got := slices.DeleteFunc(run("list", "-deps", "."), func(name string) bool { return !of(name) }); len(got) > 0 {
		t.Errorf("it is built with %q", got)
	}
	if got := slices.DeleteFunc(run("mod", "graph"), func(name string) bool { return !of(name) }); len(got) > 0 {
		t.Errorf("it depends on %q", got)
	}
	modules := run("list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", ".")
	slices.Sort(modules)
	want := []string{
		"consumer", module, "github.com/google/uuid", "github.com/klauspost/compress", "github.com/nats-io/nats.go", "github.com/nats-io/nkeys",
		"github.com/nats-io/nuid", "github.com/pierrec/lz4/v4", "github.com/segmentio/kafka-go", "github.com/twmb/franz-go/pkg/kmsg",
		"github.com/xdg-go/scram", "github.com/xdg-go/stringprep", "golang.org/x/crypto", "golang.org/x/sync",
		"golang.org/x/sys", "golang.org/x/text",
	}
	slices.Sort(want)
	if got := slices.Compact(modules); !slices.Equal(got, want) {
		t.Errorf("it is built with the modules %q, want %q", got, want)
	}
}
