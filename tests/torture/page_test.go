package torture

import (
	"bytes"
	"cmp"
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
	"sync"
	"testing"
	"text/template"
	"time"

	"example.org/bridge/tests/must"
	"example.org/bridge/tests/testall"
	"example.org/bridge/tests/testenv"
	"example.org/bridge/tests/world"
)

// matrix is safe for concurrent use.
type matrix struct {
	// Trials are in the order of the matrix once all have ended.
	Trials []score `json:"trials"`

	mu    sync.Mutex
	begun time.Time
	due   int
}

type seconds float64

func inSeconds(d time.Duration) seconds { return seconds(d.Round(10 * time.Millisecond).Seconds()) }

type score struct {
	Family string `json:"family"`
	Fault  string `json:"fault"`
	What   string `json:"what"`
	Bus    string `json:"bus"`
	// Seed, Short and Day tell the run that the row is from, Commit the sources that it ran.
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
	// Passed is false when anything was not as it has to be.
	Passed bool `json:"passed"`
	// took is the whole time of the trial.
	took time.Duration
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

// Errors are the figures of a row that have to be 0, and the verdict unless it passed.
func (s *score) Errors() string {
	var all []string
	for _, figure := range []struct {
		n    int
		what string
	}{
		{s.Lost, "lost"}, {s.OtherID, "other id"}, {s.Restated, "restated"}, {s.Disorder, "out of order"}, {s.Orphans, "orphans"},
		{s.RolledBack, "rolled back"}, {s.Wrong, "wrong content"}, {s.False, "false at the end"},
	} {
		if figure.n > 0 {
			all = append(all, fmt.Sprintf("%d %s", figure.n, figure.what))
		}
	}
	if !s.Passed {
		all = append(all, s.Verdict())
	}
	return cmp.Or(strings.Join(all, ", "), "0")
}

// cell is a figure with what is so by design, or may be.
func cell(n, more int, form string) string {
	if more == 0 {
		return strconv.Itoa(n)
	}
	return fmt.Sprintf("%d "+form, n, more)
}

// rows are the scores of each fault, in their order.
func rows(trials []score) (rows [][]score) {
	for i, s := range trials {
		if i == 0 || trials[i-1].Fault != s.Fault {
			rows = append(rows, nil)
		}
		rows[len(rows)-1] = append(rows[len(rows)-1], s)
	}
	return rows
}

// cells are what the page says of the scores of a fault: once where the buses agree.
func cells(row []score) []string {
	var columns [4][]string
	for _, s := range row {
		repeated := "0"
		if s.Repeated > 0 {
			repeated = cell(s.Repeated, s.Bound, "of ≤ %d")
		}
		for i, text := range [4]string{strconv.Itoa(s.Events), s.Errors(), repeated, fmt.Sprintf("%.1f s", s.Recovery)} {
			columns[i] = append(columns[i], text)
		}
	}
	var cells []string
	for _, texts := range columns {
		cells = append(cells, strings.Join(slices.Compact(texts), " / "))
	}
	return cells
}

func (m *matrix) add(s score) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.Trials = append(m.Trials, s)
	verdict := strings.ToUpper(strings.Trim(s.Verdict(), "*"))
	m.progress("[%d/%d] %-5s %-32s %s after %.0f s, recovered in %.1f s: %d events, %s repeated, "+
		"lost %d, other id %d, out of order %d, rolled back %d, wrong %d, false %d",
		len(m.Trials), m.due, s.Bus, s.Fault, verdict, s.took.Seconds(), s.Recovery, s.Events, cell(s.Repeated, s.Bound, "of ≤ %d"),
		s.Lost, s.OtherID, s.Disorder, s.RolledBack, s.Wrong, s.False)
	for _, finding := range s.Findings {
		m.progress("      %.600s", finding)
	}
}

func (m *matrix) progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "torture: "+format+"\n", args...)
}

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

const (
	pageFile   = "fault-matrix.md"
	matrixFile = "fault-matrix.json"
	soakFile   = "fault-soak.json"
)

// write leaves the matrix in a folder, and the page that shows it. Rows that are there already, of
// faults that there still are, stay until they are run again.
func (m *matrix) write(folder string) error {
	var all matrix
	if err := readJSON(filepath.Join(folder, matrixFile), &all); err != nil {
		return err
	}
	all.Trials = slices.DeleteFunc(all.Trials, func(old score) bool {
		again := slices.ContainsFunc(m.Trials, func(s score) bool { return s.Fault == old.Fault && s.Bus == old.Bus })
		return again || !slices.ContainsFunc(allFaults(), func(f fault) bool { return f.name == old.Fault })
	})
	all.Trials = append(all.Trials, m.Trials...)
	all.sort()
	return writeResults(folder, matrixFile, &all)
}

//go:embed page.md.tmpl
var pageText string

// page makes the page, and its table for those who wait, of results.
var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"cell":     cell,
	"rows":     rows,
	"cells":    cells,
	"title":    func(s string) string { return strings.ToUpper(s[:1]) + s[1:] },
	"minutes":  func(d seconds) string { return fmt.Sprintf("%.0f", float64(d)/60) },
	"millions": func(n int) string { return fmt.Sprintf("%.2f", float64(n)/1e6) },
	"rate":     func(n int, d seconds) string { return fmt.Sprintf("%.0f", float64(n)/float64(d)) },
	"percent":  func(part, of seconds) string { return fmt.Sprintf("%.0f", 100*part/of) },
	"absent":   absent,
}).Parse(pageText))

// absent says which faults one of the buses has not.
func absent() (lines []string) {
	for _, f := range allFaults() {
		if f.only != "" {
			lines = append(lines, fmt.Sprintf("`%s` has a row for %s only: %s.", f.name, f.only, f.because))
		}
	}
	return lines
}

type results struct {
	matrix
	soaks
}

// writeResults writes a file of results, and the page of all files of a folder.
func writeResults(folder, file string, value any) error {
	text, err := json.MarshalIndent(value, "", "  ")
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, file), append(text, '\n'), 0o644)
	}
	if err != nil {
		return err
	}
	return writePage(folder, folder)
}

func writePage(from, to string) error {
	var r results
	if err := errors.Join(readJSON(filepath.Join(from, matrixFile), &r.matrix), readJSON(filepath.Join(from, soakFile), &r.soaks)); err != nil {
		return err
	}
	var b bytes.Buffer
	if err := page.Execute(&b, &r); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(to, pageFile), b.Bytes(), 0o644)
}

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

// Runs says which runs the rows are from.
func (m *matrix) Runs() (runs []string) {
	rows := make(map[string]int)
	for _, s := range m.Trials {
		form := "long form"
		if s.Short {
			form = "short form"
		}
		rows[fmt.Sprintf("%s, %s, seed %d, commit `%s`", s.Day, form, s.Seed, s.Commit)]++
	}
	for _, from := range slices.Sorted(maps.Keys(rows)) {
		runs = append(runs, fmt.Sprintf("%s: %d", from, rows[from]))
	}
	return runs
}

func TestThePageIsMadeOfItsResults(t *testing.T) {
	testall.Beside(t)
	docs, folder := filepath.Join(testenv.Root(), "docs"), t.TempDir()
	must.OK(t, writePage(docs, folder))
	made := must.Get(os.ReadFile(filepath.Join(folder, pageFile)))(t)
	if is, err := os.ReadFile(filepath.Join(docs, pageFile)); err != nil || !bytes.Equal(is, made) {
		t.Errorf("docs/%s is not what its results make: make torture ARGS='--page --write docs' (%v)", pageFile, err)
	}
}
