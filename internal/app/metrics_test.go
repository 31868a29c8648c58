package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"example.org/bridge/internal/app/apptest"
	"example.org/bridge/internal/buscopy"
	"example.org/bridge/internal/config"
	"example.org/bridge/internal/httpapi"
	"example.org/bridge/internal/httpapi/httpapitest"
	"example.org/bridge/internal/outage"
	"example.org/bridge/internal/shard"
	"example.org/bridge/internal/standby"
	"example.org/bridge/sink"
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
				`bridge_events_total{stream="orders",type="OrdersDeletedEvent"} 0`, `bridge_events_total{stream="orders",type="OrdersModifiedEvent"} 0`,
				`bridge_rejected_total{stream="orders"} 0`, `bridge_dead_letters_total{stream="orders"} 0`, `bridge_duplicate_acks_total{stream="bills"} 0`,
				`bridge_bad_values_total{stream="bills"} 0`, `bridge_late_records_total{stream="orders"} 0`, `bridge_publish_seconds_count{stream="orders"} 0`,
				`bridge_source_query_seconds_count{query="page",stream="orders"} 0`, `bridge_source_query_seconds_count{query="rows",stream="orders"} 0`,
				`bridge_source_query_seconds_count{query="ids",stream="bills"} 0`,
				`bridge_events_total{stream="bills",type="BillsPublishedEvent"} 0`,
				`bridge_dead_letters_total{stream="bills"} 0`,
				`bridge_ids_given_up_total{reason="ttl",stream="orders"} 0`,
				`bridge_retries_total{place="source"} 0`,
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

func TestDependenciesThatAreAwayShow(t *testing.T) {
	const up = "bridge_dependency_up "
	refused := errors.New("connection refused")
	for name, c := range map[string]struct {
		source, bus error
		fault       string
		away        []string
	}{
		"all are up":                          {},
		"the source does not answer":          {source: refused, away: []string{up + "source"}},
		"the bus does not answer":             {bus: refused, away: []string{up + "bus"}},
		"the disk takes no writes of a table": {fault: "checkpoint/orders/orders", away: []string{up + "checkpoint"}},
		"the disk takes no writes at all":     {fault: "checkpoint", away: []string{up + "checkpoint"}},
		"a table alone cannot be read":        {fault: "shard orders/orders"},
		"the group":                           {fault: standbyDependency, away: []string{up + "standby group"}},
		"the progress":                        {fault: copiesDependency, away: []string{up + "progress on the bus"}},
	} {
		t.Run(name, func(t *testing.T) {
			faults := outage.New(slog.New(slog.DiscardHandler))
			if c.fault != "" {
				faults.Fail(c.fault, refused)
			}
			answers := func(err error) *httpapi.Probe {
				return &httpapi.Probe{Ready: func(context.Context) error { return err }}
			}
			a := &App{
				parts: parts{faults: faults, copies: buscopy.NewKeeper(buscopy.Options{}), sources: probed(answers(c.source))},
				kept:  &kept{member: standby.New(standby.Options{})}, sinkProbe: answers(c.bus),
			}
			got := collected(t, newOutageCollector(a))
			for _, name := range c.away {
				if value, shown := got[name]; !shown || value != 0 {
					t.Errorf("%s is %v", name, value)
				}
				delete(got, name)
			}
			for name, value := range got {
				if want := oneIf(name != "bridge_held_up_by_transaction"); value != want {
					t.Errorf("%s is %v, want %v", name, value, want)
				}
			}
			if len(got)+len(c.away) != 6 {
				t.Errorf("there are %v", got)
			}
		})
	}
}

func TestAScrapeDoesNotWaitForWhatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		a := &App{
			kept: new(kept),
			parts: parts{
				faults:  outage.New(slog.New(slog.DiscardHandler)),
				sources: probed(&httpapi.Probe{Ready: func(context.Context) error { <-release; return nil }}),
			},
			sinkProbe: &httpapi.Probe{Ready: func(context.Context) error { return fmt.Errorf("orders/3: %w", sink.ErrHeldUp) }},
		}
		begun := time.Now()
		got := collected(t, newOutageCollector(a))
		if took := time.Since(begun); took != scrapeTimeout || got["bridge_dependency_up source"] != 0 || got["bridge_held_up_by_transaction"] != 1 {
			t.Errorf("after %s: %v", took, got)
		}
		// There is neither a group nor progress on the bus.
		if len(got) != 4 {
			t.Errorf("there are %v", got)
		}
		close(release)
	})
}

// described is a registry that keeps nothing but what its collectors describe.
type described []string

func (d *described) Register(c prometheus.Collector) error {
	descs := make(chan *prometheus.Desc, 100)
	c.Describe(descs)
	close(descs)
	for desc := range descs {
		_, rest, _ := strings.Cut(desc.String(), `fqName: "`)
		name, _, _ := strings.Cut(rest, `"`)
		*d = append(*d, name)
	}
	return nil
}

func (d *described) MustRegister(all ...prometheus.Collector) {
	for _, c := range all {
		_ = d.Register(c) // there is no error
	}
}

func (d *described) Unregister(prometheus.Collector) bool { return false }

// registered returns the metrics of a process that uses everything.
func registered() (there described) {
	shard.NewMetrics(&there, true)
	registerMetrics(&there, &App{
		opts: Options{Config: new(config.Config)}, kept: &kept{member: standby.New(standby.Options{})}, parts: parts{copies: buscopy.NewKeeper(buscopy.Options{})},
	})
	return there
}

func TestReferenceListsTheMetrics(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference.md")
	if err != nil {
		t.Fatal(err)
	}
	there := registered()
	_, table, _ := strings.Cut(string(page), "\n## Metrics\n")
	var listed []string
	for _, row := range regexp.MustCompile("(?m)^\\| `(bridge_[a-z_]+)`").FindAllStringSubmatch(table, -1) {
		listed = append(listed, row[1])
	}
	slices.Sort(there)
	slices.Sort(listed)
	if !slices.Equal(there, listed) {
		t.Errorf("docs/reference.md lists\n%v\nthere are\n%v", listed, there)
	}
}

// debugOnly are metrics that no panel of the board shows, with the reason. A name that ends in _
// stands for all that begin with it.
var debugOnly = map[string]string{
	"go_":                                  "what the Go runtime says of itself: the panels of the process show memory and goroutines",
	"process_max_fds":                      "a limit of the system",
	"process_virtual_memory_":              "address space, which costs nothing",
	"process_network_":                     "bytes of all connections together; the rates of rows and bytes in flight say more",
	"bridge_reconcile_rows":                "how far one run is: bridge status shows it with the percentage and the time left",
	"bridge_limit_wait_seconds_total":      "bridge status and the page say which limit holds a backlog back",
	"bridge_progress_bytes":                "the size of what is kept on the bus; it matters when its limit of 8 MiB is met, which the log says",
	"bridge_standby_working_since_seconds": "bridge status shows it with the host",
}

// TestBoardAndAlertsAskForWhatThereIs compares them with the metrics that are registered.
func TestBoardAndAlertsAskForWhatThereIs(t *testing.T) {
	t.Parallel()
	there := []string(registered())
	for _, found := range regexp.MustCompile(`(?m)^# TYPE ((?:go|process)_[a-z_]+) `).FindAllStringSubmatch(newMetrics(t), -1) {
		there = append(there, found[1])
	}
	page, rules := readFile(t, "../../docs/reference.md"), readFile(t, "../../deploy/prometheus/rules.yaml")
	var board struct {
		Panels []struct{ Targets []struct{ Expr string } }
	}
	if err := json.Unmarshal([]byte(readFile(t, "../../deploy/grafana/bridge.json")), &board); err != nil {
		t.Fatal(err)
	}
	shown := make(map[string]bool)
	for _, p := range board.Panels {
		for _, target := range p.Targets {
			for _, name := range metricNames(target.Expr) {
				shown[name] = true
				if !slices.Contains(there, name) {
					t.Errorf("the board asks for %s, which is not registered", name)
				}
			}
		}
	}
	for _, name := range metricNames(rules) {
		if !slices.Contains(there, name) {
			t.Errorf("an alert names %s, which is not registered", name)
		}
	}
	for _, name := range there {
		listed := slices.ContainsFunc(slices.Collect(maps.Keys(debugOnly)), func(listed string) bool {
			return name == listed || strings.HasSuffix(listed, "_") && strings.HasPrefix(name, listed)
		})
		if !shown[name] && !listed {
			t.Errorf("%s is not on the board deploy/grafana/bridge.json: add a panel, or its reason to debugOnly", name)
		}
	}
	_, section, _ := strings.Cut(page, "\n**The board**")
	section, _, _ = strings.Cut(section, "\n## ")
	for name := range debugOnly {
		if strings.HasPrefix(name, "bridge_") && !strings.Contains(section, "`"+name+"`") {
			t.Errorf("docs/reference.md does not say that %s is not on the board", name)
		}
		if shown[name] {
			t.Errorf("%s is on the board, too", name)
		}
	}
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// metricNames returns the metrics in a text. Series of a histogram have its name.
func metricNames(text string) []string {
	names := regexp.MustCompile(`\b(?:bridge|go|process)_[a-z_]+\b`).FindAllString(text, -1)
	for i := range names {
		names[i] = regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(names[i], "")
	}
	return names
}
