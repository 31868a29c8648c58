package bench

import (
	"encoding/json"
	"net/http"
	"os"
	"time"

	"bridge/tests/bench/report"
)

// recover kills a drained bridge, removes its checkpoint and starts it again. It measures that
// until the program has read the bus and seen to all rows, and fails where it has published any.
func (b *bench) recover(d *daemon, l load, target string) {
	b.t.Helper()
	d.end()
	if err := os.RemoveAll(d.store); err != nil {
		b.t.Fatal(err)
	}
	again := d.again()
	defer again.end()
	var read catchUp
	eventually(b.t, 10*time.Minute, "all is as before", func() bool {
		read = again.catchUp()
		shards := again.shards()
		b.screen.far("recovery, "+l.name(), int64(read.Messages), int64(l.rows))
		return read.Ready && len(shards) == 1 && shards[0].Position == uint64(l.rows)
	})
	seconds, peak := time.Since(again.began).Seconds(), again.memory.peak()
	if n := l.bus.count(b.t, target); n != int64(l.rows) {
		b.t.Fatalf("%s holds %d messages of %d rows after a start without the checkpoint", target, n, l.rows)
	}
	if read.Messages != uint64(l.rows) {
		b.t.Fatalf("bridge has read %d messages of %d", read.Messages, l.rows)
	}
	rate := float64(read.Messages) / read.Seconds
	for metric, value := range map[string]float64{report.Seconds: seconds, report.MessagesASecond: rate, report.RssAnon: peak} {
		b.report.Add(report.Recovery, l.is(), metric, value)
	}
	b.screen.say("recovery, %s: %.2f s, %.0f messages a second, %.1f MiB", l.name(), seconds, rate, peak)
}

// catchUp is what matters of how far the bus was read.
type catchUp struct {
	Ready    bool
	Messages uint64
	Seconds  float64
}

// catchUp returns that of the one stream, the zero value while the process does not answer.
func (d *daemon) catchUp() catchUp {
	d.t.Helper()
	d.alive()
	var status struct{ Streams []struct{ CatchUp catchUp } }
	code, body := d.call(http.MethodGet, "/api/v1/status")
	if code != http.StatusOK {
		return catchUp{}
	}
	if err := json.Unmarshal(body, &status); err != nil || len(status.Streams) != 1 {
		d.t.Fatalf("%v: %s", err, body)
	}
	return status.Streams[0].CatchUp
}
