package bench

import (
	"io/fs"
	"net/http"
	"path/filepath"
	"time"

	"bridge/tests/bench/report"
)

// restart kills bridge a moment after its last message and starts it again with its checkpoint. It
// measures the time from the kill until it is ready, and the checkpoint, and fails where a message
// is published again.
func (b *bench) restart(d *daemon, l load, target string) *daemon {
	b.t.Helper()
	killed := time.Now()
	d.end()
	again := d.again()
	eventually(b.t, 10*time.Minute, "bridge is ready again", func() bool {
		again.alive()
		status, _ := again.call(http.MethodGet, "/readyz")
		return status == http.StatusOK
	})
	seconds := time.Since(killed).Seconds()
	eventually(b.t, time.Minute, "all is saved", func() bool {
		shards := again.shards()
		return len(shards) == 1 && shards[0].Position == uint64(l.rows)
	})
	if n := l.bus.count(b.t, target); n != int64(l.rows) {
		b.t.Fatalf("%s holds %d messages of %d rows after a kill", target, n, l.rows)
	}
	size := b.folderSize(again.store)
	b.report.Add(report.Restart, l.is(), report.Seconds, seconds)
	b.report.Add(report.Restart, l.is(), report.MiBOfStore, size)
	b.screen.say("restart, %s: ready %.2f s after the kill, a checkpoint of %.1f MiB, %d messages read", l.name(), seconds, size, again.catchUp().Messages)
	return again
}

// folderSize is the size of all files in a folder that others may change, in MiB.
func (b *bench) folderSize(folder string) float64 {
	b.t.Helper()
	var sum int64
	err := filepath.WalkDir(folder, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		if info, err := entry.Info(); err == nil { // it may have been removed
			sum += info.Size()
		}
		return nil
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return float64(sum) / (1 << 20)
}
