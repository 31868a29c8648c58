package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"example.org/bridge/event"
	"example.org/bridge/sink"
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

// TestEventsPageShowsTheGoldenEvents: each kind with its subject, and one of each other format.
func TestEventsPageShowsTheGoldenEvents(t *testing.T) {
	text := page(t, "docs/events.md")
	fence := "```"
	examples := regexp.MustCompile("(?s)<!-- (event/testdata/[a-z_/]+\\.golden\\.json) -->\n"+fence+"(?:json)?\n(.*?)"+fence).FindAllStringSubmatch(text, -1)
	types, others := "", 0
	for _, example := range examples {
		var got bytes.Buffer
		if err := json.Compact(&got, []byte(example[2])); err != nil {
			t.Fatalf("%s: %v", example[1], err)
		}
		if want := strings.TrimSpace(page(t, example[1])); strings.TrimSpace(got.String()) != want {
			t.Errorf("%s\ngot  %s\nwant %s", example[1], got.String(), want)
		}
		if strings.Count(example[1], "/") == 3 {
			others++
			continue
		}
		types += example[2]
		if subject := subjectOf(t, example[2]); !strings.Contains(text, example[0]+"\n\nOn NATS: `"+subject+"`\n") {
			t.Errorf("%s is not followed by its subject %s", example[1], subject)
		}
	}
	if blocks := strings.Count(text, fence+"json"); len(examples)-others != blocks || others != 2 {
		t.Errorf("%d of %d examples name their file, %d of other formats do", len(examples)-others, blocks, others)
	}
	for _, kind := range []string{"AddedEvent", "ModifiedEvent", "DeletedEvent", "TOMBSTONE", "ABSENT_IN_SNAPSHOT", "PublishedEvent"} {
		if !strings.Contains(types, kind) {
			t.Errorf("no example of an %s", kind)
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
	(&sink.Message{Form: 1, Server: "s"}).EachHeader(func(name, _ string) { want = append(want, name) })
	for i, name := range want {
		if i >= len(listed) || listed[i][1] != name {
			t.Fatalf("headers %v, want %v", listed, want)
		}
	}
	if len(listed) != len(want) {
		t.Errorf("headers %v, want %v", listed, want)
	}
}

// TestLinksLeadToWhatThereIs: a link to a file names one that is there, and one to a section of a
// page a section that it has.
func TestLinksLeadToWhatThereIs(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^):#]*)(?:#([^)]+))?\)`)
	pages := []string{"README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"}
	entries, err := os.ReadDir(top + "docs")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if strings.HasSuffix(entry.Name(), ".md") {
			pages = append(pages, "docs/"+entry.Name())
		}
	}
	there := make(map[string][]string)
	for _, from := range pages {
		for _, target := range link.FindAllStringSubmatch(page(t, from), -1) {
			to := from
			if target[1] != "" {
				to = path.Join(path.Dir(from), target[1])
			}
			if _, err := os.Stat(top + to); err != nil {
				t.Errorf("%s: %v", from, err)
				continue
			}
			if target[2] == "" || !strings.HasSuffix(to, ".md") {
				continue
			}
			if there[to] == nil {
				there[to] = sections(page(t, to))
			}
			if !slices.Contains(there[to], target[2]) {
				t.Errorf("%s links to %s#%s, which is not there", from, to, target[2])
			}
		}
	}
}

// sections returns the anchors of a page: those of its headings and its own.
func sections(text string) (anchors []string) {
	for _, heading := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(text, -1) {
		anchor := regexp.MustCompile(`[^\p{L}\p{N}_ -]`).ReplaceAllString(strings.ToLower(heading[1]), "")
		anchors = append(anchors, strings.ReplaceAll(anchor, " ", "-"))
	}
	for _, id := range regexp.MustCompile(`<a id="([^"]+)">`).FindAllStringSubmatch(text, -1) {
		anchors = append(anchors, id[1])
	}
	return anchors
}
