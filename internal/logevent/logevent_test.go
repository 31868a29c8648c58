package logevent

import (
	"bytes"
	"log/slog"
	"testing"
)

func TestName(t *testing.T) {
	for message, want := range map[string]string{
		"caught up":                              "caught_up",
		"outage begins, retrying until it ends":  "outage_begins",
		"the bus has lost messages: they are":    "the_bus_has_lost_messages",
		"NATS runs inside the process":           "nats_runs_inside_the_process",
		"the stream's window  is short - now":    "the_streams_window_is_short_now",
		"values are null (bridge_x_total); stop": "values_are_null",
		" a ":                                    "a",
		"":                                       "",
	} {
		if got := Name(message); got != want {
			t.Errorf("%q has %q, want %q", message, got, want)
		}
	}
}

func TestHandlerNamesEveryLine(t *testing.T) {
	var out bytes.Buffer
	noTime := func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}
	logger := slog.New(NewHandler(slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: noTime})))
	logger.Debug("not shown")
	logger.With("stream", "orders").Warn("caught up, at last", "position", 7)
	if got, want := out.String(), "level=WARN msg=\"caught up, at last\" stream=orders event=caught_up position=7\n"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
