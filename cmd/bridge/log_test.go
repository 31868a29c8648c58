package main

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"example.org/bridge/internal/config"
)

func TestLogger(t *testing.T) {
	const hidden = "Zq7hidden"
	secrets := &config.Redactor{}
	if _, err := config.Load(with("BRIDGE_SINK_URL", "nats://u:"+hidden+"@n").Environ(), secrets); err != nil {
		t.Fatal(err)
	}
	for _, format := range []string{"text", "json"} {
		t.Run("keeps secrets out of a log in "+format, func(t *testing.T) {
			var out bytes.Buffer
			logger := newLogger(&out, slog.LevelInfo, format, secrets).With("dsn", "u:"+hidden)
			logger.Error("login "+hidden, "error", errors.New(hidden+" refused"), slog.Group("g", "bytes", []byte(hidden)), "source", "secret-of-source")
			if text := out.String(); strings.Contains(text, hidden) || strings.Contains(text, "secret-of-source") || !strings.Contains(text, "[redacted]") {
				t.Errorf("logged %s", text)
			}
		})
	}
	t.Run("debug lines are left out by default and json is chosen off a terminal", func(t *testing.T) {
		var out bytes.Buffer
		logger := newLogger(&out, slog.LevelInfo, "", &config.Redactor{})
		logger.Debug("no")
		logger.Info("yes")
		if text := out.String(); !strings.HasPrefix(text, `{"time":`) || strings.Contains(text, `"no"`) || !strings.Contains(text, `"msg":"yes","event":"yes"`) {
			t.Errorf("logged %s", text)
		}
	})
}
