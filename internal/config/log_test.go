package config

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"bridge/internal/option"
)

func TestStreamLoggerNamesTheVariablesOfItsStream(t *testing.T) {
	var log strings.Builder
	logger := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{ReplaceAttr: new(Redactor).Attr}))
	one := StreamLogger(logger, "orders").With("shard", "items")
	one.Error("shard stopped", "error", fmt.Errorf("read items: %w", option.Errorf("no column %q, which %s names", "x", option.Created)), "rows", 3)
	one.Warn("no name", "error", errors.New("EOF"))
	for _, want := range []string{"which BRIDGE_STREAM_ORDERS_CREATED names", "stream=orders shard=items", "rows=3", "error=EOF"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log does not say %q:\n%s", want, log.String())
		}
	}
}
