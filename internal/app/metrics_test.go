package app

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"example.org/bridge/internal/app/apptest"
	"example.org/bridge/internal/httpapi"
	"example.org/bridge/internal/httpapi/httpapitest"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
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
	a, err := Open(t.Context(), Options{Config: load(t, s.Env), Logger: textLogger(t.Output()), Build: build})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	_, body := httpapitest.RequestOf(t, httpapi.Handler(&httpapitest.Daemon{}, a.Metrics(), httpapi.Access{}), "GET", "/metrics")
	return body
}

func TestMetricsAreThereBeforeTheyCount(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		variables []string
		want      []string
	}{
		"by stream": {nil, []string{
			`bridge_unpolled_ids{stream="orders"} 0`,
			`bridge_retries_total{place="shard bills"} 0`,
			`bridge_retries_total{place="checkpoint/bills"} 0`,
			`bridge_shard_state{state="starting",stream="orders"} 1`,
			`bridge_shard_state{state="starting",stream="bills"} 2`,
			`bridge_lag_seconds{stream="bills"} NaN`,
			`bridge_last_successful_poll_timestamp_seconds{stream="bills"} 0`,
			`bridge_reconcile_differences_total{kind="missed",stream="bills"} 0`,
		}},
		"by shard": {[]string{"BRIDGE_METRICS_BY_SHARD"}, []string{
			`bridge_unpolled_ids{shard="orders",stream="orders"} 0`,
			`bridge_retries_total{place="shard bills/bills_1"} 0`,
			`bridge_retries_total{place="checkpoint/bills/bills_0"} 0`,
			`bridge_shard_state{shard="orders",state="starting",stream="orders"} 1`,
			`bridge_shard_state{shard="bills_1",state="stopped",stream="bills"} 0`,
			`bridge_lag_seconds{shard="bills_1",stream="bills"} NaN`,
			`bridge_reconcile_differences_total{kind="missed",shard="bills_1",stream="bills"} 0`,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			body := newMetrics(t, c.variables...)
			lines := strings.Split(body, "\n")
			for _, want := range append(c.want,
				`bridge_records_total{stream="bills"} 0`,
				`bridge_events_total{stream="orders",type="OrdersAddedEvent"} 0`,
				`bridge_events_total{stream="orders",type="OrdersModifiedEvent"} 0`,
				`bridge_events_total{stream="orders",type="OrdersDeletedEvent"} 0`,
				`bridge_events_total{stream="bills",type="BillsPublishedEvent"} 0`,
				`bridge_rejected_total{stream="orders"} 0`,
				`bridge_dead_letters_total{stream="orders"} 0`,
				`bridge_dead_letters_total{stream="bills"} 0`,
				`bridge_duplicate_acks_total{stream="bills"} 0`,
				`bridge_bad_values_total{stream="bills"} 0`,
				`bridge_late_records_total{stream="orders"} 0`,
				`bridge_ids_given_up_total{reason="ttl",stream="orders"} 0`,
				`bridge_retries_total{place="source"} 0`,
				`bridge_publish_seconds_count{stream="orders"} 0`,
				`bridge_source_query_seconds_count{query="page",stream="orders"} 0`,
				`bridge_source_query_seconds_count{query="rows",stream="orders"} 0`,
				`bridge_source_query_seconds_count{query="ids",stream="bills"} 0`,
				`bridge_source_query_seconds_count{query="changes",stream="orders"} 0`,
				`bridge_checkpoint_save_seconds_count{stream="bills"} 0`,
				`bridge_build_info{goversion="go1.2",revision="abc",version="1.2.3"} 1`,
			) {
				if !slices.Contains(lines, want) {
					t.Errorf("no %s in\n%s", want, body)
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
