package report

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// The lines of a page between which a report stands.
const (
	Begin = "<!-- figures: written by make bench, do not edit -->"
	End   = "<!-- end of figures -->"
)

// Nothing stands there before the first run.
const Nothing = "No run has been recorded here yet.\n"

// Splice puts text between the lines begin and end of page.
func Splice(page, begin, end, text string) (string, error) {
	head, rest, ok := strings.Cut(page, begin+"\n")
	_, tail, closed := strings.Cut(rest, end)
	if !ok || !closed {
		return "", fmt.Errorf("the page has no lines %q and %q", begin, end)
	}
	return head + begin + "\n" + text + end + tail, nil
}

// Record puts text between two lines of the page at path.
func Record(path, begin, end, text string) error {
	page, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	with, err := Splice(string(page), begin, end, text)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return os.WriteFile(path, []byte(with), 0o644)
}

// The files of a report in its folder.
const (
	JSONFile  = "bench.json"
	TableFile = "bench.md"
)

// WriteFolder writes r into folder: the JSON, and the tables with their charts.
func (r *Report) WriteFolder(folder string) error {
	if err := r.writeFile(folder, JSONFile); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, TableFile), []byte(r.Markdown()), 0o644)
}

// writeFile writes the JSON into folder, under a name.
func (r *Report) writeFile(folder, name string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	var json strings.Builder
	if err := r.WriteJSON(&json); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, name), []byte(json.String()), 0o644)
}
