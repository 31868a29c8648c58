package logevent

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"example.org/bridge/tests/must"
)

var update = flag.Bool("update", false, "write docs/logs.md")

const updateCommand = "go test ./internal/logevent -run Reference -update"

// guides are the pages whose sections explain log lines.
var guides = []string{"operations.md", "how-to.md", "reference.md"}

// explainedIn says which section of the guides explains the lines of a package.
var explainedIn = map[string]string{
	"checkpoint/store/pebble": "The checkpoint",
	"cmd/bridge":              "Logs",
	"internal/app":            "Logs",
	"internal/driver/nats":    "Logs",
	"internal/buscopy":        "Progress on the bus",
	"internal/httpapi":        "HTTP",
	"internal/outage":         "Logs",
	"internal/shard":          "States of a shard",
	"internal/standby":        "A standby",
	"internal/stream":         "Catch-up",
	"internal/tracing":        "Tracing",
	"reconcile":               "Reconcile",
	"sink/embedded":           "Logs",
	"sink/jetstream":          "On NATS JetStream",
	"sink/kafka":              "Logs",
	"source":                  "What it costs your database",
	"source/mysql":            "Logs",
	"source/sqlite":           "Columns that change",
}

// explained says it of single events, where that differs.
var explained = map[string]string{
	"a_stream_can_be_read_again": "A stream is stopped",
	"columns_changed":            "Columns that change",
	"events_change_in_a_way_that_consumers_have_to_be_told_of":  "Columns that change",
	"ids_have_been_vacant_for_gap_ttl_and_are_no_longer_polled": "Lag",
	"recording_the_table_as_it_stands":                          "Where a stream begins",
	"row_put_aside_as_a_dead_letter":                            "Dead letters",
	"shard_stopped":                                             "A stream is stopped",
	"stream_begins":                                             "Where a stream begins",
	"stream_resumes":                                            "Where a stream begins",
	"stream_stopped":                                            "A stream is stopped",
	"the_stream_stops":                                          "A stream is stopped",
	"the_table_as_it_stands_is_known":                           "Where a stream begins",
	"the_table_is_read_from_its_first_row":                      "Ids that are used again",
}

// logged is one event with all that its calls say.
type logged struct {
	message, folder string
	levels          []string
}

// events returns the events by name, and what is wrong with the calls.
func events(s *scanner) (map[string]*logged, []string) {
	all, faults := map[string]*logged{}, s.faults
	for _, one := range s.sites {
		name := Name(one.message)
		e := all[name]
		if e == nil {
			e = &logged{message: one.message, folder: one.folder}
			all[name] = e
		}
		if e.message != one.message {
			faults = append(faults, fmt.Sprintf("%s: the event %s has another message elsewhere: %q, %q", one.at, name, one.message, e.message))
		}
		if len(name) < 4 || len(name) > 100 {
			faults = append(faults, fmt.Sprintf("%s: %q makes a poor name: begin the message with a few words and a comma or colon", one.at, one.message))
		}
		if !slices.Contains(e.levels, one.level) {
			e.levels = append(e.levels, one.level)
		}
	}
	return all, faults
}

func TestReferenceListsEveryEvent(t *testing.T) {
	all, faults := events(scan(t))
	for _, fault := range faults {
		t.Error(fault)
	}
	if len(all) < 80 {
		t.Errorf("%d events: the scan has missed some", len(all))
	}
	for _, sections := range []map[string]string{explainedIn, explained} {
		for of, section := range sections {
			if guideWith(t, section) == "" {
				t.Errorf("%s: %q have no section %q", of, guides, section)
			}
		}
	}
	for name := range explained {
		if all[name] == nil {
			t.Errorf("there is no event %s", name)
		}
	}
	page := logsPage(t, all)
	if *update {
		must.OK(t, os.WriteFile(top+"docs/logs.md", []byte(page), 0o644))
	}
	if string(read(t, "docs/logs.md")) != page {
		t.Errorf("docs/logs.md is not what the source says: run %s", updateCommand)
	}
}

// guideWith returns the guide that has a section, or an empty string.
func guideWith(t *testing.T, section string) string {
	t.Helper()
	for _, guide := range guides {
		if strings.Contains(string(read(t, "docs/"+guide)), "# "+section+"\n") {
			return guide
		}
	}
	return ""
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	text := must.Get(os.ReadFile(top + file))(t)
	return text
}

func logsPage(t *testing.T, all map[string]*logged) string {
	t.Helper()
	sections := make(map[string][]string)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		e := all[name]
		slices.SortFunc(e.levels, func(a, b string) int { return strings.Index(levels, a) - strings.Index(levels, b) })
		section := cmp.Or(explained[name], explainedIn[e.folder])
		if section == "" {
			t.Errorf("%s of %s: name the section that explains it in explainedIn", name, e.folder)
		}
		rest := ""
		if at := strings.IndexAny(e.message, Ends); at >= 0 {
			rest = strings.TrimLeft(e.message[at:], ",:;. ")
		}
		sections[section] = append(sections[section], fmt.Sprintf("| `%s` | %s | %s |\n", name, strings.Join(e.levels, ", "), escape(rest)))
	}
	var page strings.Builder
	page.WriteString("# Log events\n\n" +
		"Each line of the log has an `event`, by which programs find it: the first words of `msg`. The tables show how `msg`\n" +
		"goes on. Where the level varies, it is the level of the finding. Lines of a stream have the key `stream`, lines of a\n" +
		"table `shard`, too. Alerts rely on these names; [Logs](reference.md#logs) says more.\n\n" +
		"The page is written by `" + updateCommand + "`.\n")
	for _, section := range slices.Sorted(maps.Keys(sections)) {
		fmt.Fprintf(&page, "\n## [%s](%s#%s)\n\n| event | level | goes on |\n|---|---|---|\n%s",
			section, guideWith(t, section), anchor(section), strings.Join(sections[section], ""))
	}
	return page.String()
}

// levels in their order.
const levels = "debug info warn error"

func escape(text string) string { return strings.NewReplacer("|", `\|`, "<", "&lt;").Replace(text) }

// anchor returns the link that the title of a section has.
func anchor(title string) string {
	return strings.ReplaceAll(strings.ReplaceAll(strings.ToLower(title), "`", ""), " ", "-")
}
