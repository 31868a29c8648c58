package app

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"example.org/bridge/internal/config"
	"example.org/bridge/internal/config/configtest"
	"example.org/bridge/internal/inspect"
	"example.org/bridge/internal/option"
	"example.org/bridge/source"
)

// inspectedSource is a source that can be reached after some attempts and then finds the same about
// every table.
type inspectedSource struct {
	source.Source
	away   atomic.Int32
	server []inspect.Finding
	table  func(name string) []inspect.Finding
	atOnce int
}

func (s *inspectedSource) Ready(context.Context) error {
	if s.away.Add(-1) >= 0 {
		return errors.New("away")
	}
	return nil
}

func (s *inspectedSource) Inspect(_ context.Context, tables []source.Expected, atOnce int) (found source.Inspection) {
	s.atOnce = atOnce
	found.Server.Findings = s.server
	for _, table := range tables {
		found.Tables = append(found.Tables, source.TableInspection{Findings: s.table(table.Spec.Table)})
	}
	return found
}

func TestARunningBridgeLogsFindingsOnceAStream(t *testing.T) {
	cfg := load(t, configtest.With())
	src := &inspectedSource{
		server: []inspect.Finding{found(inspect.Warning, "server")},
		table: func(name string) []inspect.Finding {
			warning := found(inspect.Warning, name)
			return []inspect.Finding{*warning.Says("correct %s", option.Created), found(inspect.Unsafe, name), {Severity: inspect.Note, Code: inspect.Stride, Subject: name, What: "is note"}}
		},
	}
	// After the source can be reached, one table after another.
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		src.away.Store(5)
		begun := time.Now()
		logFindings(t.Context(), cfg, &database{Source: &cfg.Sources[0], from: src}, src, textLogger(&log))
		if time.Since(begun) < time.Second || src.atOnce != 1 {
			t.Errorf("looked after %s at %d tables at once", time.Since(begun), src.atOnce)
		}
		for _, want := range []string{
			`level=WARN msg="finding about the source" code=stride severity=warning subject=server`,
			`level=WARN msg="finding about the source" stream=orders code=stride severity=warning subject="each of orders_0, orders_1" finding="is warning" remedy="correct BRIDGE_STREAM_ORDERS_CREATED" statement=`,
			`level=INFO msg="finding about the source" stream=orders code=stride severity=note subject="each of orders_0, orders_1" finding="is note"` + "\n",
			`remedy="correct BRIDGE_STREAM_ORDERS_CREATED" statement="FIX orders_0; FIX orders_1;"`,
		} {
			if !strings.Contains(log.String(), want) {
				t.Errorf("the log lacks %s:\n%s", want, log.String())
			}
		}
		if strings.Contains(log.String(), "severity=unsafe") {
			t.Errorf("what stops a stream is logged twice:\n%s", log.String())
		}
		if n := strings.Count(log.String(), "\n"); n != 3 {
			t.Errorf("%d lines:\n%s", n, log.String())
		}
	})
}

// textLogger writes lines of all levels as text.
func textLogger(w io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// load reads a configuration that must be right.
func load(t *testing.T, env configtest.Env) *config.Config {
	t.Helper()
	cfg, err := config.Load(env.Environ(), &config.Redactor{})
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func found(severity inspect.Severity, subject string) inspect.Finding {
	return inspect.Finding{Severity: severity, Code: inspect.Stride, Subject: subject, What: "is " + severity.String(), Do: "fix it", Statement: "FIX " + subject + ";"}
}
