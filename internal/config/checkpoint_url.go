package config

import (
	"cmp"
	"net/url"
	"strings"
)

const (
	checkpointVariable = prefix + "CHECKPOINT_URL"
	checkpointExample  = "file:///var/lib/bridge/bridge.db"
)

// checkpoint checks BRIDGE_CHECKPOINT_URL and returns the path of the folder.
func (l *loader) checkpoint(text string) string {
	if l.has(checkpointVariable) {
		return ""
	}
	_, rest, ok := l.cutScheme(checkpointVariable, text, checkpointSchemes, checkpointExample)
	if !ok {
		return ""
	}
	if local, isURL := strings.CutPrefix(rest, "//"); isURL && !strings.HasPrefix(local, "/") {
		l.add(checkpointVariable, "names a host where the path should be: write %s with three slashes, or file:bridge.db for a relative path", checkpointExample)
		return ""
	} else if isURL {
		rest = local
	}
	path, err := url.PathUnescape(rest)
	if err != nil || path == "" || strings.HasSuffix(path, "/") || strings.ContainsAny(rest, "?#\x00") || strings.Contains(path, "\x00") {
		l.add(checkpointVariable, "names no folder: write %s, or file:bridge.db for a relative path, with ? as %%3F, # as %%23 and %% as %%25", checkpointExample)
		return ""
	}
	return path
}

// LoadCheckpointPath reads BRIDGE_CHECKPOINT_URL and nothing else, for the commands that need only
// that.
func LoadCheckpointPath(environ []string) (string, error) {
	l := &loader{env: parseEnvironment(environ), secrets: &Redactor{}}
	path := l.checkpoint(cmp.Or(l.env[checkpointVariable], defaultOf(checkpointVariable)))
	return path, l.err()
}
