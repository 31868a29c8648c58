package acceptance

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"bridge/internal/testenv"
)

// program says how the program is built.
type program struct {
	race bool
	tags []string
	// name tells programs with edits apart; one name always stands for the same edits.
	name  string
	edits []edit
}

// edit replaces a piece of a file for one build; the file itself stays as it is.
type edit struct {
	// file is relative to the module's root, or begins with "$GOROOT/".
	file string
	// old must be in the file exactly once.
	old, new string
}

// binary builds the program once for each choice, with the race detector if asked for and with build tags, and returns its path.
func binary(t testing.TB, race bool, tags ...string) string {
	t.Helper()
	return program{race: race, tags: tags}.build(t)
}

// overlaid builds the program once per name with edits of its sources and returns its path.
func overlaid(t testing.TB, name string, edits ...edit) string {
	t.Helper()
	return program{name: name, edits: edits}.build(t)
}

// build builds the program at its first call and returns the path.
func (p program) build(t testing.TB) string {
	t.Helper()
	key := fmt.Sprint(p.race, p.tags, p.name)
	builds.mu.Lock()
	build := builds.made[key]
	if build == nil {
		build = &buildOnce{edits: p.edits}
		builds.made[key] = build
	}
	builds.mu.Unlock()
	if !slices.Equal(build.edits, p.edits) {
		t.Fatalf("the name %q stands for other edits already", p.name)
	}
	build.once.Do(func() { build.path, build.err = p.compile() })
	if build.err != nil {
		t.Fatal(build.err)
	}
	return build.path
}

type buildOnce struct {
	edits []edit
	once  sync.Once
	path  string
	err   error
}

var builds = struct {
	mu   sync.Mutex
	made map[string]*buildOnce
}{made: make(map[string]*buildOnce)}

// compile builds the program into a folder of its own, which is removed after the last test.
func (p program) compile() (path string, err error) {
	dir, err := os.MkdirTemp("", "bridge-acceptance-")
	if err != nil {
		return "", err
	}
	testenv.AtExit(func() { os.RemoveAll(dir) })
	path = filepath.Join(dir, "bridge")
	args := []string{"build", "-o", path, "-tags=" + strings.Join(p.tags, ",")}
	if p.race {
		args = append(args, "-race")
	}
	if len(p.edits) > 0 {
		overlay, err := writeOverlay(dir, p.edits)
		if err != nil {
			return "", fmt.Errorf("overlay %s: %w", p.name, err)
		}
		args = append(args, "-overlay="+overlay)
	}
	if out, err := exec.Command("go", append(args, "bridge/cmd/bridge")...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w: %s", p.name, err, out)
	}
	return path, nil
}

// writeOverlay writes the edited files to dir and returns the file that says which ones they replace.
func writeOverlay(dir string, edits []edit) (string, error) {
	edited, err := applyEdits(edits)
	if err != nil {
		return "", err
	}
	replace := make(map[string]string)
	for original, text := range edited {
		replace[original] = filepath.Join(dir, fmt.Sprintf("%d-%s", len(replace), filepath.Base(original)))
		if err := os.WriteFile(replace[original], []byte(text), 0o600); err != nil {
			return "", err
		}
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "overlay.json")
	return path, os.WriteFile(path, list, 0o600)
}

// applyEdits returns the edited files, by their absolute paths. The edits of one file are made one after the other.
func applyEdits(edits []edit) (map[string]string, error) {
	files := make(map[string]string)
	for _, e := range edits {
		path, err := e.path()
		if err != nil {
			return nil, err
		}
		text, ok := files[path]
		if !ok {
			b, err := os.ReadFile(path)
			if err != nil {
				return nil, err
			}
			text = string(b)
		}
		if n := strings.Count(text, e.old); n != 1 || e.old == e.new {
			return nil, fmt.Errorf("%s has %d times, want once, and replaced by something else:\n%s", e.file, n, e.old)
		}
		files[path] = strings.Replace(text, e.old, e.new, 1)
	}
	return files, nil
}

// path returns the absolute path of the file.
func (e edit) path() (string, error) {
	question, file := []string{"list", "-m", "-f", "{{.Dir}}", "bridge"}, e.file
	if rest, ok := strings.CutPrefix(file, "$GOROOT/"); ok {
		question, file = []string{"env", "GOROOT"}, rest
	}
	root, err := answers(strings.Join(question, " "))
	return filepath.Join(root, file), err
}

// answers asks the go command something once.
func answers(question string) (string, error) {
	asked.mu.Lock()
	defer asked.mu.Unlock()
	if answer, ok := asked.answers[question]; ok {
		return answer, nil
	}
	out, err := exec.Command("go", strings.Fields(question)...).Output()
	if err != nil {
		return "", fmt.Errorf("go %s: %w", question, err)
	}
	asked.answers[question] = strings.TrimSpace(string(out))
	return asked.answers[question], nil
}

var asked = struct {
	mu      sync.Mutex
	answers map[string]string
}{answers: make(map[string]string)}

func TestEditsThatDoNotFitAreRefused(t *testing.T) {
	for name, edits := range map[string][]edit{
		"not there":        {{"cmd/bridge/main.go", "no such text", "x"}},
		"there many times": {{"cmd/bridge/main.go", "\n", "x"}},
		"no such file":     {{"cmd/bridge/no_such_file.go", "package main", "x"}},
		"changes nothing":  {{"cmd/bridge/main.go", "package main", "package main"}},
		"gone by an edit":  {{"cmd/bridge/main.go", "package main", "package x"}, {"cmd/bridge/main.go", "package main", "x"}},
	} {
		if _, err := applyEdits(edits); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	files, err := applyEdits([]edit{{"cmd/bridge/main.go", "package main", "package one"}, {"cmd/bridge/main.go", "package one", "package two"},
		{"$GOROOT/src/errors/errors.go", "package errors", "package three"}})
	if err != nil || len(files) != 2 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for path, text := range files {
		if !strings.Contains(text, "package two") && !strings.Contains(text, "package three") {
			t.Errorf("%s is not edited", path)
		}
	}
}

func TestAProgramIsBuiltWithItsEdits(t *testing.T) {
	t.Parallel()
	path := overlaid(t, "edited version", edit{"cmd/bridge/version.go", "\tv.Version = cmp.Or(v.Version, ", "\tv.Version = cmp.Or(\"edited\", "})
	out, err := exec.Command(path, "version").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "edited") {
		t.Errorf("%v: %s", err, out)
	}
}
