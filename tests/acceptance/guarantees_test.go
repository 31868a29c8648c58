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

var declared = regexp.MustCompile(`(?m)^func ((?:Test|Benchmark)\w+)\(`)

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
