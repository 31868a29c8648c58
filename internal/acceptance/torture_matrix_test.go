package acceptance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// sort brings the trials into the order of the matrix.
func (m *matrix) sort() {
	place := make(map[string]int)
	for i, f := range allFaults() {
		place[f.name] = i
	}
	slices.SortFunc(m.Trials, func(a, b score) int {
		if a.Fault != b.Fault {
			return place[a.Fault] - place[b.Fault]
		}
		return strings.Compare(a.Bus, b.Bus)
	})
}

// print shows the matrix to those who wait.
func (m *matrix) print() {
	m.Took = inSeconds(time.Since(m.Begun))
	m.sort()
	failed := 0
	for _, s := range m.Trials {
		if !s.Passed {
			failed++
		}
	}
	var b bytes.Buffer
	m.table(&b)
	fmt.Fprintf(os.Stderr, "\n%s\ntorture: %d trials in %.0f s, %d failed, --seed %d\n", b.String(), len(m.Trials), float64(m.Took), failed, m.Seed)
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
		verdict := "passed"
		if !s.Passed {
			verdict = "**failed**"
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %d | %d | %d | %d | %d | %d | %d | %d | %.1f s | %s |\n", s.Fault, s.What, s.Bus, s.Events,
			s.Lost, s.OtherID, s.Disorder, s.RolledBack, s.Wrong, s.False, s.Repeated, float64(s.Recovery), verdict)
	}
}

// write leaves the matrix in a folder as fault-matrix.md and fault-matrix.json.
func (m *matrix) write(folder string) error {
	var b bytes.Buffer
	b.WriteString(matrixHead)
	fmt.Fprintf(&b, "Made by `make torture` on %s in %.0f minutes, with the seed %d.\n", m.Begun.Format(time.DateOnly), float64(m.Took)/60, m.Seed)
	if m.Short {
		b.WriteString("This is the short form: where a row names a longer time, something was away for 5 s.\n")
	}
	m.table(&b)
	b.WriteString(absentFaults())
	if err := os.WriteFile(filepath.Join(folder, "fault-matrix.md"), b.Bytes(), 0o644); err != nil {
		return err
	}
	list, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, "fault-matrix.json"), append(list, '\n'), 0o644)
}

const matrixHead = `# The fault matrix

What becomes of the data when something else breaks. Each row is the real program under load on real servers, with one kind of harm done to
it: a release stream whose transactions stay open for up to 3 s, are rolled back and burn ids, and a capability stream whose entities change in
every way. The writers keep their own record; the judges read the bus with clients that bridge does not use and compare.

- *lost*: committed rows and states that never came; *other id*: facts that came again as another event; *out of order*: states of an entity
  behind newer ones; *rolled back*: what never was committed; *wrong content*: events that are not what the table had; *false at the end*: entities
  that the bus folds to something else than the table.
- *repeated*: messages that the bus stored once more, with the same id and the same bytes. Only a SIGKILL of bridge or of the bus, an older
  checkpoint and a row at which a stream stops bring them; JetStream drops them.
- *recovery*: from the end of the harm until all that was committed before it is on the bus and bridge is ready.

` + "`make torture`" + ` makes this page; ` + "`make torture ARGS='--fault bus-killed --bus nats --seed 7'`" + ` runs one row of it.

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
