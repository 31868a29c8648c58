package check

import (
	"slices"
	"strings"

	"example.org/bridge/event"
	"example.org/bridge/internal/config"
	"example.org/bridge/internal/inspect"
)

// resolveUnreadable says what it means that a destination cannot be read back: a capability stream
// needs that, a release stream goes on by its checkpoint.
func resolveUnreadable(r *inspect.Report, cfg *config.Config) {
	if cfg.Sink.Scheme == "stdout" {
		r.Summary += ", for looking: what is printed cannot be read back"
		return
	}
	for i := range r.Findings {
		f := &r.Findings[i]
		if f.Code != inspect.TopicUnreadable && f.Code != inspect.StreamUnreadable || cfg.Sink.ExactlyOnce || cfg.Standby.Group != "" || carriesCapability(cfg, f.Subject) {
			continue
		}
		f.Severity = inspect.Warning
		f.What += "; rows may be published again after a kill"
	}
}

// carriesCapability reports whether a capability stream may publish to the topic or stream that a
// finding is about. Which stream of JetStream takes a subject, only the server knows.
func carriesCapability(cfg *config.Config, subject string) bool {
	return slices.ContainsFunc(cfg.Streams, func(s config.Stream) bool {
		if s.Kind != event.Capability {
			return false
		}
		topic, ok := strings.CutPrefix(subject, "topic ")
		if !ok || topic == s.DeadLetter {
			return true
		}
		return slices.ContainsFunc(s.Tables, func(table string) bool {
			// The configuration has checked it.
			destination, _ := cfg.Destination(&s, table)
			return destination == topic
		})
	})
}
