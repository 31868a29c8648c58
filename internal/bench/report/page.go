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

// Splice puts text between the lines Begin and End of page.
func Splice(page, text string) (string, error) { return splice(page, Begin, End, text) }

func splice(page, begin, end, text string) (string, error) {
	head, rest, ok := strings.Cut(page, begin+"\n")
	_, tail, closed := strings.Cut(rest, end)
	if !ok || !closed {
		return "", fmt.Errorf("the page has no lines %q and %q", begin, end)
	}
	return head + begin + "\n" + text + end + tail, nil
}

// The files of a report in its folder.
const (
	JSONFile  = "bench.json"
	TableFile = "bench.md"
)

// WriteFolder writes r into folder: the JSON, and the tables with their charts.
func (r *Report) WriteFolder(folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	var json strings.Builder
	if err := r.WriteJSON(&json); err != nil {
		return err
	}
	for name, text := range map[string]string{JSONFile: json.String(), TableFile: r.Markdown()} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}
