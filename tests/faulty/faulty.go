package faulty

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// ListVariable names a list, as List returns it, with which tests/world builds the program.
const ListVariable = "BRIDGE_TEST_FILES"

//go:embed edits.diff
var edits string

// added are files beside those of the program.
//
//go:embed added
var added embed.FS

type hunk struct{ file, before, behind string }

func hunks(text string) (list []hunk) {
	file := ""
	for line := range strings.Lines(text) {
		switch last := len(list) - 1; line[0] {
		case '#':
		case '@':
			list = append(list, hunk{file: file})
		case ' ':
			list[last].before += line[1:]
			list[last].behind += line[1:]
		case '+':
			list[last].behind += line[1:]
		default:
			if name, ok := strings.CutPrefix(line, "--- "); ok {
				file = strings.TrimSpace(name)
				continue
			}
			list[last].before += line[1:]
		}
	}
	return list
}

// changed returns the files of the program that a list changes, by their paths below its root.
func changed(root string, list []hunk) (map[string][]byte, error) {
	made := make(map[string][]byte)
	for _, h := range list {
		text := made[h.file]
		if text == nil {
			var err error
			if text, err = os.ReadFile(filepath.Join(root, filepath.FromSlash(h.file))); err != nil {
				return nil, err
			}
		}
		if n := bytes.Count(text, []byte(h.before)); n != 1 {
			return nil, fmt.Errorf("tests/faulty: %s has %d times, instead of once:\n%s", h.file, n, h.before)
		}
		made[h.file] = bytes.Replace(text, []byte(h.before), []byte(h.behind), 1)
	}
	return made, nil
}

// Sources returns the files of Go of the program below root, but for tests, by their paths.
func Sources(root string) (map[string][]byte, error) {
	all, tree := make(map[string][]byte), os.DirFS(root)
	for _, folder := range []string{"checkpoint", "client", "cmd", "event", "internal", "reconcile", "sink", "source"} {
		err := fs.WalkDir(tree, folder, func(path string, d fs.DirEntry, err error) error {
			if err == nil && strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
				all[path], err = fs.ReadFile(tree, path)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// files returns the files that make the program faulty, by their paths below its root: its clock is
// failpoint.Now.
func files(root string) (map[string][]byte, error) {
	made, err := changed(root, hunks(edits))
	if err != nil {
		return nil, err
	}
	all, err := Sources(root)
	if err != nil {
		return nil, err
	}
	maps.Copy(all, made)
	for path, text := range all {
		if bytes.Contains(text, []byte("time.Now")) {
			// Else nothing of package time may be used.
			text = append(bytes.ReplaceAll(text, []byte("time.Now"), []byte("failpoint.Now")), "\nvar _ time.Duration\n"...)
		}
		if bytes.Contains(text, []byte("failpoint.")) {
			made[path] = withImport(text)
		}
	}
	err = fs.WalkDir(added, "added", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		made[strings.TrimSuffix(strings.TrimPrefix(path, "added/"), ".txt")], err = added.ReadFile(path)
		return err
	})
	return made, err
}

// withImport adds the import of package failpoint to a file.
func withImport(text []byte) []byte {
	const added = "import \"example.org/bridge/tests/faulty/failpoint\"\n"
	at := bytes.Index(text, []byte("\nimport ")) + 1
	return slices.Concat(text[:at], []byte(added), text[at:])
}

// List makes, in dir, the files with which the go command builds the program below root with points
// and defects, and returns the path of the list of files that the command is to replace.
func List(root, dir string) (path string, err error) {
	made, err := files(root)
	if err != nil {
		return "", err
	}
	return Replace(root, dir, made)
}

// Replace writes files, named by their paths below root, to dir, and returns the path of the list
// with which the go command builds them instead of those of root.
func Replace(root, dir string, made map[string][]byte) (path string, err error) {
	var list struct{ Replace map[string]string }
	list.Replace = make(map[string]string)
	for path, text := range made {
		to := filepath.Join(dir, strings.ReplaceAll(path, "/", "-"))
		if err := os.WriteFile(to, text, 0o600); err != nil {
			return "", err
		}
		list.Replace[filepath.Join(root, filepath.FromSlash(path))] = to
	}
	text, err := json.Marshal(list)
	if err != nil {
		return "", err
	}
	name := filepath.Join(dir, "replace.json")
	return name, os.WriteFile(name, text, 0o600)
}
