package bench

import (
	"bufio"
	"bytes"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bridge/tests/bench/report"
)

// homes say to which part of the work a function belongs, by how its name begins. The innermost
// function of a stack that belongs to one decides: memory that encoding allocates is encoding.
var homes = []struct{ part, prefix string }{
	{report.Reading, "bridge/source"},
	{report.Reading, "github.com/go-sql-driver/mysql."},
	{report.Encoding, "bridge/event."},
	{report.Saving, "bridge/checkpoint"},
	{report.Saving, "github.com/cockroachdb/pebble"},
	{report.Compressing, "github.com/pierrec/lz4"},
	{report.Publishing, "bridge/sink"},
	{report.Publishing, "github.com/segmentio/kafka-go"},
	{report.Publishing, "github.com/nats-io/nats%2ego."},
	{report.Collecting, "runtime.gcBgMarkWorker"},
	{report.Collecting, "runtime.bgsweep"},
	{report.Collecting, "runtime.bgscavenge"},
	{report.Else, "bridge/"},
}

// partOf returns the part of the work that a stack belongs to, given from the inside out.
func partOf(stack []string) string {
	for _, function := range stack {
		for _, p := range homes {
			if strings.HasPrefix(function, p.prefix) {
				return p.part
			}
		}
	}
	return report.Scheduling
}

// profiled runs the program over a backlog once more, with a profile of its CPU, and notes what its
// parts take.
func (b *bench) profiled(l load) {
	b.t.Helper()
	folder := b.t.TempDir()
	d, target, end := b.start(l, b.profiler(), folder)
	defer end()
	b.published(d, l, target)
	d.term()
	spent, err := parts(filepath.Join(folder, "cpu.pprof"))
	if err != nil {
		b.t.Fatal(err)
	}
	for _, part := range report.Parts {
		c := l.is()
		c.Part = part
		b.report.Add(report.Profile, c, report.CPU, spent[part]/float64(l.rows)*1e6)
	}
}

// profiler is the program with its own profiles, built when it is first asked for.
func (b *bench) profiler() string {
	b.t.Helper()
	if b.profilerPath == "" {
		p := b.plan
		p.profile = "yes"
		b.profilerPath = build(b.t, p)
	}
	return b.profilerPath
}

// parts sums a CPU profile by the parts of the work, in seconds.
func parts(file string) (map[string]float64, error) {
	text, err := exec.Command("go", "tool", "pprof", "-traces", "-unit=us", file).Output()
	if err != nil {
		return nil, fmt.Errorf("go tool pprof %s: %w", file, err)
	}
	return sum(text)
}

// sum reads what pprof prints with -traces: after a line of dashes a stack, one function a line
// from the inside out, before the first of which the time stands.
func sum(traces []byte) (map[string]float64, error) {
	spent := make(map[string]float64)
	var stack []string
	var took time.Duration
	count := func() {
		if len(stack) > 0 {
			spent[partOf(stack)] += took.Seconds()
		}
		stack, took = nil, 0
	}
	lines, begun := bufio.NewScanner(bytes.NewReader(traces)), false
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		switch {
		case strings.HasPrefix(lines.Text(), "-----------"):
			count()
			begun = true
		case !begun || len(fields) == 0 || strings.HasSuffix(fields[0], ":"):
			// A line that ends so names a label of the goroutine.
		case took == 0 && len(fields) >= 2:
			var err error
			if took, err = time.ParseDuration(fields[0]); err != nil {
				return nil, fmt.Errorf("a stack without its time: %q", lines.Text())
			}
			stack = append(stack, fields[1])
		default:
			stack = append(stack, fields[0])
		}
	}
	count()
	return spent, lines.Err()
}

func TestAStackBelongsToItsInnermostPart(t *testing.T) {
	spent, err := sum([]byte(`File: bridge
Type: cpu
Duration: 1s, Total samples = 60ms
-----------+-------------------------------------------------------
     20000us   runtime.memmove
             bridge/event.appendString (inline)
             bridge/internal/pipeline.(*Shard).own
-----------+-------------------------------------------------------
     10000us   runtime.futex
             runtime.schedule
-----------+-------------------------------------------------------
     30000us   runtime.scanobject
             runtime.gcBgMarkWorker
-----------+-------------------------------------------------------
`))
	want := map[string]float64{report.Encoding: 0.02, report.Scheduling: 0.01, report.Collecting: 0.03}
	if err != nil || !maps.Equal(spent, want) {
		t.Errorf("%v, %v, want %v", spent, err, want)
	}
}
