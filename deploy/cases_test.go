package deploy_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// labels of the series of a bridge, a stream and a table of it.
const (
	ofBridge = `job="bridge", instance="a:8080"`
	ofStream = ofBridge + `, stream="orders"`
	ofTable  = ofStream + `, shard="orders_0"`
	ofGroup  = `job="bridge", group="orders"`
)

// steady are the series of a bridge and its standby for four hours, a value a minute, in which
// nothing is wrong: the standby has no lag, no poll and no reconcile, and has not caught up.
var steady = map[string]string{
	`up{` + ofBridge + `}`: "1x240", `up{job="bridge", instance="b:8080"}`: "1x240",
	`bridge_build_info{` + ofBridge + `, version="v1"}`:                                      "1x240",
	`process_start_time_seconds{` + ofBridge + `}`:                                           "0x240",
	`process_start_time_seconds{job="bridge", instance="b:8080"}`:                            "0x240",
	`bridge_dependency_up{` + ofBridge + `, dependency="source"}`:                            "1x240",
	`bridge_dependency_up{` + ofBridge + `, dependency="bus"}`:                               "1x240",
	`bridge_dependency_up{` + ofBridge + `, dependency="checkpoint"}`:                        "1x240",
	`bridge_dependency_up{` + ofBridge + `, dependency="standby group"}`:                     "1x240",
	`bridge_dependency_up{` + ofBridge + `, dependency="progress on the bus"}`:               "1x240",
	`bridge_held_up_by_transaction{` + ofBridge + `}`:                                        "0x240",
	`bridge_superseded{` + ofBridge + `}`:                                                    "0x240",
	`bridge_shard_state{` + ofTable + `, state="running"}`:                                   "1x240",
	`bridge_shard_state{` + ofTable + `, state="stopped"}`:                                   "0x240",
	`bridge_lag_seconds{` + ofTable + `}`:                                                    "2x240",
	`bridge_paused_since_timestamp_seconds{` + ofTable + `}`:                                 "0x240",
	`bridge_lag_seconds{job="bridge", instance="b:8080", stream="orders", shard="orders_0"}`: "_x236 NaN NaN NaN NaN NaN",
	`bridge_last_successful_poll_timestamp_seconds{` + ofTable + `}`:                         "0+60x240",
	`bridge_last_successful_poll_timestamp_seconds{` + ofTableOf("b:8080") + `}`:             "0x240",
	`bridge_records_total{` + ofStream + `}`:                                                 "0+6000x240",
	`bridge_late_records_total{` + ofStream + `}`:                                            "0+60x240",
	`bridge_dead_letters_total{` + ofStream + `}`:                                            "7x240",
	`bridge_duplicate_acks_total{` + ofStream + `}`:                                          "7x240",
	`bridge_breaking_schema_changes_total{` + ofStream + `}`:                                 "1x240",
	`bridge_gaps_bytes{` + ofTable + `}`:                                                     "1000x240",
	`bridge_gaps_limit_bytes{` + ofBridge + `}`:                                              "4000000x240",
	`bridge_caught_up{` + ofStream + `}`:                                                     "1x240",
	`bridge_caught_up{job="bridge", instance="b:8080", stream="orders"}`:                     "0x240",
	`bridge_reconcile_guard_tripped{` + ofTable + `}`:                                        "0x240",
	`bridge_reconcile_interval_seconds{` + ofStream + `}`:                                    "1800x240",
	`bridge_reconcile_interval_seconds{job="bridge", instance="b:8080", stream="orders"}`:    "1800x240",
	`bridge_reconcile_last_run_timestamp_seconds{` + ofTable + `}`:                           "0+60x240",
	`bridge_reconcile_last_run_timestamp_seconds{` + ofTableOf("b:8080") + `}`:               "0x240",
	`bridge_reconcile_verified_through_timestamp_seconds{` + ofTable + `}`:                   "0+60x240",
	`bridge_reconcile_verified_through_timestamp_seconds{` + ofTableOf("b:8080") + `}`:       "0x240",
	`bridge_standby_working{` + ofGroupOf("a:8080") + `}`:                                    "1x240",
	`bridge_standby_working{` + ofGroupOf("b:8080") + `}`:                                    "0x240",
	`bridge_standby_ready{` + ofGroupOf("a:8080") + `}`:                                      "1x240",
	`bridge_standby_ready{` + ofGroupOf("b:8080") + `}`:                                      "1x240",
	`bridge_standby_differing{` + ofGroupOf("a:8080") + `}`:                                  "0x240",
	`bridge_standby_differing{` + ofGroupOf("b:8080") + `}`:                                  "0x240",
}

func ofTableOf(instance string) string {
	return fmt.Sprintf(`job="bridge", instance=%q, stream="orders", shard="orders_0"`, instance)
}

func ofGroupOf(instance string) string {
	return fmt.Sprintf(`job="bridge", instance=%q, group="orders"`, instance)
}

// alertCase is what differs from steady, and the alerts that fire then, without their severity. Its
// name is that of its job, too.
type alertCase struct {
	name  string
	set   map[string]string
	fires []string
	// hours is how long all stays as it is in steady; 4 by default.
	hours int
}

// gone is a series that ended an hour before the end.
const gone = "1x180 stale"

var alertCases = []alertCase{
	{name: "nothing is wrong"},
	{"it does not answer", map[string]string{`up{` + ofBridge + `}`: "1x230 0x10"}, []string{`BridgeAbsent{` + ofBridge + `}`}, 0},
	{"one of another job does not answer any more", map[string]string{
		`up{job="shop", instance="c:1"}`: "1x180 0x60", `bridge_build_info{job="shop", instance="c:1", version="v1"}`: gone,
		`up{job="shop", instance="other:1"}`: "0x240",
	}, []string{`BridgeAbsent{job="shop", instance="c:1"}`}, 0},
	{"a pod does not answer, under the job of all pods", map[string]string{`up{job="pods", app_kubernetes_io_name="bridge", instance="c:8080"}`: "0x240"},
		[]string{`BridgeAbsent{job="pods", app_kubernetes_io_name="bridge", instance="c:8080"}`}, 0},
	{"a table is stopped", map[string]string{`bridge_shard_state{` + ofTable + `, state="stopped"}`: "0x230 1x10", `bridge_last_successful_poll_timestamp_seconds{` + ofTable + `}`: "0+60x180" + strings.Repeat(" NaN", 60)},
		[]string{`BridgeStopped{` + ofTable + `, state="stopped"}`}, 0},
	{"three tables are stopped", map[string]string{`bridge_shard_state{` + ofTable + `, state="stopped"}`: "0x230 3x10"}, []string{`BridgeStopped{` + ofTable + `, state="stopped"}`}, 0},
	{"a table is paused for hours", map[string]string{
		`bridge_paused_since_timestamp_seconds{` + ofTable + `}`: "0x100 6000x140", `bridge_lag_seconds{` + ofTable + `}`: "2x100" + strings.Repeat(" NaN", 140), `bridge_last_successful_poll_timestamp_seconds{` + ofTable + `}`: "0+60x100" + strings.Repeat(" NaN", 140),
	}, []string{`BridgePaused{` + ofTable + `}`}, 0},
	{"a table is paused", map[string]string{`bridge_paused_since_timestamp_seconds{` + ofTable + `}`: "0x220 13200x20"}, nil, 0},
	{"the guard holds deletes of two tables back", map[string]string{`bridge_reconcile_guard_tripped{` + ofTable + `}`: "0x230 2x10"}, []string{`BridgeDegraded{` + ofTable + `}`}, 0},
	{"the guard holds deletes back", map[string]string{`bridge_reconcile_guard_tripped{` + ofTable + `}`: "0x230 1x10"}, []string{`BridgeDegraded{` + ofTable + `}`}, 0},
	{"the source is away", map[string]string{`bridge_dependency_up{` + ofBridge + `, dependency="source"}`: "1x230 0x10"}, []string{`BridgeSourceAway{` + ofBridge + `, dependency="source"}`}, 0},
	{"a table is not read", map[string]string{`bridge_last_successful_poll_timestamp_seconds{` + ofTable + `}`: "0+60x200 12000x40"}, []string{`BridgeNotPolled{` + ofTable + `}`}, 0},
	{"a table was never read", map[string]string{`bridge_last_successful_poll_timestamp_seconds{` + ofTable + `}`: "0x240"}, []string{`BridgeNotPolled{` + ofTable + `}`}, 0},
	{"a table was not read yet", map[string]string{`bridge_last_successful_poll_timestamp_seconds{` + ofTable + `}`: "0x240", `process_start_time_seconds{` + ofBridge + `}`: "14100x240"}, nil, 0},
	{"a table is not read while its stream catches up", map[string]string{
		`bridge_last_successful_poll_timestamp_seconds{` + ofTable + `}`: "0x240", `bridge_caught_up{` + ofStream + `}`: "1x225 0x15",
	}, nil, 0},
	{"the bus is away", map[string]string{`bridge_dependency_up{` + ofBridge + `, dependency="bus"}`: "1x230 0x10"}, []string{`BridgeBusAway{` + ofBridge + `, dependency="bus"}`}, 0},
	{"group and progress are away", map[string]string{
		`bridge_dependency_up{` + ofBridge + `, dependency="standby group"}`: "1x230 0x10", `bridge_dependency_up{` + ofBridge + `, dependency="progress on the bus"}`: "1x230 0x10",
	}, []string{`BridgeGroupOrProgressAway{` + ofBridge + `, dependency="progress on the bus"}`, `BridgeGroupOrProgressAway{` + ofBridge + `, dependency="standby group"}`}, 0},
	{"a transaction is open", map[string]string{`bridge_held_up_by_transaction{` + ofBridge + `}`: "0x230 1x10"}, []string{`BridgeHeldUp{` + ofBridge + `}`}, 0},
	{"the disk is full", map[string]string{`bridge_dependency_up{` + ofBridge + `, dependency="checkpoint"}`: "1x230 0x10"}, []string{`BridgeStoreAway{` + ofBridge + `, dependency="checkpoint"}`}, 0},
	{"it lags by minutes", map[string]string{`bridge_lag_seconds{` + ofTable + `}`: "2x220 301x20"}, []string{`BridgeLag{` + ofTable + `}`}, 0},
	{"it lags by an hour", map[string]string{`bridge_lag_seconds{` + ofTable + `}`: "2x220 3600x20"}, []string{`BridgeLag{` + ofTable + `}`, `BridgeLagHigh{` + ofTable + `}`}, 0},
	{"rows come late", map[string]string{`bridge_late_records_total{` + ofStream + `}`: "0+60x180 10800+600x60"}, []string{`BridgeLateRows{` + ofStream + `}`}, 0},
	{"few rows come, and a few of them late", map[string]string{`bridge_records_total{` + ofStream + `}`: "0+2x240", `bridge_late_records_total{` + ofStream + `}`: "0+1x240"}, nil, 0},
	{"gaps take their memory", map[string]string{`bridge_gaps_bytes{` + ofTable + `}`: "1000x200 3700000x40"}, []string{`BridgeGapsAtBound{` + ofTable + `}`}, 0},
	{"a dead letter", map[string]string{`bridge_dead_letters_total{` + ofStream + `}`: "7x230 8x10"}, []string{`BridgeDeadLetters{` + ofStream + `}`}, 0},
	{"it catches up for an hour", map[string]string{`bridge_caught_up{` + ofStream + `}`: "1x180 0x60"}, []string{`BridgeCatchUpLong{` + ofStream + `}`}, 0},
	{"no reconcile ends", map[string]string{`bridge_reconcile_last_run_timestamp_seconds{` + ofTable + `}`: "0+60x100 6000x140"}, []string{`BridgeReconcileOverdue{` + ofTable + `}`}, 0},
	{"no reconcile has ended yet, an hour after the start", map[string]string{`bridge_reconcile_last_run_timestamp_seconds{` + ofTable + `}`: "0x240", `process_start_time_seconds{` + ofBridge + `}`: "10800x240"}, nil, 0},
	{"no reconcile has ended yet, an hour after a standby took over", map[string]string{
		`bridge_reconcile_last_run_timestamp_seconds{` + ofTable + `}`: "0x240", `bridge_standby_working_since_seconds{` + ofGroupOf("a:8080") + `}`: "10800x240",
	}, nil, 0},
	{"no reconcile has ended since the start", map[string]string{`bridge_reconcile_last_run_timestamp_seconds{` + ofTable + `}`: "0x240"}, []string{`BridgeReconcileOverdue{` + ofTable + `}`}, 0},
	{name: "it was verified a day ago", set: map[string]string{`bridge_reconcile_verified_through_timestamp_seconds{` + ofTable + `}`: "3600x240"}, hours: 32, fires: []string{`BridgeNotVerified{` + ofTable + `}`}},
	{name: "it was never verified", set: map[string]string{`bridge_reconcile_verified_through_timestamp_seconds{` + ofTable + `}`: "0x240"}, hours: 32, fires: []string{`BridgeNotVerified{` + ofTable + `}`}},
	{"another process has taken over", map[string]string{`bridge_superseded{` + ofBridge + `}`: "0x230 1x10"}, []string{`BridgeSuperseded{` + ofBridge + `}`}, 0},
	{"the bus had messages before", map[string]string{`bridge_duplicate_acks_total{` + ofStream + `}`: "7x230 9x10"}, []string{`BridgeDuplicateAcks{` + ofStream + `}`}, 0},
	{"the bus had messages before that a killed process sent", map[string]string{`bridge_duplicate_acks_total{` + ofStream + `}`: "7x230 9x10", `process_start_time_seconds{` + ofBridge + `}`: "13800x240"}, nil, 0},
	{"two work", map[string]string{`bridge_standby_working{` + ofGroupOf("b:8080") + `}`: "0x230 1x10"}, []string{`BridgeTwoWork{` + ofGroup + `}`}, 0},
	{"a group of the same name in another namespace", map[string]string{
		`bridge_standby_working{job="bridge", namespace="test", instance="c:8080", group="orders"}`: "1x240", `bridge_standby_ready{job="bridge", namespace="test", instance="c:8080", group="orders"}`: "1x240",
		`bridge_standby_ready{job="bridge", namespace="test", instance="d:8080", group="orders"}`: "1x240",
	}, nil, 0},
	{"a share with a group of its own", map[string]string{
		`bridge_standby_working{job="bridge", instance="c:8080", group="orders", share="2"}`: "1x240", `bridge_standby_ready{job="bridge", instance="c:8080", group="orders", share="2"}`: "1x240",
		`bridge_standby_ready{job="bridge", instance="d:8080", group="orders", share="2"}`: "1x240",
	}, nil, 0},
	{"nobody works", map[string]string{`bridge_standby_working{` + ofGroupOf("a:8080") + `}`: "1x230 0x10"}, []string{`BridgeNobodyWorks{` + ofGroup + `}`}, 0},
	{"no second process", map[string]string{`bridge_standby_ready{` + ofGroupOf("b:8080") + `}`: gone}, []string{`BridgeStandbyMissing{` + ofGroup + `}`}, 0},
	{"the second process is not ready", map[string]string{`bridge_standby_ready{` + ofGroupOf("b:8080") + `}`: "1x200 0x40"}, []string{`BridgeStandbyMissing{` + ofGroup + `}`}, 0},
	{"it differs", map[string]string{`bridge_standby_differing{` + ofGroupOf("b:8080") + `}`: "0x200 2x40"}, []string{`BridgeStandbyDiffers{` + ofGroupOf("b:8080") + `}`}, 0},
	{"events lose a member", map[string]string{`bridge_breaking_schema_changes_total{` + ofStream + `}`: "1x230 2x10"}, []string{`BridgeEventsLoseMembers{` + ofStream + `}`}, 0},
}

// The form of a file for `promtool test rules`.
type (
	ruleTests struct {
		RuleFiles          []string   `yaml:"rule_files"`
		EvaluationInterval string     `yaml:"evaluation_interval"`
		Tests              []ruleTest `yaml:"tests"`
	}
	ruleTest struct {
		Name     string       `yaml:"name"`
		Interval string       `yaml:"interval"`
		Input    []inputSerie `yaml:"input_series"`
		Exprs    []exprTest   `yaml:"promql_expr_test"`
	}
	inputSerie struct {
		Series string `yaml:"series"`
		Values string `yaml:"values"`
	}
	exprTest struct {
		Expr    string   `yaml:"expr"`
		At      string   `yaml:"eval_time"`
		Samples []sample `yaml:"exp_samples"`
	}
	sample struct {
		Labels string  `yaml:"labels"`
		Value  float64 `yaml:"value"`
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
	series := maps.Clone(steady)
	maps.Copy(series, c.set)
	for _, name := range slices.Sorted(maps.Keys(series)) {
		all = append(all, inputSerie{c.named(name, byShard), strings.ReplaceAll(series[name], "x240", fmt.Sprintf("x%d", 60*hours))})
	}
	return all
}

func (c *alertCase) samples(severities map[string]string, byShard bool) (all []sample) {
	for _, alert := range c.fires {
		name, labels, _ := strings.Cut(strings.TrimSuffix(alert, "}"), "{")
		all = append(all, sample{fmt.Sprintf(`ALERTS{alertname=%q, alertstate="firing", severity=%q, %s}`, name, severities[name], c.named(labels, byShard)), 1})
	}
	return all
}
