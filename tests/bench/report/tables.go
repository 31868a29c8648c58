package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Names of what publishes.
const (
	OurSink = "our sink"
	Library = "library"
)

// What BRIDGE_DELIVERY may be.
const (
	AtLeastOnce = "at-least-once"
	ExactlyOnce = "exactly-once"
)

// tables makes the tables of a report.
type tables struct{ *Report }

const deliveryNote = "The whole backlog, from the start of the process until it has counted all rows as acknowledged, both ways in each round; and the " +
	"latency of 1,000 rows a second with a window of 0 and a poll of 100 ms, for a consumer that reads committed messages."

// delivery is what exactly-once costs.
func (r tables) delivery() table {
	t := table{title: "Exactly once", words: 3, note: deliveryNote, head: []string{
		"stream", "bus", "delivery", "backlog, s", "rows/s", "CPU s per 10⁶ rows", "peak RssAnon, MiB", "p50, ms", "p99, ms",
	}}
	for _, c := range r.Cases(Delivery) {
		t.add(c.Kind, c.Bus, c.Delivery, r.spread(Delivery, c, Seconds, 2), r.median(Delivery, c, RowsASecond, 0), r.spread(Delivery, c, CPU, 2),
			r.median(Delivery, c, RssAnon, 1), r.median(Delivery, c, P50, 1), r.median(Delivery, c, P99, 1))
	}
	return t
}

// throughput compares the parts with the whole, in seconds.
func (r tables) throughput() table {
	t := table{title: "Throughput", words: 2, charts: []chart{r.throughputChart()}, head: []string{
		"stream", "bus", "scan S, s", "publish P: library, s", "publish P: our sink, s", "bridge T, s", "bridge, rows/s", "(S + P) / T",
	}}
	var sizes []string
	for _, c := range r.mains() {
		lib, own := c, c
		lib.Client, own.Client = Library, OurSink
		if size := r.median(Publish, Case{Rows: c.Rows, Kind: c.Kind}, BytesOfEvent, 0) + " bytes (" + c.Kind + ")"; !slices.Contains(sizes, size) {
			sizes = append(sizes, size)
		}
		t.add(c.Kind, c.Bus, r.spread(Scan, Case{Rows: c.Rows}, Seconds, 2), r.spread(Publish, lib, Seconds, 2), r.spread(Publish, own, Seconds, 2),
			r.spread(Bridge, c, Seconds, 2), r.median(Bridge, c, RowsASecond, 0), r.spread(Ratio, c, Times, 2))
	}
	t.note = fmt.Sprintf("%s rows of %s bytes, events of %s, rounds: %d, the parts one after the other in each, every time another one first.",
		number(float64(r.Rows), 0), r.median(Scan, Case{Rows: r.Rows}, BytesOfRow, 0), strings.Join(sizes, " and "), r.Rounds)
	return t
}

// mains are the cases of the main table.
func (r tables) mains() []Case {
	var mains []Case
	for _, c := range slices.Concat(r.Cases(Bridge), r.Cases(Publish), r.Cases(Profile)) {
		c.Client, c.Part = "", ""
		if c.Rows == r.Rows && c.Bus != "" && !slices.Contains(mains, c) {
			mains = append(mains, c)
		}
	}
	slices.SortStableFunc(mains, func(a, b Case) int { return cmp.Or(-cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Bus, b.Bus)) })
	if len(mains) == 0 && len(r.Cases(Scan)) > 0 {
		return []Case{{Rows: r.Rows}}
	}
	return mains
}

const costNote = "Of the process of bridge alone, and, for comparison, of one that only scans or only publishes. Allocations: all of the process, and " +
	"without those of a bare scan, which the driver makes before there is a page. The way from page to bus is the latter."

// cost is what bridge itself uses, and what publishing alone does.
func (r tables) cost() table {
	t := table{title: "Cost", words: 2, note: costNote, head: []string{
		"stream", "bus", "bridge, CPU s per 10⁶ rows", "scan", "library", "our sink", "peak RssAnon, MiB", "allocations a row: all", "page to bus",
		"bytes allocated a row",
	}}
	for _, c := range r.mains() {
		lib, own := c, c
		lib.Client, own.Client = Library, OurSink
		t.add(c.Kind, c.Bus, r.spread(Bridge, c, CPU, 2), r.median(Scan, Case{Rows: c.Rows}, CPU, 2), r.median(Publish, lib, CPU, 2),
			r.median(Publish, own, CPU, 2), r.spread(Bridge, c, RssAnon, 1), r.median(Bridge, c, Allocs, 2), r.median(Bridge, c, AllocsOnward, 2),
			r.median(Bridge, c, AllocBytes, 0))
	}
	return t
}

// profile is where the CPU goes.
func (r tables) profile() table {
	t := table{title: "Where the time goes", words: 2, charts: r.profileCharts(), head: append([]string{"stream", "bus"}, Parts...),
		note: "CPU-seconds of the process of bridge per 10⁶ rows, by a profile of one run of its own, so their sum is not that of the table above. " +
			"The garbage collector is its work in the background; where an allocation has to help it, that counts for the code that allocates."}
	for _, c := range r.mains() {
		cells := []string{c.Kind, c.Bus}
		for _, part := range Parts {
			c.Part = part
			cells = append(cells, r.median(Profile, c, CPU, 2))
		}
		t.add(cells...)
	}
	return t
}

// latency is from commit to consumer.
func (r tables) latency() table {
	t := table{title: "Latency", words: 4, charts: r.latencyCharts(), note: fmt.Sprintf("From the answer to the writer's COMMIT until a consumer has the message, in ms; p99.9 of %s rows or more.",
		number(RowsForP999, 0)), head: []string{"stream", "bus", "window", "poll", "rows/s", "written, rows/s", "p50", "p99", "p99.9", "max"}}
	for _, c := range r.Cases(Latency) {
		t.add(c.Kind, c.Bus, c.Window, c.Poll, number(float64(c.Rate), 0), r.median(Latency, c, Reached, 0), r.median(Latency, c, P50, 1),
			r.median(Latency, c, P99, 1), r.median(Latency, c, P999, 1), r.median(Latency, c, Worst, 1))
	}
	return t
}

const growthNote = "The whole backlog by bridge, and then a reconcile of the table, which finds no difference. Steady is from the first message seen on " +
	"the bus to the last, which is how sizes compare: from its start a small table counts the start of the process, too. What the scan loses with the " +
	"size is the database's."

// growth is what the size of the table changes.
func (r tables) growth() table {
	t := table{title: "Growth", words: 2, note: growthNote, head: []string{
		"stream", "bus", "rows", "bare scan, rows/s", "bridge, steady, rows/s", "from its start, rows/s", "peak RssAnon, MiB", "reconcile, rows/s", "of the bare scan",
	}}
	cases := bySize(r.Cases(Bridge))
	if len(r.Cases(Reconcile)) == 0 && !slices.ContainsFunc(cases, func(c Case) bool { return c.Rows != r.Rows }) {
		return t
	}
	t.charts = []chart{r.growthChart(cases)}
	for _, c := range cases {
		t.add(c.Kind, c.Bus, number(float64(c.Rows), 0), r.spread(Scan, Case{Rows: c.Rows}, RowsASecond, 0), r.spread(Bridge, c, SteadyRate, 0),
			r.median(Bridge, c, RowsASecond, 0), r.median(Bridge, c, RssAnon, 1), r.spread(Reconcile, c, RowsASecond, 0), r.median(Reconcile, c, OfTheScan, 2))
	}
	return t
}

// bySize sorts cases by kind, bus and size.
func bySize(cases []Case) []Case {
	slices.SortStableFunc(cases, func(a, b Case) int {
		return cmp.Or(-cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Bus, b.Bus), cmp.Compare(a.Rows, b.Rows))
	})
	return cases
}

const recoveryNote = "The same program is killed, its checkpoint removed, and it is started again: it reads from the bus what it has published, and " +
	"publishes nothing again. Messages a second are those of the reading, the time is from the start of the process until all rows of the table are seen to."

// recovery is what a lost checkpoint costs.
func (r tables) recovery() table {
	t := table{title: "A lost checkpoint", words: 2, note: recoveryNote, head: []string{"stream", "bus", "messages", "messages/s", "until all is as before, s", "peak RssAnon, MiB"}}
	for _, c := range r.Cases(Recovery) {
		t.add(c.Kind, c.Bus, number(float64(c.Rows), 0), r.spread(Recovery, c, MessagesASecond, 0), r.spread(Recovery, c, Seconds, 2), r.spread(Recovery, c, RssAnon, 1))
	}
	return t
}

// busy is what many tables cost that get a few rows each.
func (r tables) busy() table {
	t := table{title: "Busy tables", words: 0, note: "Release streams to JetStream with the default poll of 200 ms. Statements are those of bridge; the CPU of the database has the writer's in it.", head: []string{
		"tables", "rows/s each", "window", "CPU, % of a core", "CPU of the database", "statements a second", "RssAnon, MiB", "written, rows/s", "p50, ms", "p99, ms",
	}}
	for _, c := range r.Cases(Busy) {
		t.add(number(float64(c.Shards), 0), number(float64(c.Rate), 0), c.Window, r.median(Busy, c, CPUShare, 0), r.median(Busy, c, DatabaseCPU, 0),
			r.median(Busy, c, StatementsA, 0), r.median(Busy, c, RssAnon, 0), r.median(Busy, c, Reached, 0), r.median(Busy, c, P50, 0), r.median(Busy, c, P99, 0))
	}
	return t
}

// idle is what quiet tables cost.
func (r tables) idle() table {
	t := table{title: "Idle cost", words: 0, charts: []chart{r.idleChart()}, note: "Release streams to JetStream with the default poll of 200 ms, no new rows.", head: []string{"quiet shards", "CPU, % of a core", "CPU of the database", "statements a second", "RssAnon, MiB", "goroutines", "until ready, s", "metric series", "a scrape, ms", "started again: CPU, % of a core", "until ready, s"}}
	for _, c := range r.Cases(Idle) {
		t.rows = append(t.rows, []string{number(float64(c.Shards), 0), r.median(Idle, c, CPUShare, 2), r.median(Idle, c, DatabaseCPU, 1), r.median(Idle, c, StatementsA, 1),
			r.median(Idle, c, RssAnon, 1), r.median(Idle, c, Goroutines, 0), r.median(Idle, c, ToReady, 1), r.median(Idle, c, Series, 0), r.median(Idle, c, ScrapeTime, 0),
			r.median(Idle, c, CPUShareAgain, 2), r.median(Idle, c, ToReadyAgain, 1)})
	}
	return t
}
