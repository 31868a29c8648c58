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

// Splice puts text between the lines Begin and End of page. Folder is how the page names the folder of the drawings.
func Splice(page, text string) (string, error) {
	head, rest, ok := strings.Cut(page, Begin+"\n")
	_, tail, closed := strings.Cut(rest, End)
	if !ok || !closed {
		return "", fmt.Errorf("the page has no lines %q and %q", Begin, End)
	}
	return head + Begin + "\n" + text + End + tail, nil
}

// Spliced returns what stands between the lines Begin and End of page.
func Spliced(page string) (string, error) {
	_, rest, ok := strings.Cut(page, Begin+"\n")
	text, _, closed := strings.Cut(rest, End)
	if !ok || !closed {
		return "", fmt.Errorf("the page has no lines %q and %q", Begin, End)
	}
	return text, nil
}

// The files of a report in its folder, beside the drawings.
const (
	JSONFile  = "bench.json"
	TableFile = "bench.md"
)

// WriteFolder writes r into folder: the JSON, the tables and the drawings.
func (r *Report) WriteFolder(folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	var json strings.Builder
	if err := r.WriteJSON(&json); err != nil {
		return err
	}
	files := map[string]string{JSONFile: json.String(), TableFile: r.Markdown(".")}
	for _, d := range r.drawings() {
		files[d.file] = d.svg
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}
