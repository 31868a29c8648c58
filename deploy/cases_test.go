package deploy_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// steady are the series of a bridge and its standby for four hours, a value a minute, in which
// nothing is wrong: the standby has no lag, no poll and no reconcile, and has not caught up.
const steady = `up{bridge}: 1x240;
up{bridge b}: 1x240;
build_info{bridge, version="v1"}: 1x240;
process_start_time_seconds{bridge}: 0x240;
process_start_time_seconds{bridge b}: 0x240;
dependency_up{bridge, dependency="source"}: 1x240;
dependency_up{bridge, dependency="bus"}: 1x240;
dependency_up{bridge, dependency="checkpoint"}: 1x240;
dependency_up{bridge, dependency="standby group"}: 1x240;
dependency_up{bridge, dependency="progress on the bus"}: 1x240;
held_up_by_transaction{bridge}: 0x240;
superseded{bridge}: 0x240;
shard_state{table, state="running"}: 1x240;
shard_state{table, state="stopped"}: 0x240;
lag_seconds{table}: 2x240;
paused_since_timestamp_seconds{table}: 0x240;
lag_seconds{table b}: _x236 NaN NaN NaN NaN NaN;
last_successful_poll_timestamp_seconds{table}: 0+60x240;
last_successful_poll_timestamp_seconds{table b}: 0x240;
records_total{stream}: 0+6000x240;
late_records_total{stream}: 0+60x240;
dead_letters_total{stream}: 7x240;
duplicate_acks_total{stream}: 7x240;
breaking_schema_changes_total{stream}: 1x240;
gaps_bytes{table}: 1000x240;
gaps_limit_bytes{bridge}: 4000000x240;
caught_up{stream}: 1x240;
caught_up{stream b}: 0x240;
reconcile_guard_tripped{table}: 0x240;
reconcile_interval_seconds{stream}: 1800x240;
reconcile_interval_seconds{stream b}: 1800x240;
reconcile_last_run_timestamp_seconds{table}: 0+60x240;
reconcile_last_run_timestamp_seconds{table b}: 0x240;
reconcile_verified_through_timestamp_seconds{table}: 0+60x240;
reconcile_verified_through_timestamp_seconds{table b}: 0x240;
standby_working{group a}: 1x240;
standby_working{group b}: 0x240;
standby_ready{group a}: 1x240;
standby_ready{group b}: 1x240;
standby_differing{group a}: 0x240;
standby_differing{group b}: 0x240`

// full writes the labels out that stand in short for those of a bridge, a stream and a table of it,
// or of another one "b", and the prefix of names.
var full = strings.NewReplacer(
	"{bridge b", `{job="bridge", instance="b:8080"`, "{bridge", `{job="bridge", instance="a:8080"`,
	"{stream b", `{job="bridge", instance="b:8080", stream="orders"`, "{stream", `{job="bridge", instance="a:8080", stream="orders"`,
	"{table b", `{job="bridge", instance="b:8080", stream="orders", shard="orders_0"`, "{table", `{job="bridge", instance="a:8080", stream="orders", shard="orders_0"`,
	"{group a", `{job="bridge", instance="a:8080", group="orders"`, "{group b", `{job="bridge", instance="b:8080", group="orders"`, "{group", `{job="bridge", group="orders"`,
)

// listed returns what stands between semicolons, in full.
func listed(text string) (all []string) {
	for one := range strings.SplitSeq(text, ";") {
		if one = full.Replace(strings.TrimSpace(one)); one != "" {
			all = append(all, one)
		}
	}
	return all
}

// seriesOf returns the values of series, each "name: values", in which NaN*60 stands for 60 times.
func seriesOf(text string) map[string]string {
	all := make(map[string]string)
	for _, one := range listed(text) {
		name, values, _ := strings.Cut(one, ": ")
		if !strings.HasPrefix(name, "up{") && !strings.HasPrefix(name, "process_") {
			name = "bridge_" + name
		}
		if before, n, many := strings.Cut(values, " NaN*"); many {
			times, _ := strconv.Atoi(n)
			values = before + strings.Repeat(" NaN", times)
		}
		all[name] = values
	}
	return all
}

// alertCase is what differs from steady, and the alerts that fire then, without their severity. Its
// name is that of its job, too.
type alertCase struct {
	name, set, fires string
	// hours is how long all stays as it is in steady; 4 by default.
	hours int
}

var alertCases = []alertCase{
	{"nothing is wrong", "", "", 0},
	{"it does not answer", `up{bridge}: 1x230 0x10`, `BridgeAbsent{bridge}`, 0},
	{"one of another job does not answer any more", `up{job="shop", instance="c:1"}: 1x180 0x60; ` +
		`build_info{job="shop", instance="c:1", version="v1"}: 1x180 stale; up{job="shop", instance="other:1"}: 0x240`,
		`BridgeAbsent{job="shop", instance="c:1"}`, 0},
	{"a pod does not answer, under the job of all pods", `up{job="pods", app_kubernetes_io_name="bridge", instance="c:8080"}: 0x240`,
		`BridgeAbsent{job="pods", app_kubernetes_io_name="bridge", instance="c:8080"}`, 0},
	{"a table is stopped", `shard_state{table, state="stopped"}: 0x230 1x10; ` +
		`last_successful_poll_timestamp_seconds{table}: 0+60x180 NaN*60`,
		`BridgeStopped{table, state="stopped"}`, 0},
	{"three tables are stopped", `shard_state{table, state="stopped"}: 0x230 3x10`, `BridgeStopped{table, state="stopped"}`, 0},
	{"a table is paused for hours", `paused_since_timestamp_seconds{table}: 0x100 6000x140; ` +
		`lag_seconds{table}: 2x100 NaN*140; last_successful_poll_timestamp_seconds{table}: 0+60x100 NaN*140`,
		`BridgePaused{table}`, 0},
	{"a table is paused", `paused_since_timestamp_seconds{table}: 0x220 13200x20`, "", 0},
	{"the guard holds deletes of two tables back", `reconcile_guard_tripped{table}: 0x230 2x10`, `BridgeDegraded{table}`, 0},
	{"the guard holds deletes back", `reconcile_guard_tripped{table}: 0x230 1x10`, `BridgeDegraded{table}`, 0},
	{"the source is away", `dependency_up{bridge, dependency="source"}: 1x230 0x10`, `BridgeSourceAway{bridge, dependency="source"}`, 0},
	{"a table is not read", `last_successful_poll_timestamp_seconds{table}: 0+60x200 12000x40`, `BridgeNotPolled{table}`, 0},
	{"a table was never read", `last_successful_poll_timestamp_seconds{table}: 0x240`, `BridgeNotPolled{table}`, 0},
	{"a table was not read yet", `last_successful_poll_timestamp_seconds{table}: 0x240; process_start_time_seconds{bridge}: 14100x240`, "", 0},
	{"a table is not read while its stream catches up", `last_successful_poll_timestamp_seconds{table}: 0x240; caught_up{stream}: 1x225 0x15`, "", 0},
	{"the bus is away", `dependency_up{bridge, dependency="bus"}: 1x230 0x10`, `BridgeBusAway{bridge, dependency="bus"}`, 0},
	{"group and progress are away", `dependency_up{bridge, dependency="standby group"}: 1x230 0x10; ` +
		`dependency_up{bridge, dependency="progress on the bus"}: 1x230 0x10`,
		`BridgeGroupOrProgressAway{bridge, dependency="progress on the bus"}; BridgeGroupOrProgressAway{bridge, dependency="standby group"}`, 0},
	{"a transaction is open", `held_up_by_transaction{bridge}: 0x230 1x10; dependency_up{bridge, dependency="bus"}: 1x230 0x10`, `BridgeHeldUp{bridge}`, 0},
	{"the disk is full", `dependency_up{bridge, dependency="checkpoint"}: 1x230 0x10`, `BridgeStoreAway{bridge, dependency="checkpoint"}`, 0},
	{"it lags by minutes", `lag_seconds{table}: 2x220 301x20`, `BridgeLag{table}`, 0},
	{"it lags by an hour", `lag_seconds{table}: 2x220 3600x20`, `BridgeLag{table}; BridgeLagHigh{table}`, 0},
	{"rows come late", `late_records_total{stream}: 0+60x180 10800+600x60`, `BridgeLateRows{stream}`, 0},
	{"few rows come, and a few of them late", `records_total{stream}: 0+2x240; late_records_total{stream}: 0+1x240`, "", 0},
	{"gaps take their memory", `gaps_bytes{table}: 1000x200 3700000x40`, `BridgeGapsAtBound{table}`, 0},
	{"a dead letter", `dead_letters_total{stream}: 7x230 8x10`, `BridgeDeadLetters{stream}`, 0},
	{"it catches up for an hour", `caught_up{stream}: 1x180 0x60`, `BridgeCatchUpLong{stream}`, 0},
	{"no reconcile ends", `reconcile_last_run_timestamp_seconds{table}: 0+60x100 6000x140`, `BridgeReconcileOverdue{table}`, 0},
	{"no reconcile has ended yet, an hour after the start", `reconcile_last_run_timestamp_seconds{table}: 0x240; process_start_time_seconds{bridge}: 10800x240`, "", 0},
	{"no reconcile has ended yet, an hour after a standby took over", `reconcile_last_run_timestamp_seconds{table}: 0x240; ` +
		`standby_working_since_seconds{group a}: 10800x240`,
		"", 0},
	{"no reconcile has ended since the start", `reconcile_last_run_timestamp_seconds{table}: 0x240`, `BridgeReconcileOverdue{table}`, 0},
	{"it was verified a day ago", `reconcile_verified_through_timestamp_seconds{table}: 3600x240`, `BridgeNotVerified{table}`, 32},
	{"it was never verified", `reconcile_verified_through_timestamp_seconds{table}: 0x240`, `BridgeNotVerified{table}`, 32},
	{"another process has taken over", `superseded{bridge}: 0x230 1x10`, `BridgeSuperseded{bridge}`, 0},
	{"the bus had messages before", `duplicate_acks_total{stream}: 7x230 9x10`, `BridgeDuplicateAcks{stream}`, 0},
	{"the bus had messages before that a killed process sent", `duplicate_acks_total{stream}: 7x230 9x10; process_start_time_seconds{bridge}: 13800x240`, "", 0},
	{"two work", `standby_working{group b}: 0x230 1x10`, `BridgeTwoWork{group}`, 0},
	{"a group of the same name in another namespace", `standby_working{job="bridge", namespace="test", instance="c:8080", group="orders"}: 1x240; ` +
		`standby_ready{job="bridge", namespace="test", instance="c:8080", group="orders"}: 1x240; standby_ready{job="bridge", namespace="test", instance="d:8080", group="orders"}: 1x240`,
		"", 0},
	{"a share with a group of its own", `standby_working{job="bridge", instance="c:8080", group="orders", share="2"}: 1x240; ` +
		`standby_ready{job="bridge", instance="c:8080", group="orders", share="2"}: 1x240; standby_ready{job="bridge", instance="d:8080", group="orders", share="2"}: 1x240`,
		"", 0},
	{"nobody works", `standby_working{group a}: 1x230 0x10`, `BridgeNobodyWorks{group}`, 0},
	{"no second process", `standby_ready{group b}: 1x180 stale`, `BridgeStandbyMissing{group}`, 0},
	{"the second process is not ready", `standby_ready{group b}: 1x200 0x40`, `BridgeStandbyMissing{group}`, 0},
	{"it differs", `standby_differing{group b}: 0x200 2x40`, `BridgeStandbyDiffers{group b}`, 0},
	{"events lose a member", `breaking_schema_changes_total{stream}: 1x230 2x10`, `BridgeEventsLoseMembers{stream}`, 0},
}

// The form of a file for `promtool test rules`.
type (
	ruleTests struct {
		RuleFiles          []string `yaml:"rule_files"`
		EvaluationInterval string   `yaml:"evaluation_interval"`
		Tests              []ruleTest
	}
	ruleTest struct {
		Name, Interval string
		Input          []inputSerie `yaml:"input_series"`
		Exprs          []exprTest   `yaml:"promql_expr_test"`
	}
	inputSerie struct{ Series, Values string }
	exprTest   struct {
		Expr    string
		At      string   `yaml:"eval_time"`
		Samples []sample `yaml:"exp_samples"`
	}
	sample struct {
		Labels string
		Value  float64
	}
)

// ruleCases returns the cases for promtool. Those of one length are one test, each with two jobs of
// its own, one with series by stream and one by table, and exactly their alerts fire at its end.
func ruleCases(t *testing.T) string {
	t.Helper()
	severities := make(map[string]string)
	for _, a := range alerts(t) {
		severities[a.Alert] = a.Labels["severity"]
	}
	file := ruleTests{RuleFiles: []string{"rules.yaml"}, EvaluationInterval: "5m"}
	for _, hours := range []int{4, 32} {
		test := ruleTest{Name: fmt.Sprintf("%d hours", hours), Interval: "1m"}
		firing := exprTest{Expr: `ALERTS{alertstate="firing"}`, At: fmt.Sprintf("%dh", hours)}
		for i := range alertCases {
			c := &alertCases[i]
			if max(4, c.hours) != hours {
				continue
			}
			for _, byShard := range []bool{false, true} {
				test.Input = append(test.Input, c.input(hours, byShard)...)
				for _, s := range c.samples(severities, byShard) {
					// Those of other jobs are the same.
					if !slices.Contains(firing.Samples, s) {
						firing.Samples = append(firing.Samples, s)
					}
				}
			}
		}
		test.Exprs = []exprTest{firing}
		file.Tests = append(file.Tests, test)
	}
	return marshal(t, file)
}

// named replaces the job by that of the case, and leaves out the table unless series are by shard.
func (c *alertCase) named(series string, byShard bool) string {
	job := "bridge: " + c.name
	if byShard {
		job += ", by shard"
	} else {
		series = strings.ReplaceAll(series, `, shard="orders_0"`, "")
	}
	return strings.ReplaceAll(series, `job="bridge"`, fmt.Sprintf("job=%q", job))
}

func (c *alertCase) input(hours int, byShard bool) (all []inputSerie) {
	series := seriesOf(steady)
	maps.Copy(series, seriesOf(c.set))
	for _, name := range slices.Sorted(maps.Keys(series)) {
		all = append(all, inputSerie{c.named(name, byShard), strings.ReplaceAll(series[name], "x240", fmt.Sprintf("x%d", 60*hours))})
	}
	return all
}

func (c *alertCase) samples(severities map[string]string, byShard bool) (all []sample) {
	for _, alert := range listed(c.fires) {
		name, labels, _ := strings.Cut(strings.TrimSuffix(alert, "}"), "{")
		all = append(all, sample{fmt.Sprintf(`ALERTS{alertname=%q, alertstate="firing", severity=%q, %s}`, name, severities[name], c.named(labels, byShard)), 1})
	}
	return all
}
