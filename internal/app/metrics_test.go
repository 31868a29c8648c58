package app

import (
	"bytes"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"example.org/bridge/internal/app/apptest"
	"example.org/bridge/internal/config"
	"example.org/bridge/internal/httpapi"
	"example.org/bridge/internal/httpapi/httpapitest"
	"example.org/bridge/tests/must"
)

var build = Build{Version: "1.2.3", Revision: "abc", Go: "go1.2"}

// newMetrics returns what /metrics says of a bridge with two streams that has not run yet.
func newMetrics(t *testing.T, more ...string) string {
	t.Helper()
	s := apptest.NewShop(t)
	for _, variable := range more {
		s.Env[variable] = "true"
	}
	s.Env["BRIDGE_STREAMS"] = "orders,bills"
	s.Env["BRIDGE_STREAM_BILLS_TABLE"], s.Env["BRIDGE_STREAM_BILLS_KIND"] = "bills_{0..1}", "release"
	return metricsOf(t, s)
}

// metricsOf returns what /metrics says of the bridge of a shop that has not run yet.
func metricsOf(t *testing.T, s *apptest.Shop) string {
	t.Helper()
	a := must.Get(Open(t.Context(), Options{Config: load(t, s.Env), Logger: textLogger(t.Output()), Build: build}))(t)
	t.Cleanup(func() { must.OK(t, a.Close()) })
	_, body := httpapitest.RequestOf(t, httpapi.Handler(&httpapitest.Daemon{}, a.Metrics(), httpapi.Access{}), "GET", "/metrics")
	return body
}

// TestMetricsAreThereBeforeTheyCount: each has a sample of a bridge that is in no group.
func TestMetricsAreThereBeforeTheyCount(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		variables []string
		want      []string
	}{
		"by stream": {nil, []string{
			`bridge_retries_total{place="shard bills"} 0`, `bridge_retries_total{place="checkpoint/bills"} 0`, `bridge_retries_total{place="source"} 0`,
			`bridge_shard_state{state="starting",stream="orders"} 1`, `bridge_shard_state{state="starting",stream="bills"} 2`,
			`bridge_lag_seconds{stream="bills"} NaN`, `bridge_reconcile_differences_total{kind="missed",stream="bills"} 0`,
			`bridge_events_total{stream="orders",type="OrdersAddedEvent"} 0`, `bridge_events_total{stream="orders",type="OrdersDeletedEvent"} 0`,
			`bridge_events_total{stream="bills",type="BillsPublishedEvent"} 0`, `bridge_ids_given_up_total{reason="ttl",stream="orders"} 0`,
			`bridge_source_query_seconds_count{query="page",stream="orders"} 0`, `bridge_source_query_seconds_count{query="ids",stream="bills"} 0`,
			`bridge_build_info{goversion="go1.2",revision="abc",version="1.2.3"} 1`, `bridge_unpolled_ids{stream="orders"} 0`,
			`bridge_last_successful_poll_timestamp_seconds{stream="bills"} 0`, `bridge_events_total{stream="orders",type="OrdersModifiedEvent"} 0`,
			`bridge_source_query_seconds_count{query="rows",stream="orders"} 0`, `bridge_source_query_seconds_count{query="changes",stream="orders"} 0`,
		}},
		"by shard": {[]string{"BRIDGE_METRICS_BY_SHARD"}, []string{
			`bridge_retries_total{place="shard bills/bills_1"} 0`, `bridge_retries_total{place="checkpoint/bills/bills_0"} 0`,
			`bridge_shard_state{shard="orders",state="starting",stream="orders"} 1`, `bridge_shard_state{shard="bills_1",state="stopped",stream="bills"} 0`,
			`bridge_lag_seconds{shard="bills_1",stream="bills"} NaN`, `bridge_reconcile_differences_total{kind="missed",shard="bills_1",stream="bills"} 0`,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			body := newMetrics(t, c.variables...)
			for _, stream := range []string{"orders", "bills"} {
				for _, name := range []string{
					"records_total", "rejected_total", "dead_letters_total", "duplicate_acks_total", "bad_values_total", "late_records_total",
					"publish_seconds_count", "checkpoint_save_seconds_count",
				} {
					c.want = append(c.want, `bridge_`+name+`{stream="`+stream+`"} 0`)
				}
			}
			for _, want := range c.want {
				if !strings.Contains(body, "\n"+want+"\n") {
					t.Errorf("no %s in\n%s", want, body)
				}
			}
			for _, name := range listedMetrics(t) {
				if !strings.HasPrefix(name, "bridge_standby_") && !strings.HasPrefix(name, "bridge_progress_") && !strings.Contains(body, "\n# TYPE "+name+" ") {
					t.Errorf("no %s in\n%s", name, body)
				}
			}
		})
	}
}

// TestMetricsStayFewWhateverTheTables counts the series of a thousand tables.
func TestMetricsStayFewWhateverTheTables(t *testing.T) {
	t.Parallel()
	s := apptest.NewShop(t)
	s.Env["BRIDGE_STREAM_ORDERS_TABLE"] = "bill_{000..999}"
	body := metricsOf(t, s)
	if series := strings.Count(body, "\n") - strings.Count(body, "\n#"); series > 500 || !strings.Contains(body, `bridge_shard_state{state="starting",stream="orders"} 1000`) {
		t.Errorf("%d series", series)
	}
}

// TestMetricsAreWellFormed judges them as `promtool check metrics` does, which is the same package.
func TestMetricsAreWellFormed(t *testing.T) {
	t.Parallel()
	body := newMetrics(t)
	problems, err := promlint.New(bytes.NewBufferString(body)).Lint()
	if err != nil || !strings.Contains(body, "bridge_lag_seconds") {
		t.Fatalf("%v, %s", err, body)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// probed is a source without a name that answers as a probe says.
func probed(p *httpapi.Probe) *Sources {
	cfg := &config.Config{Sources: make([]config.Source, 1)}
	return &Sources{cfg: cfg, all: []*database{{Source: &cfg.Sources[0], probe: p}}}
}

// collected returns the values of the metrics of a collector, by name and dependency.
func collected(t *testing.T, c prometheus.Collector) map[string]float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(c)
	return gathered(t, registry)
}

// listedMetrics are those that docs/reference.md lists, sorted.
func listedMetrics(t *testing.T) (listed []string) {
	_, table, _ := strings.Cut(string(must.Get(os.ReadFile("../../docs/reference.md"))(t)), "\n## Metrics\n")
	for _, row := range regexp.MustCompile("(?m)^\\| `(bridge_[a-z_]+)`").FindAllStringSubmatch(table, -1) {
		listed = append(listed, row[1])
	}
	slices.Sort(listed)
	return listed
}

// TestBoardAndAlertsAskForWhatThereIs of Go and the process. Those of bridge are in the table.
func TestBoardAndAlertsAskForWhatThereIs(t *testing.T) {
	t.Parallel()
	body := newMetrics(t)
	for _, file := range []string{"grafana/bridge.json", "prometheus/rules.yaml"} {
		text := must.Get(os.ReadFile("../../deploy/" + file))(t)
		for _, name := range regexp.MustCompile(`\b(?:go|process)_[a-z_]+\b`).FindAllString(string(text), -1) {
			if !strings.Contains(body, "\n# TYPE "+name+" ") {
				t.Errorf("%s asks for %s, which is not there", file, name)
			}
		}
	}
}
