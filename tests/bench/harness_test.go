package bench

import (
	"strings"
	"testing"

	"bridge/tests/bench/report"
	"bridge/tests/testall"
	"bridge/tests/testenv"
)

// mayBeZero are metrics whose median may be 0: what takes less than a hundredth of a second of CPU
// is zero by the kernel's clock; the program may be held for all the time in which
// its statements are counted, or a writer when its row was committed and has arrived.
var mayBeZero = map[string]bool{
	report.CPU: true, report.CPUShare: true, report.CPUShareAgain: true, report.DatabaseCPU: true, report.StatementsA: true,
	report.P50: true, report.P99: true, report.P999: true, report.Worst: true,
}

// TestHarness runs every measurement with tables of a few rows. It shows that the instrument works;
// its figures say nothing.
func TestHarness(t *testing.T) {
	testall.Long(t)
	testenv.Kafka(t)
	p := tinyPlan()
	p.out = t.Output()
	b := newBench(t, p)
	b.run()

	cases := len(p.kinds) * len(p.buses)
	for item, want := range map[string]int{
		report.Bridge: cases, report.Ratio: cases, report.Latency: cases * len(p.paces), report.Idle: len(p.shards), report.Busy: len(windows),
		report.Reconcile: len(p.buses), report.Recovery: cases, report.Delivery: 2 * cases,
	} {
		if got := len(b.report.Cases(item)); got != want {
			t.Errorf("%d cases of %s, want %d", got, item, want)
		}
	}
	for _, f := range b.report.Figures {
		if !mayBeZero[f.Metric] && f.Median <= 0 {
			t.Errorf("%s of %s %+v is %v", f.Metric, f.Item, f.Case, f.Values)
		}
	}
	if text := b.report.Markdown(); strings.Count(text, "\n### ") != 9 {
		t.Errorf("the tables:\n%s", text)
	}
	if err := b.report.WriteFolder(t.TempDir()); err != nil {
		t.Error(err)
	}
}
