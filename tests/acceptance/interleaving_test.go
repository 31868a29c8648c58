package acceptance

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"example.org/bridge/tests/must"
	"example.org/bridge/tests/testall"
	"example.org/bridge/tests/testenv"
	"example.org/bridge/tests/workload"
	"example.org/bridge/tests/world"
)

// The interleavings a to j, which recovery from the bus has to come through: the
// letters stand at the beginnings of the tests.

// interleavingEntities is how many entities there are at the beginning, and arriveWithin how long
// anything may take that needs no reconcile.
const (
	interleavingEntities = 20
	arriveWithin         = time.Minute
	// startWithin bounds a start, which syncs its epoch: that takes long on a busy disk.
	startWithin = 3 * time.Minute
	// lateWindow is the duplicate window of JetStream in a test that waits it out.
	lateWindow = time.Second
)

// recoveryTimes are short times of catch-up. A reconcile comes where it is due, or is asked for.
var recoveryTimes = world.Env{
	timesVariable:               "idle_every=300ms,tick=100ms,anchors_every=500ms,hot_time=3s,sweep=3s",
	"BRIDGE_RECONCILE_INTERVAL": "1h",
	"BRIDGE_STABILITY_WINDOW":   "0s",
	"BRIDGE_SHUTDOWN_TIMEOUT":   "2s",
}

// interleaving is a program that publishes a table of entities through a proxy.
type interleaving struct {
	*world.Publisher
	proxy *testenv.Proxy
}

// It returns when the entities are published.
func interleave(t *testing.T, b *world.Bus, proxy *testenv.Proxy, adapt func(*world.World) world.Env) *interleaving {
	t.Helper()
	w := newEntities(t, testenv.MariaDB(t), workload.CapabilityOptions{Entities: interleavingEntities})
	env := recoveryTimes.With(nil)
	if adapt != nil {
		env = env.With(adapt(w))
	}
	if proxy != nil {
		scheme := map[bool]string{true: "kafka", false: "nats"}[b.Kafka != nil]
		env["BRIDGE_SINK_URL"] = scheme + "://" + proxy.Addr()
	}
	i := &interleaving{Publisher: w.Publish(b, world.Publishing{Path: world.Faulty(t), Env: env}), proxy: proxy}
	i.Start()
	i.CaughtUp(startWithin, "the first entities are published")
	return i
}

func (i *interleaving) destination() string { return i.Destination(world.Strict) }

func (i *interleaving) count() int64 { return i.Bus.Count(i.T, i.destination()) }

func (i *interleaving) restart() {
	i.T.Helper()
	i.Start()
	i.CaughtUp(startWithin, "caught up after a start")
}

// insert, update and remove change an entity, one that begins with app "x" like none of the first.
func (i *interleaving) insert(name string, state int) {
	i.T.Helper()
	i.World.Exec("INSERT INTO strict (app, name, state, n) VALUES ('x', ?, ?, 1)", name, fmt.Sprintf("s%d", state))
}

func (i *interleaving) update(name string, state int) {
	i.T.Helper()
	i.World.Exec("UPDATE strict SET state = ?, modified = now(6) WHERE app = 'x' AND name = ?", fmt.Sprintf("s%d", state), name)
}

func (i *interleaving) remove(name string) {
	i.T.Helper()
	i.World.Exec("DELETE FROM strict WHERE app = 'x' AND name = ?", name)
}

// publishes waits until a change has been published, and nothing else.
func (i *interleaving) publishes(change func()) {
	i.T.Helper()
	before := i.count()
	change()
	i.awaitCount(before + 1)
}

func (i *interleaving) awaitCount(want int64) {
	i.T.Helper()
	world.Eventually(i.T, arriveWithin, fmt.Sprintf("%d messages are there", want), func() bool { return i.count() >= want })
}

// block has what is published from now on held, and calls change, which is to have something
// published. Then later messages pass.
func (i *interleaving) block(change func()) {
	i.T.Helper()
	name := []byte(i.destination())
	i.proxy.Block(func(data []byte) bool {
		if i.Bus.Kafka != nil {
			// A request begins with its size and its kind, which is 0 for Produce.
			return len(data) > 8 && data[4] == 0 && data[5] == 0 && bytes.Contains(data, name)
		}
		return bytes.Contains(data, append([]byte("HPUB "), name...))
	})
	change()
	world.Eventually(i.T, arriveWithin, "a publish is held", func() bool { return i.proxy.Blocked() > 0 })
	i.proxy.Pass()
}

// release lets what is held arrive, and reports whether the bus has stored it.
func (i *interleaving) release() (stored bool) {
	i.T.Helper()
	before := i.count()
	held := i.proxy.Open()
	i.proxy.Release()
	if i.Bus.Kafka != nil {
		// It knows no fence.
		i.awaitCount(before + 1)
		return true
	}
	world.Eventually(i.T, arriveWithin, "the connection that was held ends", func() bool { return i.proxy.Open() < held })
	return i.count() > before
}

func (i *interleaving) folds() {
	i.T.Helper()
	world.Until(i.T, arriveWithin, "the bus is as the table", func() any { return i.Difference(world.Strict) })
}

func (i *interleaving) foreign(n int) {
	i.T.Helper()
	messages := make([]world.Message, n)
	for k := range messages {
		messages[k] = world.Message{
			Partition: fmt.Sprint(k % world.Partitions), Value: []byte("foreign"),
			// On NATS the subject is made of it: what others publish to ours is read.
			Headers: map[string]string{"eiffel-type": "StrictAddedEvent"},
		}
	}
	must.OK(i.T, i.Bus.Publisher(i.T, i.destination())(i.T.Context(), messages...))
}

// consistent fails the test unless the bus folds to the table, a reconcile finds nothing, and no
// error was logged.
func (i *interleaving) consistent() {
	i.T.Helper()
	i.folds()
	before := i.count()
	i.Reconcile()
	if n := i.count(); n != before {
		i.T.Errorf("a reconcile has published %d messages", n-before)
	}
	if log := i.Log.String(); strings.Contains(log, "level=ERROR") {
		i.T.Errorf("the log has errors:\n%s", log)
	}
}

// TestInterleavingsOfLateMessages has a publish arrive long after its process has ended (a, b, c
// and i of the interleavings).
func TestInterleavingsOfLateMessages(t *testing.T) {
	testall.Beside(t)
	late := func(t *testing.T, b *world.Bus, proxy *testenv.Proxy) {
		t.Parallel()
		for name, test := range map[string]func(*interleaving){
			"a: behind an acknowledgement, when its row is gone": afterItsRow,
			"b: behind a newer one, to a process that runs":      afterANewerOne,
			"c, i: when it was cancelled, and before a kill":     afterItWasCancelled,
		} {
			t.Run(name, func(t *testing.T) { test(interleave(t, b, proxy, nil)) })
		}
	}
	t.Run("kafka", func(t *testing.T) {
		server := testenv.StartKafka(t, testenv.KafkaOptions{Proxied: true, Lasting: true})
		late(t, world.KafkaBus(server), server.Proxy())
	})
	t.Run("nats", func(t *testing.T) {
		server := testenv.StartNATS(t)
		late(t, world.NATSBus(server), testenv.StartProxy(t, server.Addr()))
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
	i.Kill()
	i.restart()
	i.consistent()
}
