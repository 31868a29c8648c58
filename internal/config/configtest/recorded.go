package configtest

import (
	"os"
	"strings"
	"testing"
)

// Recorded compares what do makes of the input of each block of a file with what the block has
// recorded; with update it writes the file. A block is a name behind "#", lines of input, and the
// recorded ones behind "|"; an empty line ends it.
func Recorded(t *testing.T, path string, update bool, do func(t *testing.T, input []string) string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for block := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n\n") {
		lines := strings.Split(block, "\n")
		n := 1
		for n < len(lines) && !strings.HasPrefix(lines[n], "|") {
			n++
		}
		t.Run(strings.TrimPrefix(lines[0], "# "), func(t *testing.T) {
			now := lines[:n:n]
			for line := range strings.Lines(do(t, lines[1:n])) {
				now = append(now, strings.TrimRight("| "+line, " \n"))
			}
			if all = append(all, strings.Join(now, "\n")); all[len(all)-1] != block && !update {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(now[n:], "\n"), strings.Join(lines[n:], "\n"))
			}
		})
	}
	if update {
		if err := os.WriteFile(path, []byte(strings.Join(all, "\n\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
