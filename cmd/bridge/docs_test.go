package main

import (
	"bytes"
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"bridge/internal/pipeline"
	"bridge/sink"
)

// page returns a page of the documentation.
func page(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(top + file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestEventsPageShowsTheGoldenEvents(t *testing.T) {
	text := page(t, "docs/events.md")
	examples := regexp.MustCompile("(?s)<!-- (event/testdata/[a-z_]+\\.golden\\.json) -->\n```json\n(.*?)```").FindAllStringSubmatch(text, -1)
	if blocks := strings.Count(text, "```json"); len(examples) != blocks {
		t.Errorf("%d of %d examples name their file", len(examples), blocks)
	}
	var types strings.Builder
	for _, example := range examples {
		var got bytes.Buffer
		if err := json.Compact(&got, []byte(example[2])); err != nil {
			t.Fatalf("%s: %v", example[1], err)
		}
		if want := strings.TrimSpace(page(t, example[1])); strings.TrimSpace(got.String()) != want {
			t.Errorf("%s\ngot  %s\nwant %s", example[1], got.String(), want)
		}
		types.WriteString(example[2])
	}
	for _, kind := range []string{"AddedEvent", "ModifiedEvent", "DeletedEvent", "TOMBSTONE", "ABSENT_IN_SNAPSHOT", "PublishedEvent"} {
		if !strings.Contains(types.String(), kind) {
			t.Errorf("no example of an %s", kind)
		}
	}
}

func TestEventsPageListsTheHeaders(t *testing.T) {
	_, table, _ := strings.Cut(page(t, "docs/events.md"), "## Headers")
	listed := regexp.MustCompile("(?m)^\\| `([a-z-]+)`").FindAllStringSubmatch(table, -1)
	var want []string
	new(sink.Message).EachHeader(func(name, _ string) { want = append(want, name) })
	for i, name := range want {
		if i >= len(listed) || listed[i][1] != name {
			t.Fatalf("headers %v, want %v", listed, want)
		}
	}
	if len(listed) != len(want) {
		t.Errorf("headers %v, want %v", listed, want)
	}
}

// described is a registry that keeps nothing but what its collectors describe.
type described []string

func (d *described) Register(c prometheus.Collector) error {
	descs := make(chan *prometheus.Desc, 100)
	c.Describe(descs)
	close(descs)
	for desc := range descs {
		_, rest, _ := strings.Cut(desc.String(), `fqName: "`)
		name, _, _ := strings.Cut(rest, `"`)
		*d = append(*d, name)
	}
	return nil
}

func (d *described) MustRegister(all ...prometheus.Collector) {
	for _, c := range all {
		_ = d.Register(c) // there is no error
	}
}

func (d *described) Unregister(prometheus.Collector) bool { return false }

func TestOperationsPageListsTheMetrics(t *testing.T) {
	var there described
	pipeline.NewMetrics(&there)
	there.MustRegister(pipeline.NewCollector(nil, nil), &reconcileCollector{})
	_, table, _ := strings.Cut(page(t, "docs/operations.md"), "\n## Metrics\n")
	var listed []string
	for _, row := range regexp.MustCompile("(?m)^\\| `(bridge_[a-z_]+)`").FindAllStringSubmatch(table, -1) {
		listed = append(listed, row[1])
	}
	slices.Sort(there)
	slices.Sort(listed)
	if !slices.Equal(there, listed) {
		t.Errorf("docs/operations.md lists\n%v\nthere are\n%v", listed, there)
	}
}

func TestPagesLinkToWhatThereIs(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^):#]+)\)`)
	for _, file := range []string{"README.md", "CONTRIBUTING.md", "docs/architecture.md", "docs/events.md", "docs/operations.md", "docs/performance.md"} {
		folder := top
		if strings.HasPrefix(file, "docs/") {
			folder += "docs/"
		}
		for _, target := range link.FindAllStringSubmatch(page(t, file), -1) {
			if _, err := os.Stat(folder + target[1]); err != nil {
				t.Errorf("%s: %v", file, err)
			}
		}
	}
}
