package main

import (
	"bytes"
	"strings"
	"testing"

	"bridge/internal/app"
	"bridge/internal/config"
)

// TestEveryFormatOfEvents publishes in one format after the other, and verifies all of it.
func TestEveryFormatOfEvents(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.call(exitFine, "orders orders 60 0 0 0 0 0", "reconcile")
	for i, format := range []string{"cloudevents", "row", "eiffel"} {
		s.env["BRIDGE_STREAM_ORDERS_EVENT_FORMAT"] = format
		s.exec([]string{"UPDATE orders SET total = 7 WHERE id = 3", "UPDATE orders SET total = 8 WHERE id = 3", "UPDATE orders SET total = 9 WHERE id = 3"}[i])
		s.exec([]string{"DELETE FROM orders WHERE id = 5", "DELETE FROM orders WHERE id = 6", "DELETE FROM orders WHERE id = 7"}[i])
		s.call(exitFine, "", "reconcile")
		s.call(exitFine, "nothing is wrong", "verify")
	}
}

func TestCheckFindsAChangedSchema(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.call(exitFine, "", "reconcile")
	s.exec("ALTER TABLE orders DROP COLUMN total")
	s.checks(exitFine, "member total was integer or null and is gone")
	s.env["BRIDGE_STREAM_ORDERS_ON_SCHEMA_CHANGE"] = "stop"
	s.checks(exitFailed, "set BRIDGE_STREAM_ORDERS_EVENT_VERSION to another version than 1.0.0")
	s.exec("DELETE FROM orders WHERE id = 3")
	s.call(exitFailed, "member total was integer or null and is gone", "reconcile")
	s.env["BRIDGE_STREAM_ORDERS_EVENT_VERSION"] = "2.0.0"
	s.call(exitFine, "", "reconcile")
	s.call(exitFine, "nothing is wrong", "verify")
}

// checks runs bridge check as call does.
func (s *shop) checks(status int, words string) {
	s.t.Helper()
	var out, errs bytes.Buffer
	p := &process{environ: s.env.Environ(), stdout: &out, stderr: &errs, secrets: &config.Redactor{}, examine: app.Examine}
	got := p.run(s.t.Context(), []string{"check"})
	if text := strings.Join(strings.Fields(out.String()), " "); got != status || !strings.Contains(text, words) {
		s.t.Errorf("bridge check: status %d, want %d with %q:\n%s\n%s", got, status, words, text, &errs)
	}
}
