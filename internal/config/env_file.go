package config

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
)

// envFileVariable names the file of variables where no flag does.
const envFileVariable = prefix + "ENV_FILE"

// WithFile returns the "NAME=value" entries of environ, and before them those of a file that
// environ does not set: the file at path, or if that is empty at BRIDGE_ENV_FILE. The error is an
// *Error with all lines that are wrong, by file and number. It never quotes a value.
func WithFile(environ []string, path string) ([]string, error) {
	named := "--env-file"
	if path == "" {
		named, path = envFileVariable, parseEnvironment(environ)[envFileVariable]
	}
	if path == "" {
		return environ, nil
	}
	var l faults
	text, err := os.ReadFile(path)
	if failed, ok := errors.AsType[*fs.PathError](err); ok {
		l.add(named, "names the file %s, which cannot be read: %v", path, failed.Err)
	}
	values := map[string]string{}
	for i, line := range strings.Split(string(text), "\n") {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		value, err := fileValue(strings.TrimSpace(value))
		switch {
		case !ok || !variableName.MatchString(name):
			err = errors.New("is not a variable: write NAME=value, or # before a comment")
		case name == envFileVariable:
			err = errors.New(envFileVariable + " has no effect in the file that it names: leave it out")
		}
		if err != nil {
			l.add(fmt.Sprintf("%s:%d", path, i+1), "%v", err)
		}
		values[name] = value
	}
	for _, entry := range environ {
		if name, value, _ := strings.Cut(entry, "="); strings.TrimSpace(value) != "" {
			delete(values, name)
		}
	}
	var all []string
	for _, name := range slices.Sorted(maps.Keys(values)) {
		all = append(all, name+"="+values[name])
	}
	return append(all, environ...), l.err()
}

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// fileValue returns a value without the quotes around it. What systemd and a shell would change in
// it is an error, because Docker would not.
func fileValue(value string) (string, error) {
	quote := value[:min(1, len(value))]
	if quote != `'` && quote != `"` {
		quote = ""
	}
	inner, closed := strings.CutSuffix(strings.TrimPrefix(value, quote), quote)
	switch {
	case quote != "" && (!closed || len(value) == 1 || strings.Contains(inner, quote)):
		return "", errors.New("has a quote that does not end with the line: write both, or neither")
	case quote != `'` && strings.Contains(inner, `\`):
		return "", errors.New(`has a backslash: put the value into single quotes`)
	case strings.Contains(inner, "\x00"):
		return "", errors.New("has a zero byte: leave it out")
	}
	return inner, nil
}
