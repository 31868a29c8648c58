package app

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"example.org/bridge/internal/app/apptest"
	"example.org/bridge/internal/httpapi"
	"example.org/bridge/internal/httpapi/httpapitest"
	"example.org/bridge/internal/option"
	"example.org/bridge/internal/outage"
	"example.org/bridge/internal/stream"
)

// TestWarningsAtTheStart: those about the process come first, by name, then those of each stream in
// the order of BRIDGE_STREAMS; all before anything else is logged.
func TestWarningsAtTheStart(t *testing.T) {
	s := apptest.NewShop(t)
	s.Exec(t, "CREATE TABLE bills (id INTEGER PRIMARY KEY AUTOINCREMENT, gone INT)")
	for name, value := range map[string]string{
		"BRIDGE_STREAMS": "orders,bills", "BRIDGE_STREAM_BILLS_TABLE": "bills", "BRIDGE_STREAM_BILLS_KIND": "release",
		"BRIDGE_STREAM_BILLS_DELETED": "gone", "BRIDGE_STREAM_BILLS_TIME_ZONE": "Asia/Shanghai", "BRIDGE_STREAM_ORDERS_TIME_ZONE": "Asia/Shanghai",
		"BRIDGE_NATS_NKEY": "x", "BRIDGE_NATS_CREDS": "x", "BRIDGE_KAFKA_TLS": "true", "BRIDGE_KAFKA_COMPRESSION": "gzip",
	} {
		s.Env[name] = value
	}
	want := []string{
		"BRIDGE_KAFKA_COMPRESSION", "BRIDGE_KAFKA_TLS", "BRIDGE_NATS_CREDS", "BRIDGE_NATS_NKEY",
		"BRIDGE_STREAM_ORDERS_TIME_ZONE", "BRIDGE_STREAM_BILLS_DELETED", "BRIDGE_STREAM_BILLS_TIME_ZONE",
	}
	log := new(sharedLog)
	a, err := OpenProcess(t.Context(), ProcessOptions{Config: load(t, s.Env), Logger: slog.New(slog.NewTextHandler(log, nil)), Build: build})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	var got []string
	for i, line := range strings.Split(strings.TrimSpace(log.String()), "\n") {
		if m := regexp.MustCompile(`level=WARN .* variable=(\w+)`).FindStringSubmatch(line); m != nil && i == len(got) {
			got = append(got, m[1])
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("the log begins with warnings of %q, want %q:\n%s", got, want, log)
	}
}

func TestReadinessNamesVariables(t *testing.T) {
	faults := outage.New(slog.New(slog.DiscardHandler))
	faults.Fail("topic/orders", fmt.Errorf("publish: %w", option.Errorf("see %s", option.KafkaTLS)))
	h := &App{
		kept: new(kept),
		parts: parts{faults: faults, recovery: stream.New(stream.Options{}), sources: probed(&httpapi.Probe{
			Ready: func(context.Context) error { return option.Errorf("correct %s", option.SourceURL) },
		})},
		sinkProbe: &httpapi.Probe{Ready: func(context.Context) error { return option.Errorf("correct %s", option.SinkURL) }},
	}
	code, body := httpapitest.Request(t, h.Daemon(), http.MethodGet, "/readyz")
	for _, want := range []string{"correct BRIDGE_SOURCE_URL", "correct BRIDGE_SINK_URL", "see BRIDGE_KAFKA_TLS"} {
		if code != http.StatusServiceUnavailable || !strings.Contains(body, want) {
			t.Errorf("%d without %q: %s", code, want, body)
		}
	}
}

// TestAShardNamesVariables: the log, readiness, status and refusals to send dead letters again name
// the variables of the stream.
func TestAShardNamesVariables(t *testing.T) {
	s, log := apptest.NewShop(t), new(sharedLog)
	s.Env["BRIDGE_STREAM_ORDERS_KEY"] = "customer"
	a, err := Open(t.Context(), Options{Config: load(t, s.Env), Logger: textLogger(log)})
	if err != nil {
		t.Fatal(err)
	}
	defer start(t, a)()
	const remedy = "correct BRIDGE_STREAM_ORDERS_KEY"
	h, body := a.Daemon(), ""
	until(t, "/readyz says "+remedy, func() any { return body }, func() bool {
		_, body = httpapitest.Request(t, h, http.MethodGet, "/readyz")
		return strings.Contains(body, remedy)
	})
	stops := regexp.MustCompile(`msg="shard stopped".*` + remedy)
	until(t, "the log says "+remedy, func() any { return log }, func() bool { return stops.MatchString(log.String()) })
	if _, body := httpapitest.Request(t, h, http.MethodGet, "/api/v1/status"); !strings.Contains(body, remedy) {
		t.Errorf("the status does not say %q: %s", remedy, body)
	}
	resend := func() string {
		w := httptest.NewRecorder()
		r := httpapitest.NewRequest(t, http.MethodPost, "/api/v1/streams/orders/resend",
			strings.NewReader(`{"shard":"orders","letters":[{"row":1,"event":"6f1e7f9e-9d8a-5b7c-8d6e-0f1a2b3c4d5e"}]}`))
		httpapitest.Checked(t, httpapi.Handler(h, prometheus.NewRegistry(), httpapi.Access{})).ServeHTTP(w, r)
		var answer struct{ Error string }
		if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || w.Code != http.StatusConflict {
			t.Errorf("%d %s, %v", w.Code, w.Body, err)
		}
		return answer.Error
	}
	if text := resend(); !strings.Contains(text, "BRIDGE_DEAD_LETTER is not set") {
		t.Errorf("without a destination: %s", text)
	}
	a.opts.Config.Streams[0].DeadLetter = "dead"
	if text := resend(); !strings.Contains(text, remedy) {
		t.Errorf("of a table that cannot be read: %s", text)
	}
}
