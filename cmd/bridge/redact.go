package main

import (
	"log/slog"
	"strings"
	"sync"
)

// redactor keeps secrets out of logs, as a second line of defence: what writes a line should not have the secret in the
// first place. It is safe for concurrent use; the zero value is ready.
type redactor struct {
	mu      sync.RWMutex
	secrets []string
}

// shortestSecret is the length from which a secret is looked for: shorter ones are parts of common words.
const shortestSecret = 6

const redacted = "[redacted]"

// add makes a secret known. Former ones stay: they may still be in use.
func (r *redactor) add(secret string) {
	if len(secret) < shortestSecret {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, one := range r.secrets {
		if one == secret {
			return
		}
	}
	r.secrets = append(r.secrets, secret)
}

// clean returns text without the secrets.
func (r *redactor) clean(text string) string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, secret := range r.secrets {
		text = strings.ReplaceAll(text, secret, redacted)
	}
	return text
}

// attr cleans the message and the attributes of a log record; it is a ReplaceAttr of slog.HandlerOptions.
func (r *redactor) attr(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && (a.Key == slog.TimeKey || a.Key == slog.LevelKey) {
		return a
	}
	switch a.Value.Kind() {
	case slog.KindDuration:
		// Else JSON has it as a number of nanoseconds.
		return slog.String(a.Key, a.Value.Duration().String())
	case slog.KindString:
		return slog.String(a.Key, r.clean(a.Value.String()))
	case slog.KindAny:
		switch value := a.Value.Any().(type) {
		case error:
			return slog.String(a.Key, r.clean(value.Error()))
		case []byte:
			return slog.String(a.Key, r.clean(string(value)))
		case interface{ String() string }:
			return slog.String(a.Key, r.clean(value.String()))
		}
	}
	return a
}
