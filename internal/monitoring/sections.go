package monitoring

// section is a row of the board: a question that a person has.
type section struct {
	question string
	panels   []panel
}

// panel is one chart.
type panel struct {
	title string
	kind  string
	// unit is one of Grafana's.
	unit string
	// about says what to see in it; what its metrics mean is added from the table of metrics.
	about   string
	queries []query
	// steps colour a value from a bound on; without them it is green.
	steps []step
	// names are for the values of a state, 0 first.
	names []string
	width int
}

// query is one expression. {S} stands for the job, instance and stream that are chosen, {I} for job
// and instance alone; further matchers may follow the letter.
type query struct{ expr, legend string }

type step struct {
	from   float64
	colour string
}

// The kinds of panels.
const (
	number = "stat"
	chart  = "timeseries"
	states = "state-timeline"
	list   = "table"
)

const (
	amber = "orange"
	red   = "red"
)

// badFrom colours a value red from a bound on.
func badFrom(bound float64) []step { return []step{{bound, red}} }

// goodFrom colours a value red below a bound.
func goodFrom(bound float64) []step { return []step{{0, red}, {bound, "green"}} }

// quantile returns an expression for a quantile of a histogram by its labels.
func quantile(of, metric, by string) string {
	return "histogram_quantile(" + of + ", sum by (le, " + by + ") (rate(" + metric + "_bucket{S}[$__rate_interval])))"
}

var sections = []section{
	{"Is anything wrong?", []panel{
		{title: "Firing alerts", kind: list, width: 12, about: "The alerts of deploy/prometheus/rules.yaml. Each links the paragraph that says what to do.",
			queries: []query{{`ALERTS{alertname=~"Bridge.*", alertstate="firing"}`, ""}}},
		{title: "Instances that answer", kind: number, width: 4, about: "Two for a standby group.", steps: goodFrom(1),
			queries: []query{{`count(bridge_build_info{I})`, ""}}},
		{title: "Tables that are stopped", kind: number, width: 4, about: "A person has to act: bridge status says how.", steps: badFrom(1),
			queries: []query{{`sum(bridge_shard_state{S, state="stopped"})`, ""}}},
		{title: "Deletes held back", kind: number, width: 4, about: "Tables whose reconcile found suspiciously many entities gone.", steps: badFrom(1),
			queries: []query{{`sum(bridge_reconcile_guard_tripped{S})`, ""}}},
		{title: "Source, bus and checkpoint", kind: states, width: 12, about: "What is away is waited for.", steps: goodFrom(1), names: []string{"away", "up"},
			queries: []query{{`bridge_dependency_up{I}`, "{{instance}} {{dependency}}"}}},
		{title: "Tables by state", kind: chart, width: 12, unit: "short", about: "A waiting table goes on by itself when what it waits for is back.",
			queries: []query{{`sum by (stream, state) (bridge_shard_state{S})`, "{{stream}} {{state}}"}}},
		{title: "Another bridge has taken over", kind: number, width: 6, about: "Such a process publishes nothing any more: end one of the two.", steps: badFrom(1),
			queries: []query{{`sum(bridge_superseded{I})`, ""}}},
		{title: "Held up by a transaction", kind: number, width: 6, about: "/readyz names the producer.", steps: badFrom(1),
			queries: []query{{`sum(bridge_held_up_by_transaction{I})`, ""}}},
	}},
	{"How far behind is it?", []panel{
		{title: "Lag", kind: chart, unit: "s", width: 12, about: "The table of each stream that lags most.", steps: []step{{300, amber}, {1800, red}},
			queries: []query{{`max by (instance, stream) (bridge_lag_seconds{S})`, "{{stream}} {{instance}}"}}},
		{title: "What lags most", kind: list, unit: "s", width: 6, about: "Ten streams, now, or ten tables where series are by shard. bridge status has the lag of each table.",
			queries: []query{{`topk(10, bridge_lag_seconds{S} > 0)`, ""}}},
		{title: "Last read of a table", kind: chart, unit: "s", width: 6, about: "How long ago the table of each stream was read that waits longest. It stays at seconds.", steps: []step{{60, amber}, {600, red}},
			queries: []query{{`max by (instance, stream) (time() - (bridge_last_successful_poll_timestamp_seconds{S} > 0))`, "{{stream}} {{instance}}"}}},
		{title: "Ids a second", kind: chart, unit: "short", width: 12, about: "How fast the positions move, gaps included: the progress of a first start.",
			queries: []query{{`sum by (stream) (deriv(bridge_position{S}[5m]))`, "{{stream}}"}}},
		{title: "Bytes in flight", kind: chart, unit: "bytes", width: 12, about: "At MAX_INFLIGHT_BYTES reading waits for the bus.",
			queries: []query{{`bridge_inflight_bytes{I}`, "{{instance}}"}}},
	}},
	{"What does it publish?", []panel{
		{title: "Rows a second", kind: chart, unit: "wps", width: 12,
			queries: []query{{`sum by (stream) (rate(bridge_records_total{S}[$__rate_interval]))`, "{{stream}}"}}},
		{title: "Events a second by type", kind: chart, unit: "wps", width: 12,
			queries: []query{{`sum by (stream, type) (rate(bridge_events_total{S}[$__rate_interval]))`, "{{stream}} {{type}}"}}},
		{title: "Messages that the bus had already", kind: chart, unit: "short", width: 12, about: "Expected after a kill, a fault otherwise.",
			queries: []query{{`sum by (stream) (increase(bridge_duplicate_acks_total{S}[$__rate_interval]))`, "{{stream}}"}}},
		{title: "Delivery", kind: list, width: 12, queries: []query{{`bridge_delivery_info{I}`, ""}}},
	}},
	{"Do rows come late, and what is missing?", []panel{
		{title: "Late rows a second", kind: chart, unit: "wps", width: 8, about: "Their transactions committed after rows with higher ids were published.",
			queries: []query{{`sum by (stream) (rate(bridge_late_records_total{S}[$__rate_interval]))`, "{{stream}}"}}},
		{title: "Missing ids, hot and cold", kind: chart, unit: "short", width: 8,
			queries: []query{{`sum by (stream, temperature) (bridge_open_ids{S})`, "{{stream}} {{temperature}}"}}},
		{title: "Pending ids", kind: chart, unit: "short", width: 8, about: "Inserted by transactions that are open.",
			queries: []query{{`sum by (stream) (bridge_ids_in_flight{S})`, "{{stream}}"}}},
		{title: "Gaps", kind: chart, unit: "short", width: 8, queries: []query{{`sum by (stream) (bridge_open_gaps{S})`, "{{stream}}"}}},
		{title: "Oldest gap", kind: chart, unit: "s", width: 8, queries: []query{{`max by (stream) (bridge_oldest_gap_seconds{S})`, "{{stream}}"}}},
		{title: "Ids that are no longer polled", kind: chart, unit: "short", width: 8, about: "Vacant until GAP_TTL. A reconcile publishes a row that still appears there.",
			queries: []query{
				{`sum by (stream) (bridge_unpolled_ids{S})`, "{{stream}} now"},
				{`sum by (stream, reason) (increase(bridge_ids_given_up_total{S}[$__rate_interval]))`, "{{stream}} new, {{reason}}"},
			}},
		{title: "Memory of the gaps", kind: chart, unit: "bytes", width: 24, about: "At the limit the rest is read from the checkpoint, and polls are slower.",
			queries: []query{
				{`max by (instance, stream) (bridge_gaps_bytes{S})`, "{{stream}} {{instance}}"},
				{`min(bridge_gaps_limit_bytes{I})`, "limit"},
			}},
	}},
	{"What does the bus or an event refuse?", []panel{
		{title: "Refused messages and dead letters", kind: chart, unit: "short", width: 12, about: "bridge deadletter list has the rows and the reasons.", steps: badFrom(1),
			queries: []query{
				{`sum by (stream) (increase(bridge_rejected_total{S}[$__rate_interval]))`, "{{stream}} refused"},
				{`sum by (stream) (increase(bridge_dead_letters_total{S}[$__rate_interval]))`, "{{stream}} dead letters"},
			}},
		{title: "Values published as null", kind: chart, unit: "short", width: 6,
			queries: []query{{`sum by (stream) (increase(bridge_bad_values_total{S}[$__rate_interval]))`, "{{stream}}"}}},
		{title: "Tables whose events lost a member", kind: chart, unit: "short", width: 6, steps: badFrom(1),
			queries: []query{{`sum by (stream) (increase(bridge_breaking_schema_changes_total{S}[$__rate_interval]))`, "{{stream}}"}}},
	}},
	{"Is the table proved?", []panel{
		{title: "Verified until", kind: chart, unit: "s", width: 8, about: "How long ago: all commits until then are published.",
			queries: []query{{`max by (stream) (time() - (bridge_reconcile_verified_through_timestamp_seconds{S} > 0))`, "{{stream}}"}}},
		{title: "Last reconcile", kind: chart, unit: "s", width: 8, about: "How long ago it ended, and the interval that is configured.",
			queries: []query{
				{`max by (stream) (time() - (bridge_reconcile_last_run_timestamp_seconds{S} > 0))`, "{{stream}}"},
				{`max by (stream) (bridge_reconcile_interval_seconds{S})`, "{{stream}} interval"},
			}},
		{title: "Duration of a reconcile", kind: chart, unit: "s", width: 8,
			queries: []query{{`max by (stream) (bridge_reconcile_duration_seconds{S})`, "{{stream}}"}}},
		{title: "Reconciles under way", kind: chart, unit: "short", width: 8, queries: []query{{`sum by (stream) (bridge_reconcile_running{S})`, "{{stream}}"}}},
		{title: "Reconciles by result", kind: chart, unit: "short", width: 8,
			queries: []query{{`sum by (stream, result) (increase(bridge_reconcile_runs_total{S}[$__rate_interval]))`, "{{stream}} {{result}}"}}},
		{title: "Differences published", kind: chart, unit: "short", width: 8, about: "What the tail could not see: updates without an index on MODIFIED, hard deletes, missed rows.",
			queries: []query{{`sum by (stream, kind) (increase(bridge_reconcile_differences_total{S}[$__rate_interval]))`, "{{stream}} {{kind}}"}}},
	}},
	{"Does it catch up?", []panel{
		{title: "Caught up", kind: states, width: 8, steps: goodFrom(1), names: []string{"reads the bus", "caught up"},
			queries: []query{{`bridge_caught_up{S}`, "{{instance}} {{stream}}"}}},
		{title: "Offsets left to read", kind: chart, unit: "short", width: 8, queries: []query{{`bridge_catch_up_left{S}`, "{{stream}} {{instance}}"}}},
		{title: "Messages read from the bus a second", kind: chart, unit: "rps", width: 8,
			queries: []query{{`sum by (instance, stream) (rate(bridge_catch_up_messages_total{S}[$__rate_interval]))`, "{{stream}} {{instance}}"}}},
		{title: "Progress on the bus", kind: chart, unit: "s", width: 8, about: "How long ago it was written. A quiet stream has an old one.",
			queries: []query{{`time() - (bridge_progress_written_seconds{S} > 0)`, "{{stream}}"}}},
		{title: "Nominated entities", kind: chart, unit: "short", width: 8, queries: []query{{`sum by (stream) (bridge_nominated_entities{S})`, "{{stream}}"}}},
		{title: "Keys with two rows", kind: chart, unit: "short", width: 8,
			queries: []query{{`sum by (stream) (increase(bridge_twin_rows_total{S}[$__rate_interval]))`, "{{stream}}"}}},
	}},
	{"How fast are source, bus and disk?", []panel{
		{title: "Reads, 99 of 100", kind: chart, unit: "s", width: 8, queries: []query{{quantile("0.99", "bridge_source_query_seconds", "stream, query"), "{{stream}} {{query}}"}}},
		{title: "Publishes, 99 of 100", kind: chart, unit: "s", width: 8, queries: []query{{quantile("0.99", "bridge_publish_seconds", "stream"), "{{stream}}"}}},
		{title: "Saves, 99 of 100", kind: chart, unit: "s", width: 8, queries: []query{{quantile("0.99", "bridge_checkpoint_save_seconds", "stream"), "{{stream}}"}}},
		{title: "Failed attempts a second", kind: chart, unit: "short", width: 24, about: "They are repeated until they succeed.",
			queries: []query{{`sum by (place) (rate(bridge_retries_total{I}[$__rate_interval])) > 0`, "{{place}}"}}},
	}},
	{"Could another process take over?", []panel{
		{title: "Works", kind: states, width: 8, names: []string{"waits", "works"}, queries: []query{{`bridge_standby_working{I}`, "{{group}} {{instance}}"}}},
		{title: "Could take over", kind: states, width: 8, steps: goodFrom(1), names: []string{"not ready", "ready"}, queries: []query{{`bridge_standby_ready{I}`, "{{group}} {{instance}}"}}},
		{title: "Variables that differ", kind: number, width: 8, steps: badFrom(1), queries: []query{{`max by (instance) (bridge_standby_differing{I})`, "{{instance}}"}}},
	}},
	{"What does the process need?", []panel{
		{title: "Versions", kind: list, width: 8, queries: []query{{`bridge_build_info{I}`, ""}}},
		{title: "CPU", kind: chart, unit: "percentunit", width: 8, about: "1 is one core.", queries: []query{{`rate(process_cpu_seconds_total{I}[$__rate_interval])`, "{{instance}}"}}},
		{title: "Memory", kind: chart, unit: "bytes", width: 8, about: "What the system has given it, and the heap that is in use.",
			queries: []query{{`process_resident_memory_bytes{I}`, "{{instance}} resident"}, {`go_memstats_heap_inuse_bytes{I}`, "{{instance}} heap"}}},
		{title: "Goroutines", kind: chart, unit: "short", width: 8, queries: []query{{`go_goroutines{I}`, "{{instance}}"}}},
		{title: "Open files", kind: chart, unit: "short", width: 8, queries: []query{{`process_open_fds{I}`, "{{instance}}"}}},
		{title: "Uptime", kind: number, unit: "s", width: 8, queries: []query{{`time() - process_start_time_seconds{I}`, "{{instance}}"}}},
	}},
}
