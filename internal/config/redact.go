package config

import (
	"log/slog"
	"slices"
	"strings"
	"sync"
)

// Redactor keeps secrets out of logs, as a second line of defence: a caller should never
// log one. It is safe for concurrent use; the zero value is ready.
type Redactor struct {
	mu      sync.RWMutex
	secrets []string
}

// shortestSecret is the length from which a secret is looked for: shorter ones are parts of common
// words.
const shortestSecret = 6

const redacted = "[redacted]"

// add makes a secret known. Former ones stay: they may still be in use.
func (r *Redactor) add(secret string) {
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

// replace makes a secret known in place of a former one that is of no use any more.
func (r *Redactor) replace(former, secret string) {
	r.mu.Lock()
	r.secrets = slices.DeleteFunc(r.secrets, func(one string) bool { return one == former })
	r.mu.Unlock()
	r.add(secret)
}

// Clean returns text without the secrets.
func (r *Redactor) Clean(text string) string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, secret := range r.secrets {
		text = strings.ReplaceAll(text, secret, redacted)
	}
	return text
}

// Attr cleans the message and the attributes of a log record; it is a ReplaceAttr of
// slog.HandlerOptions.
func (r *Redactor) Attr(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && (a.Key == slog.TimeKey || a.Key == slog.LevelKey) {
		return a
	}
	switch a.Value.Kind() {
	case slog.KindDuration:
		// Else JSON has it as a number of nanoseconds.
		return slog.String(a.Key, a.Value.Duration().String())
	case slog.KindString:
		return slog.String(a.Key, r.Clean(a.Value.String()))
	case slog.KindAny:
		switch value := a.Value.Any().(type) {
		case error:
			return slog.String(a.Key, r.Clean(Text(value)))
		case []byte:
			return slog.String(a.Key, r.Clean(string(value)))
		case interface{ String() string }:
			return slog.String(a.Key, r.Clean(value.String()))
		}
	}
	return a
}
