package torture

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"bridge/tests/world"

	"bridge/tests/testenv"
)

// sort brings the trials into the order of the matrix.
func (m *matrix) sort() {
	index := make(map[string]int)
	for i, f := range allFaults() {
		index[f.name] = i
	}
	slices.SortFunc(m.Trials, func(a, b score) int {
		if a.Fault != b.Fault {
			return index[a.Fault] - index[b.Fault]
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
	if err := page.ExecuteTemplate(&b, "table", m.Trials); err != nil {
		panic(err)
	}
	fmt.Fprintf(os.Stderr, "\n%s\ntorture: %d trials in %.0f s, %d failed, --seed %d\n", b.String(), len(m.Trials), time.Since(m.begun).Seconds(), failed, *tortureSeed)
}

// write leaves the matrix in a folder as fault-matrix.json, and the page that shows it. Rows that
// are there already and were not run this time stay as they are.
func (m *matrix) write(folder string) error {
	file := filepath.Join(folder, matrixFile)
	all, err := m.joined(file)
	if err != nil {
		return err
	}
	if err := writeJSON(file, all); err != nil {
		return err
	}
	return writePage(folder)
}

// joined returns the trials of m and, of those in a file, the ones of faults that there still are
// and that m has not.
func (m *matrix) joined(file string) (*matrix, error) {
	var before matrix
	if err := readJSON(file, &before); err != nil {
		return nil, err
	}
	all := &matrix{Trials: slices.Clone(m.Trials)}
	for _, old := range before.Trials {
		again := slices.ContainsFunc(m.Trials, func(s score) bool { return s.Fault == old.Fault && s.Bus == old.Bus })
		exists := slices.ContainsFunc(allFaults(), func(f fault) bool { return f.name == old.Fault })
		if !again && exists {
			all.Trials = append(all.Trials, old)
		}
	}
	all.sort()
	return all, nil
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
	err := readJSON(filepath.Join(folder, matrixFile), &m)
	if want := []score{row("bridge-killed", "kafka", 1), row("bridge-killed", "nats", 2)}; err != nil || !reflect.DeepEqual(m.Trials, want) {
		t.Errorf("%v, %+v, want %+v", err, m.Trials, want)
	}
	page, err := os.ReadFile(filepath.Join(folder, pageFile))
	if err != nil || !strings.Contains(string(page), "- 1 of the rows on 2026-01-02 with the seed 2, in the long form, of a program from before commits were recorded") {
		t.Errorf("%v: %s", err, page)
	}
}

func TestTheMatrixShowsWhatIsSoByDesign(t *testing.T) {
	for name, c := range map[string]struct {
		row  score
		want []string
	}{
		"what is said once more":        {score{Passed: true, Figures: world.Figures{Restated: 2}}, []string{"| 0 (2 restated) |", "| passed |"}},
		"events that follow on nothing": {score{Passed: true, Figures: world.Figures{Orphans: 6}}, []string{"| 0 (6 orphans) |"}},
		"how much may be repeated":      {score{Passed: true, Figures: world.Figures{Repeated: 35, Bound: 1200}}, []string{"| 35 of ≤ 1200 |"}},
		"that a trial was not run":      {score{Findings: []string{notRun + ": no such disk"}}, []string{"| **not run** |"}},
		"that a trial has failed":       {score{Findings: []string{"something else"}}, []string{"| **failed** |"}},
	} {
		c.row.Family = "bridge"
		var b bytes.Buffer
		if err := page.ExecuteTemplate(&b, "table", []score{c.row}); err != nil {
			t.Fatal(err)
		}
		for _, want := range c.want {
			if !strings.Contains(b.String(), want) {
				t.Errorf("%s: no %q in %s", name, want, &b)
			}
		}
	}
}

func TestRepeatsAreBounded(t *testing.T) {
	kafka, nats := world.KafkaBus(new(testenv.KafkaServer)), world.NATSBus(new(testenv.NATSServer))
	kill := fault{repeats: true}
	const most = 2 * 2 * 20 // cuts, batches in flight, rows
	for name, c := range map[string]struct {
		bus      *world.Bus
		fault    fault
		repeated int
		within   bool
	}{
		"two kills may repeat two times the batches in flight": {kafka, kill, most, true},
		"and no more":                         {kafka, kill, most + 1, false},
		"without a kill there are no repeats": {kafka, fault{}, 1, false},
		"JetStream drops those of a kill":     {nats, kill, 1, false},
	} {
		d := &world.Daemon{T: t, Env: world.Env{"BRIDGE_BATCH_ROWS": "20"}}
		tr := &trial{Publisher: &world.Publisher{Daemon: d, Bus: c.bus}, fault: c.fault, cuts: 2, score: score{Figures: world.Figures{Repeated: c.repeated}}}
		if tr.boundRepeats(); c.within != (len(tr.score.Wrongs) == 0) {
			t.Errorf("%s: %v", name, tr.score.Wrongs)
		}
	}
}
