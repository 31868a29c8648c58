package acceptance

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
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
	m.sort()
	failed := 0
	for _, s := range m.Trials {
		if !s.Passed {
			failed++
		}
	}
	var b bytes.Buffer
	m.table(&b)
	fmt.Fprintf(os.Stderr, "\n%s\ntorture: %d trials in %.0f s, %d failed, --seed %d\n", b.String(), len(m.Trials), time.Since(m.begun).Seconds(), failed, *tortureSeed)
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

// write leaves the matrix in a folder as fault-matrix.md and fault-matrix.json. Rows that are there already and were not run this time
// stay as they are.
func (m *matrix) write(folder string) error {
	file := filepath.Join(folder, "fault-matrix.json")
	page, err := m.joined(file)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	b.WriteString(matrixHead)
	page.runs(&b)
	page.table(&b)
	b.WriteString(absentFaults())
	if err := os.WriteFile(filepath.Join(folder, "fault-matrix.md"), b.Bytes(), 0o644); err != nil {
		return err
	}
	list, err := json.MarshalIndent(page, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(list, '\n'), 0o644)
}

// joined returns the trials of m and, of those in a file, the ones of faults that there still are and that m has not.
func (m *matrix) joined(file string) (*matrix, error) {
	var before matrix
	text, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return m, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &before)
	}
	if err != nil {
		return nil, fmt.Errorf("the matrix that is there: %w: move it away", err)
	}
	page := &matrix{Trials: slices.Clone(m.Trials)}
	for _, old := range before.Trials {
		again := slices.ContainsFunc(m.Trials, func(s score) bool { return s.Fault == old.Fault && s.Bus == old.Bus })
		exists := slices.ContainsFunc(allFaults(), func(f fault) bool { return f.name == old.Fault })
		if !again && exists {
			page.Trials = append(page.Trials, old)
		}
	}
	page.sort()
	return page, nil
}

// runs writes which run the rows are from.
func (m *matrix) runs(b *bytes.Buffer) {
	rows := make(map[string]int)
	for _, s := range m.Trials {
		form := "in the long form"
		if s.Short {
			form = "in the short form, where what a row says to last longer lasts 5 s"
		}
		rows[fmt.Sprintf("on %s with the seed %d, %s", s.Day, s.Seed, form)]++
	}
	b.WriteString("Made by `make torture`:\n\n")
	for _, run := range slices.Sorted(maps.Keys(rows)) {
		fmt.Fprintf(b, "- %d of the rows %s\n", rows[run], run)
	}
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

func TestRowsOfTheMatrixStayUntilTheyAreRunAgain(t *testing.T) {
	folder := t.TempDir()
	row := func(fault, bus string, seed uint64) score {
		return score{Family: "bridge", Fault: fault, Bus: bus, Seed: seed, Day: "2026-01-02"}
	}
	for _, trials := range [][]score{
		{row("bridge-killed", "nats", 1), row("bridge-killed", "kafka", 1), row("a fault of old", "nats", 1)},
		{row("bridge-killed", "nats", 2)},
	} {
		if err := (&matrix{Trials: trials}).write(folder); err != nil {
			t.Fatal(err)
		}
	}
	var m matrix
	text, err := os.ReadFile(filepath.Join(folder, "fault-matrix.json"))
	if err == nil {
		err = json.Unmarshal(text, &m)
	}
	if want := []score{row("bridge-killed", "kafka", 1), row("bridge-killed", "nats", 2)}; err != nil || !reflect.DeepEqual(m.Trials, want) {
		t.Errorf("%v, %+v, want %+v", err, m.Trials, want)
	}
	page, err := os.ReadFile(filepath.Join(folder, "fault-matrix.md"))
	if err != nil || !strings.Contains(string(page), "- 1 of the rows on 2026-01-02 with the seed 2, in the long form") {
		t.Errorf("%v: %s", err, page)
	}
}
