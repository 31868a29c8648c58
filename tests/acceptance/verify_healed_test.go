package acceptance

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"bridge/tests/testall"
	"bridge/tests/testenv"
	"bridge/tests/workload"
	"bridge/tests/world"
)

// TestVerifyAfterABusLoss puts an older state of the bus back. What bridge has published since is
// healed,
// and counted.
func TestVerifyAfterABusLoss(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	world.EachOwnBus(t, func(t *testing.T, b *world.Bus) {
		w := newRows(t, testenv.MariaDB(t), workload.Options{})
		p := w.Publish(b, world.Publishing{Streams: twoStreams[:1]})
		write := func(version int) {
			t.Helper()
			for i := range 10 {
				w.Exec("REPLACE INTO orders (entity, token, body, created) VALUES (?, uuid(), ?, now() - interval 1 hour)", fmt.Sprint("e-", i), fmt.Sprint("version-", version))
			}
			p.Drained()
		}
		p.Start()
		write(1)
		write(2)
		before := b.Snapshot(t)
		write(3)
		write(4)
		b.Restore(t, before)
		p.Drained()
		write(5)
		world.Eventually(t, time.Minute, "bridge has noticed", func() bool { return strings.Contains(p.Log.String(), "a topic or stream is not as it was") })
		write(6)
		found := make(map[string]int)
		for _, f := range mustVerify(t, p.Env).Streams[0].Healed {
			found[f.Fault] = f.Count
		}
		// Events that were published before bridge had noticed follow on what is lost.
		lost := found["lost"]
		delete(found, "lost")
		delete(found, "brokenLink")
		if lost != 20 || len(found) > 0 {
			t.Errorf("healed: %d lost, %v", lost, found)
		}
	})
}
