package main

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"bridge/internal/inspect"
	"bridge/source"
)

// inspectedSource is a source that can be reached after some attempts and then finds the same about every table.
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
	cfg := load(t, with())
	src := &inspectedSource{
		server: []inspect.Finding{found(inspect.Warning, "server")},
		table: func(name string) []inspect.Finding {
			return []inspect.Finding{found(inspect.Unsafe, name), found(inspect.Note, name)}
		},
	}
	t.Run("after the source can be reached, one table after another", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var log bytes.Buffer
			src.away.Store(5)
			begun := time.Now()
			logFindings(t.Context(), cfg, src, newLogger(&log, -4, "text", &redactor{}))
			if time.Since(begun) < time.Second || src.atOnce != 1 {
				t.Errorf("looked after %s at %d tables at once", time.Since(begun), src.atOnce)
			}
			for _, want := range []string{
				`level=WARN msg="finding about the source" code=stride severity=warning subject=server`,
				`level=WARN msg="finding about the source" stream=orders code=stride severity=unsafe subject="each of orders_0, orders_1"`,
				`level=INFO msg="finding about the source" stream=orders code=stride severity=note`,
				`remedy="mend it" statement="MEND orders_0; MEND orders_1;"`,
			} {
				if !strings.Contains(log.String(), want) {
					t.Errorf("the log lacks %s:\n%s", want, log.String())
				}
			}
			if n := strings.Count(log.String(), "\n"); n != 3 {
				t.Errorf("%d lines:\n%s", n, log.String())
			}
		})
	})
	t.Run("and ends with the bridge", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var log bytes.Buffer
			src.away.Store(1 << 30)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			logFindings(ctx, cfg, src, newLogger(&log, -4, "text", &redactor{}))
			if log.Len() > 0 {
				t.Errorf("logged %s", log.String())
			}
		})
	})
}
