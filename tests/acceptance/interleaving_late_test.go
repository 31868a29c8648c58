package acceptance

import (
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"bridge/tests/testall"
	"bridge/tests/testenv"
	"bridge/tests/world"
)

// TestInterleavingsOfLateMessages has a publish arrive long after its process has ended (a, b, c
// and i of the interleavings).
func TestInterleavingsOfLateMessages(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	eachProxiedBus(t, testall.Pick(natsAlone, bothBuses), func(t *testing.T, b *world.Bus, proxy *testenv.Proxy) {
		for name, test := range map[string]func(*interleaving){
			"a: behind an acknowledgement, when its row is gone": afterItsRow,
			"b: behind a newer one, to a process that runs":      afterANewerOne,
			"c: behind a newer one, before a kill":               beforeAKill,
			"i: when it was cancelled and not killed":            afterItWasCancelled,
		} {
			t.Run(name, func(t *testing.T) { test(interleave(t, b, proxy, nil)) })
		}
	})
}

func afterItsRow(i *interleaving) {
	i.block(func() { i.insert("a", 1) })
	i.Kill()
	i.remove("a")
	i.restart()
	i.publishes(func() { i.insert("b", 1) })
	i.T.Logf("the late message was stored: %v", i.release())
	i.Kill()
	i.restart()
	i.consistent()
}

func afterANewerOne(i *interleaving) {
	i.publishes(func() { i.insert("a", 1) })
	i.block(func() { i.update("a", 2) })
	i.Kill()
	i.update("a", 3)
	i.Start()
	i.CaughtUp(arriveWithin, "caught up")
	i.folds()
	if i.Bus.NATS != nil {
		// The late one comes when its id is forgotten.
		i.Bus.Configure(i.T, i.destination(), func(c *jetstream.StreamConfig, _ jetstream.StreamState) { c.Duplicates = lateWindow })
		world.Pause(2 * lateWindow)
	}
	i.T.Logf("the late message was stored: %v", i.release())
	i.consistent()
}

func beforeAKill(i *interleaving) {
	i.publishes(func() { i.insert("a", 1) })
	i.block(func() { i.update("a", 2) })
	i.Kill()
	i.update("a", 3)
	i.restart()
	i.folds()
	i.T.Logf("the late message was stored: %v", i.release())
	i.Kill()
	i.restart()
	i.consistent()
}

func afterItWasCancelled(i *interleaving) {
	i.publishes(func() { i.insert("a", 1) })
	i.block(func() { i.update("a", 2) })
	i.Term()
	if !strings.Contains(i.Log.String(), "shard ended with messages in flight") {
		i.T.Errorf("nothing was in flight:\n%s", i.Log)
	}
	i.update("a", 3)
	i.restart()
	i.folds()
	i.T.Logf("the late message was stored: %v", i.release())
	i.consistent()
}
