package bench

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"bridge/event"
	"bridge/tests/bench/report"
	"bridge/tests/testall"
	"bridge/tests/testenv"
)

// largePlan says how much is measured of large tables.
type largePlan struct {
	plan
	// sizes are the rows of tables for a release stream, entities those for a capability stream.
	sizes, entities []int
}

var largeFlags = struct{ sizes, entities *string }{
	sizes:    flag.String("sizes", "1000000,10000000,100000000", "of large tables, rows for a release stream, with commas"),
	entities: flag.String("entities", "1000000,10000000", "of large tables, entities for a capability stream, with commas"),
}

// TestLarge is `make bench-large`: it measures bridge with large tables. No figure is judged.
func TestLarge(t *testing.T) {
	if os.Getenv("BRIDGE_TEST_BENCH") == "" {
		t.Skip("part of `make bench-large`")
	}
	p := largePlan{plan: plan{rounds: 3, static: true, bufferPool: poolFor(report.MemoryBytes()), out: os.Stderr}}
	if *flags.rounds > 0 {
		p.rounds = *flags.rounds
	}
	var err error
	if p.sizes, err = numbers("sizes", *largeFlags.sizes); err != nil {
		t.Fatal(err)
	}
	if p.entities, err = numbers("entities", *largeFlags.entities); err != nil {
		t.Fatal(err)
	}
	r := runLarge(t, p)
	if err := r.WriteLarge(*flags.out); err != nil {
		t.Fatal(err)
	}
	os.Stdout.WriteString("\n" + r.LargeMarkdown() + "\nin " + *flags.out + "\n")
	if *flags.docs {
		if err := r.RecordLarge(top()); err != nil {
			t.Fatal(err)
		}
	}
}

// TestLargeHarness shows that what measures large tables works with small ones.
func TestLargeHarness(t *testing.T) {
	testall.Long(t)
	r := runLarge(t, largePlan{plan: plan{rounds: 2, out: t.Output()}, sizes: []int{3000, 6000}, entities: []int{3000, 6000}})
	for _, item := range []string{report.Bridge, report.Reconcile, report.Restart} {
		if got := len(r.Cases(item)); got != 4 {
			t.Errorf("%d cases of %s, want 4", got, item)
		}
	}
	for _, f := range r.Figures {
		// What takes less than a hundredth of a second of CPU is zero by the kernel's clock.
		if f.Metric != report.CPU && f.Median <= 0 {
			t.Errorf("%s of %s %+v is %v", f.Metric, f.Item, f.Case, f.Values)
		}
		if want := 1 + 3000/f.Rows; f.Item == report.Bridge && len(f.Values) != want {
			t.Errorf("%d rounds with %d rows, want %d", len(f.Values), f.Rows, want)
		}
	}
	if text := r.LargeMarkdown(); strings.Count(text, "\n### ") != 2 || strings.Count(text, "\n| release |") != 4 {
		t.Errorf("the tables:\n%s", text)
	}
}

// forgetful has a broker remove the oldest messages of a topic soon: half a GiB of a partition is
// more than bridge reads again after a kill.
var forgetful = map[string]string{
	"log.retention.bytes": fmt.Sprint(512 << 20), "log.segment.bytes": fmt.Sprint(64 << 20),
	"log.retention.check.interval.ms": "2000", "log.segment.delete.delay.ms": "1000",
}

// runLarge starts the servers and measures tables by their size, the largest one last.
func runLarge(t *testing.T, p largePlan) *report.Report {
	t.Helper()
	sizes := slices.Concat(p.sizes, p.entities)
	slices.Sort(sizes)
	sizes = slices.Compact(sizes)
	p.rows = sizes[0]
	b := newBench(t, p.plan)
	b.report.Command = commandOf("bench-large")
	one := kafkaOn(t, testenv.StartKafka(t, testenv.KafkaOptions{Lasting: true, Config: forgetful}))
	b.report.Servers[one.product()] = one.version()
	for _, rows := range sizes {
		l := load{kind: event.Release, bus: one, table: fmt.Sprintf("narrow_%d", rows), rows: rows}
		b.db.insert(t, b.screen, narrow, l.table, rows)
		b.large(l, p.roundsOf(p.sizes, rows))
		if slices.Contains(p.entities, rows) {
			b.db.addKey(t, b.screen, l.table)
			l.kind = event.Capability
			b.large(l, p.roundsOf(p.entities, rows))
		}
		b.db.drop(t, l.table)
	}
	b.finish()
	return b.report
}

// roundsOf is how often a table of so many rows is measured: the largest one once.
func (p *largePlan) roundsOf(sizes []int, rows int) int {
	switch {
	case !slices.Contains(sizes, rows):
		return 0
	case rows == slices.Max(sizes) && len(sizes) > 1:
		return 1
	}
	return p.rounds
}

// large measures a stream over a large table.
func (b *bench) large(l load, rounds int) {
	b.t.Helper()
	for round := range rounds {
		b.screen.say("round %d of %d with %d rows: %s", round+1, rounds, l.rows, l.name())
		b.compare(l, items{report.Scan: true, report.Bridge: true, report.Restart: true, report.Reconcile: true}, round)
	}
}

// commandOf is what was typed to run a target of the Makefile with the flags that were set.
func commandOf(target string) string {
	var args []string
	flag.Visit(func(f *flag.Flag) {
		if !strings.HasPrefix(f.Name, "test.") {
			args = append(args, fmt.Sprintf("--%s=%s", f.Name, f.Value))
		}
	})
	if len(args) == 0 {
		return "make " + target
	}
	return fmt.Sprintf("make %s ARGS='%s'", target, strings.Join(args, " "))
}
