package report_test

import (
	"strings"
	"testing"

	"bridge/tests/bench/report"
)

func TestARunIsComparedWithADocumentedOne(t *testing.T) {
	near := report.Case{Kind: "release", Bus: "kafka", Rows: 1000}
	far, alone := near, near
	far.Bus, alone.Rows = "jetstream", 7
	documented, run := &report.Report{Version: "v1"}, &report.Report{Version: "v2"}
	for c, values := range map[report.Case][2]float64{near: {1, 0.76}, far: {1, 1.26}} {
		documented.Add(report.Ratio, c, report.Times, values[0])
		run.Add(report.Ratio, c, report.Times, values[1])
	}
	run.Add(report.Ratio, alone, report.Times, 1)

	text := report.Compare(documented, run)
	for _, want := range []string{"1 of 2 ratios are beyond 25 %", "| 1.00 | 0.76 | -24 | no |", "| 1.00 | 1.26 | +26 | yes |"} {
		if !strings.Contains(text, want) {
			t.Errorf("the comparison lacks %q:\n%s", want, text)
		}
	}
	if text := report.Compare(documented, &report.Report{}); !strings.Contains(text, "Nothing to compare") {
		t.Errorf("a comparison with a run without ratios:\n%s", text)
	}
}
