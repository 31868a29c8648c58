package bench

import (
	"net/http"
	"time"

	"bridge/event"
	"bridge/tests/bench/report"
)

// reconcile asks a drained bridge for a reconcile, which finds no difference, and returns how long
// it took in seconds.
func (b *bench) reconcile(d *daemon, l load) float64 {
	b.t.Helper()
	eventually(b.t, time.Minute, "all is saved", func() bool {
		shards := d.shards()
		return len(shards) == 1 && shards[0].Position == uint64(l.rows)
	})
	// From here on, the memory is that of the reconcile.
	d.memory.end()
	d.memory = watchMemory(d.cmd.Process.Pid)
	cpu := d.spent()
	// What is younger than the window is not judged.
	if status, body := d.call(http.MethodPost, "/api/v1/streams/"+streamName+"/reconcile"); status != http.StatusAccepted {
		b.t.Fatalf("asked for a reconcile: %d %s", status, body)
	}
	var took time.Duration
	eventually(b.t, 10*time.Minute, "the reconcile has ended", func() bool {
		shards := d.shards()
		if len(shards) != 1 || shards[0].Reconcile == nil {
			return false
		}
		r := shards[0].Reconcile
		if r.LastError != nil && *r.LastError != "" {
			b.t.Fatalf("the reconcile: %s", *r.LastError)
		}
		if r.Waiting > 0 || r.Running || r.StartedAt == nil || r.EndedAt == nil {
			b.screen.far("reconcile, "+l.name(), r.Rows, int64(l.rows))
			return false
		}
		if l.kind == event.Capability && r.Rows != int64(l.rows) {
			b.t.Fatalf("the reconcile has compared %d rows of %d", r.Rows, l.rows)
		}
		took = r.EndedAt.Sub(*r.StartedAt)
		return true
	})
	cpu, peak := d.spent()-cpu, d.memory.peak()
	for metric, value := range map[string]float64{
		report.Seconds: took.Seconds(), report.CPU: cpu / float64(l.rows) * 1e6, report.RssAnon: peak,
	} {
		b.report.Add(report.Reconcile, l.is(), metric, value)
	}
	// A release stream without gaps reads no row.
	if l.kind == event.Capability {
		b.report.Add(report.Reconcile, l.is(), report.RowsASecond, float64(l.rows)/took.Seconds())
	}
	b.screen.say("reconcile, %s: %.3f s, %.0f rows a second, %.2f CPU-seconds, %.1f MiB", l.name(), took.Seconds(),
		b.report.Last(report.Reconcile, l.is(), report.RowsASecond), cpu, peak)
	return took.Seconds()
}
