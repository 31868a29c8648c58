package stage

import (
	"fmt"
	"io/fs"
	"maps"
	"strings"
)

// environment returns the variables of bridge.env, with those of Hurry.
func (s *Stage) environment() (map[string]string, error) {
	text, err := fs.ReadFile(s.example.Files, "bridge.env")
	if err != nil {
		return nil, err
	}
	env, err := Variables(string(text))
	if err != nil {
		return nil, err
	}
	maps.Copy(env, s.example.Hurry)
	return env, nil
}

// Variables reads a file of variables as a shell does that has no expansions: a NAME=value a line,
// with or without single quotes around the value, and comments.
func Variables(text string) (map[string]string, error) {
	env := make(map[string]string)
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		if !ok {
			return nil, fmt.Errorf("bridge.env: write NAME=value instead of %q", line)
		}
		env[name] = strings.Trim(value, "'")
	}
	return env, nil
}
