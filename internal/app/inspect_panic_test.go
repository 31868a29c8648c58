package app

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"

	"example.org/bridge/internal/config"
	"example.org/bridge/internal/inspect"
	"example.org/bridge/source"
)

// brokenInspector is a source that panics when it is looked at.
type brokenInspector struct{ source.Source }

func (brokenInspector) Inspect(context.Context, []source.Expected, int) source.Inspection {
	panic("a defect")
}

func TestAPanicOfAnInspectionIsAFinding(t *testing.T) {
	var log bytes.Buffer
	found := (&database{Source: new(config.Source), from: brokenInspector{}}).inspect(t.Context(), new(config.Config), nil, 1, slog.New(slog.NewTextHandler(&log, nil)))
	if f := found.Server.Findings; len(f) != 1 || f[0].Code != inspect.NotInspected || f[0].Severity != inspect.Unsafe || !strings.Contains(f[0].What, "a defect") {
		t.Errorf("found %+v", f)
	}
	if !strings.Contains(log.String(), "brokenInspector") {
		t.Errorf("no stack in the log: %s", log.String())
	}
}
