package acceptance

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// root is the top of the repository.
var root = filepath.Join("..", "..")

var (
	declared = regexp.MustCompile(`(?m)^func ((?:Test|Benchmark)\w+)\(`)
	named    = regexp.MustCompile("`((?:Test|Benchmark)\\w+)`")
)

// testNames returns the names of all tests and benchmarks of the repository.
func testNames(t *testing.T) map[string]bool {
	t.Helper()
	names := make(map[string]bool)
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && strings.HasPrefix(entry.Name(), ".") && path != root:
			return fs.SkipDir
		case !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(path)
		for _, match := range declared.FindAllSubmatch(text, -1) {
			names[string(match[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func TestEveryGuaranteeIsATest(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "guarantees.md"))
	if err != nil {
		t.Fatal(err)
	}
	table, _, ok := strings.Cut(string(page), "\n## ")
	if !ok {
		t.Fatal("docs/guarantees.md has no sections behind its table")
	}
	known := testNames(t)
	for _, match := range named.FindAllStringSubmatch(string(page), -1) {
		if !known[match[1]] {
			t.Errorf("docs/guarantees.md names %s, which no package has", match[1])
		}
	}
	rows := 0
	for line := range strings.Lines(table) {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| ids and database |") {
			continue
		}
		rows++
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 5 || !named.MatchString(cells[4]) {
			t.Errorf("a row that names no test: %s", line)
		}
	}
	if rows < 10 {
		t.Errorf("%d rows of guarantees", rows)
	}
}

func TestTheCostsNameBenchmarksThatExist(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "guarantees.md"))
	if err != nil {
		t.Fatal(err)
	}
	command := regexp.MustCompile(`-bench '([^']+)'`).FindSubmatch(page)
	if command == nil {
		t.Fatal("docs/guarantees.md has no command for the costs")
	}
	known := testNames(t)
	for _, name := range strings.Split(string(command[1]), "|") {
		if !known["Benchmark"+name] {
			t.Errorf("no package has Benchmark%s", name)
		}
	}
}

func TestThePageOfThePerformanceNamesBenchmarksThatExist(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "performance.md"))
	if err != nil {
		t.Fatal(err)
	}
	known := testNames(t)
	matches := named.FindAllStringSubmatch(string(page), -1)
	for _, match := range matches {
		if !known[match[1]] {
			t.Errorf("docs/performance.md names %s, which no package has", match[1])
		}
	}
	if len(matches) == 0 {
		t.Error("docs/performance.md names no benchmark")
	}
}
