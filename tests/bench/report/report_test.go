package report_test

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"bridge/tests/bench/report"
)

var update = flag.Bool("update", false, "write the recorded run into the page")

// sample is a report with a figure of every item.
func sample() *report.Report {
	r := &report.Report{
		Version: "v1", Began: time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC), Took: 90, Rows: 1000, Rounds: 2,
		Machine: report.Machine{Cores: 2, CPU: "a CPU", Memory: "4 GiB", Kernel: "6.1", Go: "go1.26"},
		Servers: map[string]string{"NATS": "2.15", "Apache Kafka": "4.1.0"},
	}
	main := report.Case{Kind: "release", Bus: "Kafka", Rows: 1000}
	lib, own, small := main, main, main
	lib.Client, own.Client, small.Rows = report.Library, report.OurSink, 100
	for _, v := range []float64{2, 1} {
		r.Add(report.Scan, report.Case{Rows: 1000}, report.Seconds, v)
		r.Add(report.Publish, lib, report.Seconds, 2*v)
		r.Add(report.Publish, own, report.Seconds, 3*v)
		r.Add(report.Bridge, main, report.Seconds, 4*v)
		r.Add(report.Ratio, main, report.Times, 0.75)
		r.Add(report.Bridge, main, report.RowsASecond, 250/v)
		r.Add(report.Bridge, small, report.RowsASecond, 200/v)
		r.Add(report.Bridge, small, report.SteadyRate, 300/v)
		r.Add(report.Bridge, main, report.SteadyRate, 320_000/v)
		r.Add(report.Bridge, main, report.Allocs, 21)
		r.Add(report.Bridge, main, report.AllocsOnward, 6)
		r.Add(report.Reconcile, main, report.RowsASecond, 123456/v)
	}
	for _, rate := range []int{100, 5000} {
		c := report.Case{Kind: "capability", Bus: "<JetStream>", Rate: rate, Window: "1s", Poll: "100ms"}
		r.Add(report.Latency, c, report.P50, 1100)
		r.Add(report.Latency, c, report.P99, 1300)
	}
	main.Part = report.Encoding
	r.Add(report.Profile, main, report.CPU, 1.25)
	r.Add(report.Idle, report.Case{Shards: 1}, report.CPUShare, 0.2)
	r.Add(report.Idle, report.Case{Shards: 1000}, report.CPUShare, 20)
	return r
}

func TestTablesShowMedianAndSpread(t *testing.T) {
	text := sample().Markdown()
	for _, want := range []string{
		"### Throughput", "| release | Kafka | 1.50 (1.00–2.00) | 3.00 (2.00–4.00) | 4.50 (3.00–6.00) | 6.00 (4.00–8.00) | 188 | 0.75 (0.75–0.75) |",
		"### Where the time goes", "| release | Kafka | – | 1.25 | – |", "title \"1,000 rows: scan and library",
		`x-axis ["release, Kafka: parts", "release, Kafka: bridge"]`, `y-axis "seconds" 0 --> 6.00`, "bar [4.50, 6.00]",
		"### Latency", "| capability | <JetStream> | 1s | 100ms | 5,000 | – | 1,100.0 | 1,300.0 | – | – |",
		"### Growth", "| release | Kafka | 100 | – | 225 (150–300) | 150 |", "| 21.00 | 6.00 |", "92,592 (61,728–123,456)",
		"0 --> 240000", "bar [225, 240000]", "### Idle cost", "| 1,000 | 20.00 | – | – | – | – | – | – | – |",
		"Apache Kafka 4.1.0, NATS 2.15", `title "p99, window 1s, poll interval 100ms"`, "bar [1300, 1300]",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the tables lack %q:\n%s", want, text)
		}
	}
}

func TestTablesLeaveOutWhatWasNotMeasured(t *testing.T) {
	r := &report.Report{Rows: 1000}
	r.Add(report.Scan, report.Case{Rows: 1000}, report.Seconds, 1)
	text := r.Markdown()
	if !strings.Contains(text, "### Throughput") || strings.Contains(text, "### Latency") || strings.Contains(text, "### Cost") {
		t.Errorf("tables of a scan alone:\n%s", text)
	}
}

func TestAFolderHoldsEverything(t *testing.T) {
	folder, want := t.TempDir(), sample()
	if err := want.WriteFolder(folder); err != nil {
		t.Fatal(err)
	}
	got, err := report.Read(filepath.Join(folder, report.JSONFile))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("read back %+v", got)
	}
	if table, err := os.ReadFile(filepath.Join(folder, report.TableFile)); err != nil || string(table) != want.Markdown() {
		t.Errorf("%s: %v", report.TableFile, err)
	}
}

func TestQuantiles(t *testing.T) {
	ascending := make([]float64, 1000)
	for i := range ascending {
		ascending[i] = float64(i + 1)
	}
	for _, c := range []struct{ got, want float64 }{
		{report.Percentile(ascending, 50), 500}, {report.Percentile(ascending, 99), 990}, {report.Percentile(ascending, 99.9), 999},
		{report.Percentile(ascending[:1], 99.9), 1}, {report.Percentile(ascending, 100), 1000}, {report.Percentile(nil, 50), 0},
		{report.Median([]float64{9, 1, 5}), 5}, {report.Median([]float64{4, 1}), 2.5}, {report.Median(nil), 0},
	} {
		if c.got != c.want {
			t.Errorf("%v, want %v", c.got, c.want)
		}
	}
}

func TestThePageShowsTheRecordedRuns(t *testing.T) {
	docs := filepath.Join("..", "..", "..", "docs")
	page, err := os.ReadFile(filepath.Join(docs, "performance.md"))
	if err != nil {
		t.Fatal(err)
	}
	want := string(page)
	for _, run := range []struct {
		file, begin, end string
		text             func(*report.Report) string
	}{
		{report.JSONFile, report.Begin, report.End, (*report.Report).Markdown},
		{report.LargeFile, report.LargeBegin, report.LargeEnd, (*report.Report).LargeMarkdown},
	} {
		text := report.Nothing
		if r, err := report.Read(filepath.Join(docs, "performance", run.file)); err == nil {
			text = run.text(r)
		} else if !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		if want, err = report.Splice(want, run.begin, run.end, text); err != nil {
			t.Fatal(err)
		}
	}
	if *update {
		if err := os.WriteFile(filepath.Join(docs, "performance.md"), []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if string(page) != want {
		t.Error("docs/performance.md does not show the recorded runs: go test ./tests/bench/report -run Page -update")
	}
}

func TestSpliceKeepsTheRestOfThePage(t *testing.T) {
	page := "# A page\n\n" + report.Begin + "\nold\n" + report.End + "\n\nThe end.\n"
	got, err := report.Splice(page, report.Begin, report.End, "new\n")
	if want := strings.Replace(page, "old", "new", 1); err != nil || got != want {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := report.Splice("# A page without the lines\n", report.Begin, report.End, "new\n"); err == nil {
		t.Error("no error for a page without the lines")
	}
}

func TestALaterRunReplacesWhatItMeasured(t *testing.T) {
	one := report.Case{Client: "one", Bus: "kafka"}
	recorded, later := &report.Report{Version: "v1"}, &report.Report{Version: "v2"}
	recorded.Add(report.PeerSteady, one, report.P50, 1)
	recorded.Add(report.PeerBacklog, one, report.Seconds, 2)
	later.Add(report.PeerSteady, one, report.P50, 3)
	recorded.Replace(later)
	if got := recorded.Last(report.PeerSteady, one, report.P50); got != 3 {
		t.Errorf("the figure is %v, want that of the later run", got)
	}
	if got := recorded.Last(report.PeerBacklog, one, report.Seconds); got != 2 {
		t.Errorf("what was not measured again is %v, want it as it was", got)
	}
	if page := recorded.PeersMarkdown(); !strings.Contains(page, "Measured again later (steady): bridge v2") {
		t.Errorf("the page does not say so:\n%s", page)
	}
}
