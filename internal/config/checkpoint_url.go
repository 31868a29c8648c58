package config

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// topicName is what a topic of Kafka and a bucket of NATS may both be called.
var topicName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,200}$`)

const (
	checkpointVariable = prefix + "CHECKPOINT_URL"
	topicVariable      = prefix + "CHECKPOINT_TOPIC"
	checkpointExample  = "file:///var/lib/bridge/bridge.db"
)

// checkpoint checks BRIDGE_CHECKPOINT_URL and returns the path of the folder, and whether progress
// is kept on the bus, too. The path is empty where bus: names none.
func (l *loader) checkpoint(text string) (path string, onBus bool) {
	if l.has(checkpointVariable) {
		return "", false
	}
	scheme, rest, ok := l.cutScheme(checkpointVariable, text, checkpointSchemes, checkpointExample)
	if !ok {
		return "", false
	}
	onBus = scheme == "bus"
	if onBus && rest == "" {
		return "", true
	}
	if local, isURL := strings.CutPrefix(rest, "//"); isURL && !strings.HasPrefix(local, "/") {
		l.add(checkpointVariable, "names a host where the path should be: write %s with three slashes, or file:bridge.db for a relative path", checkpointExample)
		return "", onBus
	} else if isURL {
		rest = local
	}
	path, err := url.PathUnescape(rest)
	if err != nil || path == "" || strings.HasSuffix(path, "/") || strings.ContainsAny(rest, "?#\x00") || strings.Contains(path, "\x00") {
		l.add(checkpointVariable, "names no folder: write %s, or file:bridge.db for a relative path, with ? as %%3F, # as %%23 and %% as %%25", checkpointExample)
		return "", onBus
	}
	return path, onBus
}

// setCheckpoint checks where progress is kept. The streams of cfg are known by then.
func (cfg *Config) setCheckpoint(l *loader, settings *globalSettings, streams []string) {
	path, onBus := l.checkpoint(settings.Ends.CheckpointURL)
	cfg.CheckpointPath = path
	switch topic := settings.Process.CheckpointTopic; {
	case !onBus:
		if topic != defaultOf(topicVariable) {
			l.warn(topicVariable, "has no effect without %s=bus:", checkpointVariable)
		}
		return
	case cfg.Sink.Scheme != "kafka" && cfg.Sink.Scheme != "nats" && !l.has(sinkVariable):
		l.add(checkpointVariable, "is bus:, and the sink %s: keeps no progress: use Kafka or NATS, or a folder, as in %s", cfg.Sink.Scheme, checkpointExample)
	case !topicName.MatchString(topic):
		l.add(topicVariable, "invalid name: use up to 200 letters, digits, - and _")
	default:
		cfg.CheckpointTopic = topic
	}
	if path == "" {
		cfg.CheckpointPath = temporaryFolder(cfg, streams)
	}
}

// temporaryFolder returns a folder that a process of this configuration finds again when it is
// restarted in its container, and that no other process on the host has: two on one host have
// different addresses.
func temporaryFolder(cfg *Config, streams []string) string {
	names := append([]string{cfg.DomainID, cfg.HTTPAddr}, slices.Sorted(slices.Values(streams))...)
	sum := sha256.Sum256([]byte(strings.Join(names, "\x00")))
	return filepath.Join(os.TempDir(), "bridge-"+hex.EncodeToString(sum[:6]))
}

// checkTopics refuses a stream that publishes to the topic of the checkpoint.
func (cfg *Config) checkTopics(l *loader) {
	if cfg.CheckpointTopic == "" || cfg.Sink.Scheme != "kafka" {
		return
	}
	for i := range cfg.Streams {
		if s := &cfg.Streams[i]; slices.Contains(cfg.Destinations(s), cfg.CheckpointTopic) {
			l.add(topicVariable, "is a topic of the stream %s: use one of its own", s.Name)
		}
	}
}

// LoadCheckpointPath reads BRIDGE_CHECKPOINT_URL and nothing else, for the commands that need only
// that. With bus: it returns an error that wraps ErrOnBus: Load says the rest.
func LoadCheckpointPath(environ []string) (string, error) {
	l := &loader{env: parseEnvironment(environ), secrets: &Redactor{}}
	path, onBus := l.checkpoint(cmp.Or(l.env[checkpointVariable], defaultOf(checkpointVariable)))
	if onBus {
		return "", ErrOnBus
	}
	return path, l.err()
}

// ErrOnBus is returned where the folder of the checkpoint is not all of it.
var ErrOnBus = errors.New("progress is kept on the bus")
