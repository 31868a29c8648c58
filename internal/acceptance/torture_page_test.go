package acceptance

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// The files that a folder of results holds.
const (
	pageFile   = "fault-matrix.md"
	matrixFile = "fault-matrix.json"
	soakFile   = "fault-soak.json"
)

// writePage writes the page of what the other files of a folder hold.
func writePage(folder string) error {
	var m matrix
	var s soaks
	if err := errors.Join(readJSON(filepath.Join(folder, matrixFile), &m), readJSON(filepath.Join(folder, soakFile), &s)); err != nil {
		return err
	}
	var b bytes.Buffer
	b.WriteString(matrixHead)
	m.runs(&b)
	m.table(&b)
	b.WriteString(absentFaults())
	s.table(&b)
	return os.WriteFile(filepath.Join(folder, pageFile), b.Bytes(), 0o644)
}

// readJSON reads a file of results; one that is not there changes nothing.
func readJSON(file string, into any) error {
	text, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		return fmt.Errorf("results of an earlier run: %w: move %s away", err, file)
	}
	return nil
}

func writeJSON(file string, value any) error {
	text, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}

// matrixHead has ´ in place of a back quote.
var matrixHead = strings.ReplaceAll(`# The fault matrix

What becomes of the data when something else breaks. Each row is the real program under load, with one kind of harm done to it: a release
stream whose transactions stay open for up to 3 s, are rolled back and burn ids, and a capability stream whose entities change in every way.
MariaDB, Kafka and NATS are real servers, with one exception: the three brokers of ´leader-moved´ are, for Kafka, the fake of its client library and,
for NATS, three servers of the NATS library in the process of the tests.

The writers keep their own record. The judges read the whole bus with consumers of their own and decode what they find without bridge's code, of which they have the
schemas alone: they compare it with that record and with the table. On Kafka they read with franz-go, where bridge publishes with kafka-go; on NATS both use nats.go.

- *lost*: committed rows and states that never came; *other id*: facts that came again as another event; *out of order*: states of an entity
  behind newer ones; *rolled back*: what never was committed; *wrong content*: events that are not what the table had; *false at the end*: entities
  that the bus folds to something else than the table.
- *left over*: entities that are gone from the table and that the bus still has, because what bridge knew of them went with its checkpoint. That is
  false for whoever reads the bus, and [what operators are told](operations.md#a-checkpoint-from-a-copy); ´bridge verify´ has to name exactly these. *Begun anew* are entities
  that are announced a second time for the same reason; *restated* are those of their events that have the id of an earlier one and other
  bytes, because ´CREATED´ or ´MODIFIED´ of the row, which no id covers, was written meanwhile. *Orphans* are events that a bus which was emptied
  took before bridge noticed: each follows on one that is gone from the bus, and all is announced anew behind it.
- *repeated*: messages that the bus stored once more, with the same id and the same bytes. Only an end of bridge or of the bus before they had
  agreed on a batch (SIGKILL, SIGTERM whose time ran out, a failing disk, a stream that stops), an older checkpoint, and a bus that was emptied or restored bring them. JetStream drops
  them, unless it has lost what they repeat. *of ≤ n*: bridge may repeat so many, which is the number of cuts × the batches of both streams that can
  be published and not yet saved × ´BRIDGE_BATCH_ROWS´; more is a failure.
- *recovery*: from the end of the harm until all that was committed before it is on the bus and bridge is ready.

´make torture ARGS='--write docs'´ makes this page, row by row with ´--fault´; ´make torture ARGS='--fault bus-killed --bus nats --seed 7'´ runs one row.

`, "´", "`")

// runs writes which run the rows are from.
func (m *matrix) runs(b *bytes.Buffer) {
	rows := make(map[string]int)
	for _, s := range m.Trials {
		form := "in the long form"
		if s.Short {
			form = "in the short form, where what a row says to last longer lasts 5 s"
		}
		rows[fmt.Sprintf("on %s with the seed %d, %s, of %s", s.Day, s.Seed, form, s.sources())]++
	}
	b.WriteString("Made by `make torture ARGS='--write docs'`:\n\n")
	for _, run := range slices.Sorted(maps.Keys(rows)) {
		fmt.Fprintf(b, "- %d of the rows %s\n", rows[run], run)
	}
}

// sources says of which sources the program was.
func (s *score) sources() string {
	if s.Commit == "" {
		return "a program from before commits were recorded"
	}
	return "commit `" + s.Commit + "`"
}

// table writes the matrix as Markdown.
func (m *matrix) table(b *bytes.Buffer) {
	family := ""
	for _, s := range m.Trials {
		if s.Family != family {
			family = s.Family
			fmt.Fprintf(b, "\n### %s\n\n", strings.ToUpper(family[:1])+family[1:])
			b.WriteString("| fault | what is done | bus | events | lost | other id | out of order | rolled back | wrong content | false at the end | repeated | recovery | |\n")
			b.WriteString("|---|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|---|\n")
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %d | %d | %s | %s | %d | %d | %s | %s | %.1f s | %s |\n", s.Fault, s.What, s.Bus, s.Events,
			s.Lost, s.otherIDs(), s.disorder(), s.RolledBack, s.Wrong, s.falsehoods(), s.repeats(), float64(s.Recovery), s.verdict())
	}
}

// table writes what came of the soaks as Markdown.
func (s *soaks) table(b *bytes.Buffer) {
	if len(s.Soaks) == 0 {
		return
	}
	b.WriteString(soakHead)
	for _, s := range s.Soaks {
		faults := 0
		for _, n := range s.Faults {
			faults += n
		}
		fmt.Fprintf(b, "| %s | %s, seed %d, %s | %.0f min | %.2f M | %.0f | %d | %d | %d | %d | %d | %d | %d | %s | %.0f → %.0f MiB | %.0f → %.0f | %.0f → %.0f | %s |\n",
			s.Bus, s.Day, s.Seed, s.sources(), float64(s.Duration)/60, float64(s.Rows)/1e6, float64(s.Rows)/float64(s.Duration), faults,
			s.Lost, s.OtherID, s.Disorder, s.RolledBack, s.Wrong, s.False, s.repeats(),
			s.Early.RSSAnon, s.Late.RSSAnon, s.Early.Goroutines, s.Late.Goroutines, s.Early.Files, s.Late.Files, s.verdict())
	}
}

const soakHead = `
### Soak

One program a bus, with both streams, under load all the time, and one of the faults that pass by themselves after the other, by chance, in their short
form, ten seconds apart or as soon as the last one has ended: ` + "`make torture ARGS='--for 30m'`" + `. The last three figures are medians over the fifth minute and over the last one.

| bus | run | time | rows | rows/s | faults | lost | other id | out of order | rolled back | wrong content | false at the end | repeated | RssAnon | goroutines | open files | |
|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|---|---|---|---|
`

// absentFaults says which faults one of the buses has not.
func absentFaults() string {
	var b strings.Builder
	for _, f := range allFaults() {
		if f.only != "" {
			fmt.Fprintf(&b, "- `%s` is for %s only: %s.\n", f.name, f.only, f.because)
		}
	}
	if b.Len() == 0 {
		return ""
	}
	return "\n" + b.String()
}
