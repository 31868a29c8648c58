package report

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// The lines of a page between which the figures of the peers stand.
const (
	PeersBegin = "<!-- peers: written by make bench-peers, do not edit -->"
	PeersEnd   = "<!-- end of peers -->"
)

// PeersFile holds the figures of the peers, in a folder beside others.
const PeersFile = "peers.json"

const peersNote = `One table, filled an hour ago by its clock, of rows of some 300 bytes; one process a program, all on the machine of the servers. *Backlog*: from the ` +
	`start of the process until the bus holds a message for each row, and the rate once a tenth is there. *Steady*: 1,000 rows a second, from the answer to COMMIT ` +
	`until a consumer has the message. *Late rows*: 24 writers whose transactions stay open up to three seconds beside four quick ones; a row is late if a higher id was ` +
	`committed before it, and lost if it has not come 10 s after the last one that came.`

const unfairNote = `What is unfair to whom. To bridge: it looks up ids that were not seen, waits for a stability window of 1 s by default, keeps what it published on disk, and its events name their ` +
	`row, predecessor and position, in JSON and headers. To Debezium: a JVM starts within each time, which a daemon does once; it sees each change of a row, where bridge sees states; it needs a binlog, whose ` +
	`writing all of them bear here. To Kafka Connect: it starts a JVM, too, and one worker serves many connectors. Memory is RssAnon, which counts a heap that was never given back; no heap has a limit, so a JVM may take a quarter of the machine's memory. *As shipped* ` +
	`is what each project starts with; the tuned settings are in ` + "`tests/bench/peers`" + `, and bridge's are named in its row.`

// PeersMarkdown returns the tables of bridge beside its peers, with a chart.
func (r *Report) PeersMarkdown() string {
	var b strings.Builder
	b.WriteString(r.origin())
	for _, why := range r.Missing {
		fmt.Fprintf(&b, "%s.\n", why)
	}
	if r.Replaced != "" {
		b.WriteString("\n" + r.Replaced + ".\n")
	}
	b.WriteString("\n" + peersNote + "\n")
	for _, t := range []table{tables{r}.peersBacklog(), tables{r}.peersSteady(), tables{r}.peersLate()} {
		if len(t.rows) == 0 {
			continue
		}
		fmt.Fprintf(&b, "\n### %s\n\n", t.title)
		t.write(&b)
		for _, c := range t.charts {
			c.write(&b)
		}
	}
	b.WriteString("\n" + unfairNote + "\n")
	return b.String()
}

// byBus returns the cases of an item by their bus; peers stay in the order of their first figure.
func (r tables) byBus(item string) []Case {
	cases := r.Cases(item)
	var clients []string
	for _, c := range cases {
		if !slices.Contains(clients, c.Client) {
			clients = append(clients, c.Client)
		}
	}
	slices.Sort(clients)
	slices.SortStableFunc(cases, func(a, b Case) int {
		return cmp.Or(cmp.Compare(a.Bus, b.Bus), cmp.Compare(slices.Index(clients, a.Client), slices.Index(clients, b.Client)))
	})
	return cases
}

func (r tables) peersBacklog() table {
	t := table{title: "A backlog of " + number(float64(r.Rows), 0) + " rows", words: 2, head: []string{
		"bus", "program", "time, s", "rows/s when it runs", "CPU s per 10⁶ rows", "peak RssAnon, MiB", "bytes on the bus a row", "start to first event, s",
	}}
	for _, c := range r.byBus(PeerBacklog) {
		t.add(c.Bus, c.Client, r.spread(PeerBacklog, c, Seconds, 1), r.median(PeerBacklog, c, SteadyRate, 0), r.spread(PeerBacklog, c, CPU, 1), r.spread(PeerBacklog, c, RssAnon, 0),
			r.median(PeerBacklog, c, BytesOnBus, 0), r.spread(PeerFirst, c, Seconds, 2))
	}
	if cases := r.byBus(PeerBacklog); len(cases) > 0 {
		drawn := chart{title: number(float64(r.Rows), 0) + " rows", unit: "seconds"}
		for _, c := range cases {
			if f, ok := r.Get(PeerBacklog, c, Seconds); ok && c.Bus != "kafka, 1 partition" {
				drawn.add(c.Bus+": "+c.Client, f.Median)
			}
		}
		t.charts = []chart{drawn}
	}
	return t
}

func (r tables) peersSteady() table {
	t := table{title: "1,000 rows a second", words: 2, head: []string{"bus", "program", "p50, ms", "p99, ms", "CPU, % of a core", "RssAnon, MiB", "written, rows/s"}}
	for _, c := range r.byBus(PeerSteady) {
		t.add(c.Bus, c.Client, r.spread(PeerSteady, c, P50, 1), r.spread(PeerSteady, c, P99, 1), r.spread(PeerSteady, c, CPUShare, 0), r.median(PeerSteady, c, RssAnon, 0),
			r.median(PeerSteady, c, Reached, 0))
	}
	return t
}

func (r tables) peersLate() table {
	t := table{title: "Rows that commit late", words: 2, head: []string{"bus", "program", "late rows", "lost", "p50 from commit, ms", "p99, ms"}}
	for _, c := range r.byBus(PeerLate) {
		t.add(c.Bus, c.Client, r.spread(PeerLate, c, LateRows, 0), r.spread(PeerLate, c, Lost, 0), r.median(PeerLate, c, P50, 0), r.median(PeerLate, c, P99, 0))
	}
	return t
}

// PeersSummary is what the README shows: one bus, one row a program.
func (r *Report) PeersSummary(bus string) string { return tables{r}.peersSummary(bus) }

func (r tables) peersSummary(bus string) string {
	t := table{words: 1, head: []string{
		"program", number(float64(r.Rows), 0) + " rows, s", "CPU s", "peak memory, MiB", "bytes a row", "p50 / p99 at 1,000 rows/s, ms", "late rows lost",
	}}
	for _, c := range r.byBus(PeerLate) {
		if c.Bus != bus {
			continue
		}
		scale := float64(r.Rows) / 1e6
		cpu := missing
		if f, ok := r.Get(PeerBacklog, c, CPU); ok {
			cpu = number(f.Median*scale, 1)
		}
		latency := missing
		if _, ok := r.Get(PeerSteady, c, P50); ok {
			latency = r.median(PeerSteady, c, P50, 0) + " / " + r.median(PeerSteady, c, P99, 0)
		}
		t.add(c.Client, r.spread(PeerBacklog, c, Seconds, 1), cpu, r.median(PeerBacklog, c, RssAnon, 0), r.median(PeerBacklog, c, BytesOnBus, 0), latency,
			r.median(PeerLate, c, Lost, 0)+" of "+r.median(PeerLate, c, LateRows, 0))
	}
	var b strings.Builder
	t.write(&b)
	fmt.Fprintf(&b, "\nTo %s, on %s, on %d cores (%s): bridge %s, %s; medians of %d rounds in turns.\n",
		bus, r.Began.UTC().Format("2006-01-02"), r.Machine.Cores, r.Machine.CPU, r.Version, r.versions(), r.Rounds)
	return b.String()
}

// ReadPeers returns the recorded figures of the peers of a tree.
func ReadPeers(top string) (*Report, error) {
	return Read(filepath.Join(top, "docs", "performance", PeersFile))
}

// Replace takes the items that o has measured for those of r, and notes where they come from.
func (r *Report) Replace(o *Report) {
	var items []string
	for _, f := range o.Figures {
		if !slices.Contains(items, f.Item) {
			items = append(items, f.Item)
		}
	}
	r.Figures = slices.DeleteFunc(r.Figures, func(f Figure) bool { return slices.Contains(items, f.Item) })
	r.Figures = append(r.Figures, o.Figures...)
	r.Replaced = fmt.Sprintf("Measured again later (%s): bridge %s, %s UTC, on %s; the load before the run was %.1f",
		strings.ReplaceAll(strings.Join(items, ", "), "peers: ", ""), o.Version, o.Began.UTC().Format("2006-01-02 15:04"), o.Machine.CPU, o.Load)
}

// WritePeers writes the figures of the peers into folder.
func (r *Report) WritePeers(folder string) error { return r.writeFile(folder, PeersFile) }

// RecordPeers writes the figures of the peers into the README and docs/performance.md of a tree.
func (r *Report) RecordPeers(top string) error {
	if err := r.WritePeers(filepath.Join(top, "docs", "performance")); err != nil {
		return err
	}
	return errors.Join(
		Record(filepath.Join(top, "README.md"), PeersBegin, PeersEnd, r.PeersSummary("kafka, 8 partitions")),
		Record(filepath.Join(top, "docs", "performance.md"), PeersBegin, PeersEnd, r.PeersMarkdown()))
}
