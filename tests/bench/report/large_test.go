package report_test

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"bridge/tests/bench/report"
)

// largeSample is a run of which each row of the larger table costs more.
func largeSample() *report.Report {
	r := sample()
	r.Command, r.Figures = "make bench-large", nil
	for _, rows := range []int{1000, 2000} {
		c := report.Case{Kind: "release", Bus: "kafka", Rows: rows}
		r.Add(report.Scan, report.Case{Rows: rows}, report.RowsASecond, 1e6)
		r.Add(report.Bridge, c, report.SteadyRate, 100_000/float64(rows))
		r.Add(report.Bridge, c, report.CPU, float64(rows)/500)
		r.Add(report.Reconcile, c, report.CPU, 0)
		r.Add(report.Restart, c, report.Seconds, 0.25)
	}
	return r
}

func TestLargeTablesAreComparedWithTheSmallest(t *testing.T) {
	text := largeSample().LargeMarkdown()
	for _, want := range []string{
		"By `make bench-large`: bridge v1, 2026-03-01 10:00 UTC", "| release | 1,000 | 1,000,000 | 100 | 2.00 | – | 1.00 | 1.00 | 1.00 |",
		"| release | 2,000 | 1,000,000 | 50 | 4.00 | – | 1.00 | 2.00 | 2.00 |", "| release | 2,000 | – | 0.25 | – | – | 0.000 | – | – | – |",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the tables lack %q:\n%s", want, text)
		}
	}
}

func TestLargeTablesAreRecorded(t *testing.T) {
	top, r := t.TempDir(), largeSample()
	page := filepath.Join(top, "docs", "performance.md")
	if err := os.Mkdir(filepath.Dir(page), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(page, []byte("# A page\n"+report.LargeBegin+"\n"+report.Nothing+report.LargeEnd+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := r.RecordLarge(top); err != nil {
		t.Fatal(err)
	}
	want := "# A page\n" + report.LargeBegin + "\n" + r.LargeMarkdown() + report.LargeEnd + "\n"
	if text, err := os.ReadFile(page); err != nil || string(text) != want {
		t.Errorf("the page is %s, %v", text, err)
	}
	if got, err := report.Read(filepath.Join(top, "docs", "performance", report.LargeFile)); err != nil || !reflect.DeepEqual(got, r) {
		t.Errorf("read back %+v, %v", got, err)
	}
}
