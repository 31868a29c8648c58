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
	"strings"
	"text/template"
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
