package faulty

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"example.org/bridge/tests/must"
)

type mistake struct {
	name string
	// by are packages, each with the name of one test of it where the others do not count.
	by []string
	// survives says why no test finds it, if none does.
	survives string
	hunks    []hunk
}

func mistakes(t *testing.T) (list []mistake) {
	t.Helper()
	text := must.Get(os.ReadFile("mistakes.diff"))(t)
	for _, part := range strings.Split(string(text), "\n## ")[1:] {
		head, rest, _ := strings.Cut(part, "\n")
		name, _, _ := strings.Cut(head, ": ")
		m := mistake{name: name, hunks: hunks(rest)}
		for line := range strings.Lines(rest) {
			if by, ok := strings.CutPrefix(line, "# by "); ok {
				m.by = append(m.by, strings.TrimSpace(by))
			}
			if why, ok := strings.CutPrefix(line, "# survives: "); ok {
				m.survives = strings.TrimSpace(why)
			}
		}
		list = append(list, m)
	}
	return list
}

// TestMistakesFit shows that each mistake changes the program, and that the tests exist which are
// to find it.
func TestMistakesFit(t *testing.T) {
	names := make(map[string]bool)
	for _, m := range mistakes(t) {
		made, err := changed("../..", m.hunks)
		if err != nil {
			t.Errorf("%s: %v", m.name, err)
		}
		fit(t, m.name, made, m.hunks)
		if names[m.name] || len(m.hunks) == 0 || len(m.by) == 0 {
			t.Errorf("%s: the list has it twice, or without a change, or without a package", m.name)
		}
		names[m.name] = true
		for _, by := range m.by {
			folder, test, _ := strings.Cut(by, " ")
			files, _ := filepath.Glob(filepath.Join("../..", folder, "*_test.go"))
			found := false
			for _, file := range files {
				text, err := os.ReadFile(file)
				found = found || err == nil && strings.Contains(string(text), "\nfunc "+test+"(") || test == ""
			}
			if !found {
				t.Errorf("%s: there is no test %s", m.name, by)
			}
		}
	}
}

var (
	mistakeNames  = flag.String("name", "", "a regular expression: only the mistakes whose names it matches")
	mistakeWithin = flag.Duration("within", 3*time.Minute, "how long the tests of a package have to find a mistake")
)

// TestMistakes makes one mistake after the other, and runs the tests that are to find it. It is
// part of `make mistakes`.
func TestMistakes(t *testing.T) {
	if os.Getenv("BRIDGE_TEST_MISTAKES") == "" {
		t.Skip("part of `make mistakes`")
	}
	root := must.Get(filepath.Abs("../.."))(t)
	names := regexp.MustCompile(*mistakeNames)
	var table strings.Builder
	all, found := 0, 0
	for _, m := range mistakes(t) {
		if !names.MatchString(m.name) {
			continue
		}
		all++
		t.Run(m.name, func(t *testing.T) {
			began := time.Now()
			by := m.run(t, root)
			if len(by) > 0 {
				found++
			} else {
				by = []string{"survived"}
				if m.survives == "" {
					t.Errorf("no test of %q has found it", m.by)
				}
			}
			row := fmt.Sprintf("%-32s %-70s %4.0f s\n", m.name, strings.Join(by, ", "), time.Since(began).Seconds())
			table.WriteString(row)
			fmt.Print(row)
		})
	}
	fmt.Printf("\n%s%d of %d mistakes were found\n", &table, found, all)
}

// run makes the mistake, and returns the tests that have found it: in each package the first one.
func (m *mistake) run(t *testing.T, root string) (found []string) {
	t.Helper()
	made := must.Get(changed(root, m.hunks))(t)
	list := must.Get(Replace(root, t.TempDir(), made))(t)
	for _, by := range m.by {
		folder, test, one := strings.Cut(by, " ")
		args := []string{"test", "-trimpath", "-vet=off", "-count=1", "-failfast", "-timeout=" + mistakeWithin.String()}
		if one {
			args = append(args, "-run=^"+test+"$")
		}
		if !strings.HasPrefix(folder, "tests/") {
			// Of those only the program that they build has it, not their judges.
			args = append(args, "-overlay="+list)
		}
		cmd := exec.Command("go", append(args, "./"+folder)...)
		cmd.Dir = root
		// Without a server its tests are left out: that they fail for it shows nothing.
		cmd.Env = append(os.Environ(), "BRIDGE_TEST_REAL=1", "CGO_ENABLED=0", "CI=", "RAPID_NOFAILFILE=1", ListVariable+"="+list)
		out, err := cmd.CombinedOutput()
		if err == nil {
			continue
		}
		name := failing(string(out))
		if name == "" {
			t.Errorf("%s: %v: %.2000s", by, err, out)
			continue
		}
		at := max(strings.Index(string(out), "--- FAIL: "), 0)
		t.Logf("%s: %.1000s", by, out[at:])
		found = append(found, name)
	}
	return found
}

var (
	failed   = regexp.MustCompile(`(?m)^--- FAIL: (\w+)`)
	timedOut = regexp.MustCompile(`(?m)^panic: test timed out after .*\n\s+running tests:\n((?:\s+\w.* \(.*\)\n)+)`)
	// hung is a test that has run for a minute. One that has just begun shows a slow machine.
	hung     = regexp.MustCompile(`(?m)^\s+(\w+)(?:/.*)? \(\d+m.*\)`)
	panicked = regexp.MustCompile(`(?m)^panic: .*`)
)

// failing returns the test that has failed first by the output of go test, "" where none has.
func failing(out string) string {
	if m := failed.FindStringSubmatch(out); m != nil {
		return m[1]
	}
	if m := timedOut.FindStringSubmatch(out); m != nil {
		if one := hung.FindStringSubmatch(m[1]); one != nil {
			return one[1] + " (does not end)"
		}
		return ""
	}
	return panicked.FindString(out)
}
