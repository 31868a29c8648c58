package main

import (
	"bytes"
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"bridge/event"
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
		if subject := subjectOf(t, example[2]); !strings.Contains(text, example[0]+"\n\nOn NATS: `"+subject+"`\n") {
			t.Errorf("%s is not followed by its subject %s", example[1], subject)
		}
	}
	for _, kind := range []string{"AddedEvent", "ModifiedEvent", "DeletedEvent", "TOMBSTONE", "ABSENT_IN_SNAPSHOT", "PublishedEvent"} {
		if !strings.Contains(types.String(), kind) {
			t.Errorf("no example of an %s", kind)
		}
	}
}

func TestEventsPageShowsTheOtherFormats(t *testing.T) {
	text := page(t, "docs/events.md")
	examples := regexp.MustCompile("(?s)<!-- (event/testdata/[a-z]+/[a-z_]+\\.golden\\.json) -->\n```\n(.*?)```").FindAllStringSubmatch(text, -1)
	if len(examples) != 2 {
		t.Errorf("%d examples, want one of each", len(examples))
	}
	for _, example := range examples {
		var got bytes.Buffer
		if err := json.Compact(&got, []byte(example[2])); err != nil {
			t.Fatalf("%s: %v", example[1], err)
		}
		if want := strings.TrimSpace(page(t, example[1])); got.String() != want {
			t.Errorf("%s\ngot  %s\nwant %s", example[1], got.String(), want)
		}
	}
}

// subjectOf returns the subject of an event by default.
func subjectOf(t *testing.T, body string) string {
	t.Helper()
	var e struct {
		Meta struct {
			Type   string
			Source struct{ DomainID string }
		}
	}
	if err := json.Unmarshal([]byte(body), &e); err != nil {
		t.Fatal(err)
	}
	cfg := load(t, with("BRIDGE_SINK_URL", "nats://n", "BRIDGE_DOMAIN_ID", e.Meta.Source.DomainID))
	route, err := cfg.Route(&cfg.Streams[0], cfg.Streams[0].Tables[0])
	if err != nil {
		t.Fatal(err)
	}
	return route(&event.Event{Type: e.Meta.Type})
}

func TestEventsPageListsTheHeaders(t *testing.T) {
	_, table, _ := strings.Cut(page(t, "docs/events.md"), "## Headers")
	table, _, _ = strings.Cut(table, "\n## ")
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

func TestPagesLinkToWhatThereIs(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^):#]+)\)`)
	for _, file := range []string{"README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "docs/logs.md", "docs/architecture.md", "docs/events.md", "docs/operations.md", "docs/performance.md"} {
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
