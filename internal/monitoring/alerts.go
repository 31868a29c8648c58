package monitoring

import "time"

// unlessWaiting leaves out processes that wait as a standby: they poll and compare nothing.
const unlessWaiting = "\nunless on (job, instance) bridge_standby_working == 0"

// begun is since when a process works: since its start, or since it took over.
const begun = `max by (job, instance) (bridge_standby_working_since_seconds or process_start_time_seconds)`

// table names what an alert is about, and some how many it is about: by default a series is that of
// a stream, and bridge status says which of its tables is meant.
const (
	table = "{{ with $labels.shard }}table {{ . }}{{ else }}a table{{ end }} of stream {{ $labels.stream }}"
	some  = "{{ with $labels.shard }}table {{ . }}{{ else }}{{ $value }} {{ if eq $value 1.0 }}table{{ else }}tables{{ end }}{{ end }} of stream {{ $labels.stream }}"
)

// Alerts are in the order in which a person would read them: what answers no more, what is away,
// what lags, what is wrong with the data.
var Alerts = []Alert{
	{
		Name: "BridgeAbsent", Severity: critical, For: 2 * time.Minute, Anchor: "bridge-does-not-answer",
		// A bridge may have any job; before its first answer it is known by the job's name, or by
		// the label of its pod.
		Expr: `up{job=~".*bridge.*"} == 0
or up{app_kubernetes_io_name="bridge"} == 0
or up == 0 and on (job, instance) count_over_time(bridge_build_info[1d]) > 0
or absent(up{job=~".*bridge.*"} or up{app_kubernetes_io_name="bridge"} or bridge_build_info)`,
		Summary: "bridge {{ $labels.instance }} does not answer",
		Description: `Prometheus cannot scrape it, or knows no bridge at all: nothing is published, or nobody would see it.
Look at the process (kubectl get pods, systemctl status bridge) and at the end of its log.`,
	},
	{
		Name: "BridgeStopped", Severity: critical, For: time.Minute, Anchor: "a-stream-is-stopped",
		Expr:    `bridge_shard_state{state="stopped"} > 0`,
		Summary: "stopped: " + some,
		Description: `A stopped table publishes nothing until a person acts; other tables go on.
Type bridge status: at its end it names each one, why it has stopped, and what to type.`,
	},
	{
		Name: "BridgeDegraded", Severity: critical, For: time.Minute, Anchor: "a-stream-is-degraded",
		Expr:    `bridge_reconcile_guard_tripped > 0`,
		Summary: "deletes held back: " + some,
		Description: `Suspiciously many entities are gone from the table, so no delete is published; all else goes on. Check that the table, which bridge status
names, is right. Type bridge reconcile --dry-run {{ $labels.stream }}, and with --allow-deletes instead if they are gone for good.`,
	},
	{
		Name: "BridgeSourceAway", Severity: critical, For: 2 * time.Minute, Anchor: "the-source-does-not-answer",
		Expr:    `bridge_dependency_up{dependency="source"} == 0`,
		Summary: "bridge {{ $labels.instance }} does not reach the database",
		Description: `Nothing is read until it answers; then bridge goes on by itself, and nothing is lost.
Check the server, the network and the login: bridge check says what is wrong.`,
	},
	{
		Name: "BridgeNotPolled", Severity: critical, For: 5 * time.Minute, Anchor: "the-source-does-not-answer",
		// One that was never read counts from when its process began to work, and has caught up.
		Expr: `time() - (
  bridge_last_successful_poll_timestamp_seconds > 0
  or (bridge_last_successful_poll_timestamp_seconds == 0) + on (job, instance) group_left () ` + begun + `
    and on (job, instance, stream) bridge_caught_up == 1
) > {10m}` + unlessWaiting,
		Summary: table + " was not read for {{ $value | humanizeDuration }}",
		Description: `New rows are not seen, and the lag is unknown. The database or the bus is away, or this table alone cannot be read.
Type bridge status: it names the table, and its last error says which.`,
	},
	{
		Name: "BridgeBusAway", Severity: critical, For: 2 * time.Minute, Anchor: "the-bus-does-not-answer",
		Expr:    `bridge_dependency_up{dependency="bus"} == 0`,
		Summary: "bridge {{ $labels.instance }} does not reach the bus",
		Description: `Nothing is published until it answers; then bridge goes on by itself, and nothing is lost.
Check brokers or servers, topics and the login: bridge check says what is wrong.`,
	},
	{
		Name: "BridgeGroupOrProgressAway", Severity: warning, For: 5 * time.Minute, Anchor: "the-bus-does-not-answer",
		Expr:    `bridge_dependency_up{dependency=~"standby group|progress on the bus"} == 0`,
		Summary: "bridge {{ $labels.instance }} cannot use the {{ $labels.dependency }}",
		Description: `Events may still be published. Without the group no other process takes over; without progress a start with an empty folder reads more.
Type bridge check: it names the topic, bucket or right that is missing.`,
	},
	{
		Name: "BridgeHeldUp", Severity: warning, For: 5 * time.Minute, Anchor: "the-bus-does-not-answer",
		Expr:    `bridge_held_up_by_transaction == 1`,
		Summary: "an open transaction holds up consumers and bridge {{ $labels.instance }}",
		Description: `A producer has left a transaction open at the end of a topic.
/readyz names the producer and the kafka-transactions.sh command that ends it.`,
	},
	{
		Name: "BridgeStoreAway", Severity: critical, For: 2 * time.Minute, Anchor: "the-store-is-away",
		Expr:    `bridge_dependency_up{dependency="checkpoint"} == 0`,
		Summary: "bridge {{ $labels.instance }} cannot write its checkpoint",
		Description: `Each table waits with the batch that it published last. The disk is full, read-only or hangs: the log names the folder.
Make room (df), and bridge goes on by itself; nothing is lost.`,
	},
	{
		Name: "BridgeLag", Severity: warning, For: 5 * time.Minute, Anchor: "lag-grows",
		Expr:    `bridge_lag_seconds > {5m}`,
		Summary: table + " lags by {{ $value | humanizeDuration }}",
		Description: `The oldest committed row that is not published is that old. Look for an outage first; else compare the rate of rows with the times
of publishes and reads on the board. bridge status has the lag of each table. A first start with a large table lags until it is done.`,
	},
	{
		Name: "BridgeLagHigh", Severity: critical, For: 5 * time.Minute, Anchor: "lag-grows",
		Expr:    `bridge_lag_seconds > {30m}`,
		Summary: table + " lags by {{ $value | humanizeDuration }}",
		Description: `The oldest committed row that is not published is that old: consumers see old data. Type bridge status: it has the lag of each table,
says what a table waits for, and how fast it goes.`,
	},
	{
		Name: "BridgeLateRows", Severity: warning, For: 15 * time.Minute, Anchor: "late-rows-grow",
		Expr: `sum by (job, instance, stream) (rate(bridge_late_records_total[15m]))
  > 0.05 * sum by (job, instance, stream) (rate(bridge_records_total[15m]))
and sum by (job, instance, stream) (increase(bridge_late_records_total[15m])) > 100`,
		Summary: "more than 5 % of the rows of stream {{ $labels.stream }} come late",
		Description: `Their transactions commit after rows with higher ids were published. Nothing is lost, but they come out of the order of ids.
Look for long transactions of the application, or set a larger STABILITY_WINDOW.`,
	},
	{
		Name: "BridgeGapsAtBound", Severity: warning, For: 15 * time.Minute, Anchor: "gaps-at-their-bound",
		Expr:    `bridge_gaps_bytes > on (job, instance) group_left () 0.9 * bridge_gaps_limit_bytes`,
		Summary: "the gaps of " + table + " take {{ $value | humanize1024 }}B",
		Description: `That is nearly all the memory that they may take; the rest is read from the checkpoint, which makes polls slower. Very many ids were never
inserted, bridge status says of which table: look for rolled-back inserts or an issuer that skips ids, or set a smaller GAP_TTL.`,
	},
	{
		Name: "BridgeDeadLetters", Severity: warning, Anchor: "dead-letters",
		Expr:    `increase(bridge_dead_letters_total[1h]) > 0`,
		Summary: "the bus refused messages of stream {{ $labels.stream }}",
		Description: `Consumers lack these events until they are sent again. bridge deadletter list shows the rows and why.
Mend the cause, mostly a limit of the message size, then type bridge deadletter resend.`,
	},
	{
		Name: "BridgeCatchUpLong", Severity: warning, For: 30 * time.Minute, Anchor: "catch-up-runs-long",
		Expr:    `bridge_caught_up == 0` + unlessWaiting,
		Summary: "stream {{ $labels.stream }} still reads the bus, and publishes nothing",
		Description: `A start reads what the checkpoint lacks before it polls. The log has the rest and an estimate every 10 s; bridge_catch_up_left must fall.
If it does not, /readyz says what it waits for.`,
	},
	{
		Name: "BridgeReconcileOverdue", Severity: warning, For: 15 * time.Minute, Anchor: "reconcile-is-overdue",
		// A process that has just begun to work gets the same time.
		Expr: `time() - (
  bridge_reconcile_last_run_timestamp_seconds > 0
  or (bridge_reconcile_last_run_timestamp_seconds == 0) + on (job, instance) group_left () ` + begun + `
) > on (job, instance, stream) group_left () (3 * bridge_reconcile_interval_seconds)
and on (job, instance, stream)
  3 * bridge_reconcile_interval_seconds < on (job, instance) group_left () (time() - ` + begun + `)` + unlessWaiting,
		Summary: "no reconcile of " + table + " has ended for {{ $value | humanizeDuration }}",
		Description: `Updates, deletes and missed rows that only a reconcile finds wait. bridge status shows for each table when one has
ended, how far the running one is, and its last error.
A table that takes longer needs a larger RECONCILE_INTERVAL or RECONCILE_RATE.`,
	},
	{
		Name: "BridgeNotVerified", Severity: info, For: 15 * time.Minute, Anchor: "reconcile-is-overdue",
		// What was never verified counts from when the process began to work.
		Expr: `time() - (
  bridge_reconcile_verified_through_timestamp_seconds > 0
  or (bridge_reconcile_verified_through_timestamp_seconds == 0) + on (job, instance) group_left () ` + begun + `
) > {1d}` + unlessWaiting,
		Summary: table + " has not been verified for {{ $value | humanizeDuration }}",
		Description: `Reconciles end, but cannot tell that all is published: the guard holds deletes back, or the source is a server that does not take the writes.
The status page says of which table, and why.`,
	},
	{
		Name: "BridgeSuperseded", Severity: critical, Anchor: "two-instances-run",
		Expr:    `bridge_superseded == 1`,
		Summary: "another bridge publishes the streams of {{ $labels.instance }}",
		Description: `This process publishes nothing any more. A second one was started with the same configuration, or from a copy of the checkpoint: the log
names both. End one of the two, and restart the one that is to go on.`,
	},
	{
		Name: "BridgeDuplicateAcks", Severity: warning, Anchor: "two-instances-run",
		// A start repeats what a kill has left.
		Expr: `increase(bridge_duplicate_acks_total[15m]) > 0
and on (job, instance) time() - process_start_time_seconds > {30m}`,
		Summary: "the bus had messages of stream {{ $labels.stream }} before this bridge sent them",
		Description: `Another process publishes the same events, or somebody publishes them again. bridge verify shows which messages are repeated.
Look for a second bridge with the same domain and stream.`,
	},
	{
		Name: "BridgeTwoWork", Severity: critical, For: time.Minute, Anchor: "two-instances-run",
		Expr:    `sum by (job, namespace, group) (bridge_standby_working) > 1`,
		Summary: "{{ $value }} processes of standby group {{ $labels.group }} work",
		Description: `Only one may. The bus refuses what the former one sends, so nothing is confused, but one of them should have ended.
Type bridge status on each, and end the one that its answer does not name.`,
	},
	{
		Name: "BridgeNobodyWorks", Severity: critical, For: time.Minute, Anchor: "a-standby-is-missing",
		Expr:        `sum by (job, namespace, group) (bridge_standby_working) < 1`,
		Summary:     "no process of standby group {{ $labels.group }} works",
		Description: `Nothing is published. The bus is away, or no process is ready to take over: /readyz of each says why.`,
	},
	{
		Name: "BridgeStandbyMissing", Severity: warning, For: 10 * time.Minute, Anchor: "a-standby-is-missing",
		Expr:    `sum by (job, namespace, group) (bridge_standby_ready) < 2`,
		Summary: "standby group {{ $labels.group }} has no second process that is ready",
		Description: `If the one that works ends now, nobody takes over at once. Start the missing process, or see in /readyz of the one that waits
what it lacks.`,
	},
	{
		Name: "BridgeStandbyDiffers", Severity: warning, For: 10 * time.Minute, Anchor: "a-standby-is-missing",
		Expr:    `bridge_standby_differing > 0`,
		Summary: "{{ $labels.instance }} has another configuration than its standby group {{ $labels.group }}",
		Description: `It is refused and does not take over. /readyz and the log name the variables: make them the same, or stop all processes and start them
with the new configuration.`,
	},
	{
		Name: "BridgeEventsLoseMembers", Severity: warning, Anchor: "columns-that-change",
		Expr:    `increase(bridge_breaking_schema_changes_total[1h]) > 0`,
		Summary: "events of stream {{ $labels.stream }} lost a member or gave it another type",
		Description: `A column was dropped, renamed or changed under the same EVENT_VERSION, and consumers may rely on it. The log says what each member was.
Change the table back, or set another EVENT_VERSION.`,
	},
}
