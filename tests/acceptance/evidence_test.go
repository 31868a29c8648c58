package acceptance

import (
	"strings"
	"testing"
	"time"

	"bridge/tests/world"

	"bridge/tests/testall"
	"bridge/tests/testenv"
)

// TestABlipOfReadOnly makes the server read-only for a while, and then again and again for moments,
// while a transaction holds a row open that GAP_POLICY=hold waits for.
func TestABlipOfReadOnly(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	server := testenv.StartMariaDB(t)
	l := newRows(t, server, steadily(15*time.Second))
	holds := world.Env{"BRIDGE_GAP_POLICY": "hold"}
	tailers := []*world.Publisher{tailBriefly(l, world.KafkaBus(testenv.Kafka(t)), "kafka", holds), tailBriefly(l, world.NATSBus(testenv.NATS(t)), "nats", holds)}
	wait, _ := l.Write()
	inFlight := func(n uint64) func() bool {
		return func() bool {
			for _, d := range tailers {
				if shards := d.Shards(world.Orders); len(shards) != 1 || shards[0].Gaps.InFlight < n {
					return false
				}
			}
			return true
		}
	}
	for _, d := range tailers {
		world.Eventually(t, time.Minute, "first rows", func() bool { return d.Tape().Count() > 20 })
	}
	open := l.Begin("open", 3)
	world.Eventually(t, time.Minute, "the transaction shows as in flight", inFlight(3))
	first := open.FirstID()
	readOnly := func(value string) { t.Helper(); l.Exec("SET GLOBAL read_only = " + value) }
	readOnly("ON")
	for _, d := range tailers {
		world.Eventually(t, time.Minute, "evidence does not count", func() bool { return strings.Contains(d.Log.String(), "sees_uncommitted=false") })
	}
	readOnly("OFF")
	for until := time.Now().Add(4 * time.Second); time.Now().Before(until); {
		readOnly("ON")
		readOnly("OFF")
	}
	for _, d := range tailers {
		world.Eventually(t, time.Minute, "evidence counts again", func() bool {
			log := d.Log.String()
			return strings.LastIndex(log, "sees_uncommitted=true") > strings.LastIndex(log, "sees_uncommitted=false")
		})
	}
	world.Eventually(t, time.Minute, "the transaction shows as in flight after all", inFlight(3))
	world.Pause(hotTime + 2*time.Second)
	for _, d := range tailers {
		if n := d.Above(first); n > 0 {
			t.Errorf("%s published %d rows behind an open transaction", d.Name, n)
		}
		t.Logf("%s: page and evidence differed %d times", d.Name, strings.Count(d.Log.String(), "read from different servers"))
	}
	open.Commit()
	wait()
	for _, d := range tailers {
		// What was rolled back at the end holds up the rows behind it for the hot time.
		d.Complete(world.Orders, hotTime+time.Minute)
		if a := d.MustMatch(world.Orders, world.Expect{Steady: true, Ascending: true}); a.Late() > 0 {
			t.Errorf("%d late rows under hold", a.Late())
		}
	}
}
