package torture

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/template"
	"time"

	"bridge/tests/world"
)

// The files that a folder of results holds.
const (
	pageFile   = "fault-matrix.md"
	matrixFile = "fault-matrix.json"
	soakFile   = "fault-soak.json"
)

//go:embed page.md.tmpl
var pageText string

// page makes the page, and its table for those who wait, of results.
var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"title":    func(s string) string { return strings.ToUpper(s[:1]) + s[1:] },
	"minutes":  func(d seconds) string { return fmt.Sprintf("%.0f", float64(d)/60) },
	"millions": func(n int) string { return fmt.Sprintf("%.2f", float64(n)/1e6) },
}).Parse(pageText))

// results are what the page shows.
type results struct {
	matrix
	soaks
}

// writePage writes the page of what the other files of a folder hold.
func writePage(folder string) error {
	var r results
	if err := errors.Join(readJSON(filepath.Join(folder, matrixFile), &r.matrix), readJSON(filepath.Join(folder, soakFile), &r.soaks)); err != nil {
		return err
	}
	var b bytes.Buffer
	if err := page.Execute(&b, &r); err != nil {
		return err
	}
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

// madeBy says how many rows of the matrix are from one run.
type madeBy struct {
	Rows int
	From string
}

// Runs says which runs the rows are from.
func (m *matrix) Runs() (runs []madeBy) {
	rows := make(map[string]int)
	for _, s := range m.Trials {
		form := "in the long form"
		if s.Short {
			form = "in the short form, where what a row says to last longer lasts 5 s"
		}
		rows[fmt.Sprintf("on %s with the seed %d, %s, of %s", s.Day, s.Seed, form, s.Sources())]++
	}
	for _, from := range slices.Sorted(maps.Keys(rows)) {
		runs = append(runs, madeBy{rows[from], from})
	}
	return runs
}

// Sources says of which sources the program was.
func (s *score) Sources() string {
	if s.Commit == "" {
		return "a program from before commits were recorded"
	}
	return "commit `" + s.Commit + "`"
}

// PerSecond is how many rows the soak published in a second.
func (s *soakScore) PerSecond() string {
	return fmt.Sprintf("%.0f", float64(s.Rows)/float64(s.Duration))
}

// WritingPercent is the share of the time in which the writers wrote.
func (s *soakScore) WritingPercent() string {
	return fmt.Sprintf("%.0f", 100*float64(s.written())/float64(s.Duration))
}

// PerSecondWritten is PerSecond of the time in which the writers wrote.
func (s *soakScore) PerSecondWritten() string {
	return fmt.Sprintf("%.0f", float64(s.Rows)/float64(s.written()))
}

func (s *soakScore) written() (sum seconds) {
	for _, section := range s.Sections {
		sum += section.Written
	}
	return sum
}

// RSSBySection lists RssAnon of the program in the last minute of each section, in MiB.
func (s *soakScore) RSSBySection() string {
	var list []string
	for _, section := range s.Sections {
		list = append(list, fmt.Sprintf("%.0f", section.RSSAnon))
	}
	return strings.Join(list, ", ")
}

// FaultCount is how many faults there were.
func (s *soakScore) FaultCount() (n int) {
	for _, count := range s.Faults {
		n += count
	}
	return n
}

// absent is a fault that one of the buses has not.
type absent struct{ Name, Only, Because string }

// Absent returns the faults that one of the buses has not.
func (*results) Absent() (list []absent) {
	for _, f := range allFaults() {
		if f.only != "" {
			list = append(list, absent{f.name, f.only, f.because})
		}
	}
	return list
}

func TestThePageTellsTheSectionsOfASoak(t *testing.T) {
	folder := t.TempDir()
	all := soaks{[]soakScore{
		{score: score{Bus: "kafka"}, Rows: 480_000, Duration: 200, Sections: []section{
			{Written: 90, footprint: footprint{RSSAnon: 41}}, {Written: 70, footprint: footprint{RSSAnon: 42.4}},
		}},
		{score: score{Bus: "nats"}, Duration: 100},
	}}
	if err := writeJSON(filepath.Join(folder, soakFile), all); err != nil {
		t.Fatal(err)
	}
	if err := writePage(folder); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(folder, pageFile))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"\n- kafka: 2 sections; the writers wrote 80 % of the time, 3000 rows/s; RssAnon in the last minute of each section: 41, 42 MiB.\n",
		"\n- nats: one section, judged at the end.\n",
	} {
		if !strings.Contains(string(page), want) {
			t.Errorf("no %q in %s", want, page)
		}
	}
}

// seconds is a duration as the matrix writes it.
type seconds float64

func inSeconds(d time.Duration) seconds { return seconds(d.Round(10 * time.Millisecond).Seconds()) }

// score is one row of the matrix.
type score struct {
	Family string `json:"family"`
	Fault  string `json:"fault"`
	What   string `json:"what"`
	Bus    string `json:"bus"`
	// Seed, Short and Day tell the run that the row is from, Commit the sources that it ran; empty
	// in results without it.
	Seed   uint64 `json:"seed"`
	Short  bool   `json:"short"`
	Day    string `json:"day"`
	Commit string `json:"commit,omitempty"`
	world.Figures
	// Recovery is the time from the end of the harm until all that was committed before it is on
	// the bus and the program is ready.
	Recovery seconds `json:"recoverySeconds"`
	// LogLines counts the lines that the program wrote.
	LogLines int `json:"logLines"`
	// Passed is false when anything was not as it has to be; Findings say what.
	Passed   bool     `json:"passed"`
	Findings []string `json:"findings,omitempty"`
}

func (s score) String() string {
	verdict := strings.ToUpper(strings.Trim(s.Verdict(), "*"))
	return fmt.Sprintf("%s: %d events, %s repeated, lost %d, other id %s, out of order %s, rolled back %d, wrong %d, false %d, recovered in %.1f s",
		verdict, s.Events, s.RepeatedCell(), s.Lost, s.OtherIDCell(), s.DisorderCell(), s.RolledBack, s.Wrong, s.False, float64(s.Recovery))
}

// notRun begins the finding of a trial that was skipped: why follows.
const notRun = "not run"

// Verdict is what the page says of a row.
func (s *score) Verdict() string {
	switch {
	case s.Passed:
		return "passed"
	case slices.ContainsFunc(s.Findings, func(found string) bool { return strings.HasPrefix(found, notRun) }):
		return "**not run**"
	}
	return "**failed**"
}

// OtherIDCell is what the matrix says of facts that came again as another event, with what comes
// again by design.
func (s *score) OtherIDCell() string {
	if s.Restated == 0 {
		return strconv.Itoa(s.OtherID)
	}
	return fmt.Sprintf("%d (%d restated)", s.OtherID, s.Restated)
}

// DisorderCell is what the matrix says to be out of order, with what cannot be in order by design.
func (s *score) DisorderCell() string {
	if s.Orphans == 0 {
		return strconv.Itoa(s.Disorder)
	}
	return fmt.Sprintf("%d (%d orphans)", s.Disorder, s.Orphans)
}

// RepeatedCell is what the matrix says of repeats, with how many there may be.
func (s *score) RepeatedCell() string {
	if s.Bound == 0 {
		return strconv.Itoa(s.Repeated)
	}
	return fmt.Sprintf("%d of ≤ %d", s.Repeated, s.Bound)
}

func (s *score) findings() string { return strings.Join(s.Findings, "\n") }

// find notes what is not as it has to be.
func (s *score) find(format string, args ...any) {
	s.Findings = append(s.Findings, fmt.Sprintf(format, args...))
}
