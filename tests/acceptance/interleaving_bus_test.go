package acceptance

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"example.org/bridge/sink"
	"example.org/bridge/tests/must"
	"example.org/bridge/tests/testall"
	"example.org/bridge/tests/world"
)

// TestInterleavingsOfLoss has the bus or the store lose what they had (f, g, h and j of the
// interleavings).
func TestInterleavingsOfLoss(t *testing.T) {
	testall.Beside(t)
	world.EachBus(t, func(t *testing.T, b *world.Bus) {
		for name, test := range map[string]func(*interleaving){
			"f: the store is lost":                                 theStoreIsLost,
			"g: a topic is made again and filled beyond the end":   aTopicIsMadeAgain,
			"g: a purge and a rebuild within the duplicate window": aPurge,
			"h: a copy of the store is started beside it":          aCopyIsStarted,
			"j: messages expire behind an old offset":              messagesExpire,
			"j: messages expire and the store is lost":             messagesExpireAndTheStoreIsLost,
		} {
			if b.Kafka != nil && strings.Contains(name, "duplicate window") {
				continue
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(interleave(t, b, nil, func(w *world.World) world.Env {
					if !strings.HasPrefix(name, "f") {
						return nil
					}
					return world.Env{
						"BRIDGE_STREAM_STRICT_START": "latest", "BRIDGE_STREAM_STRICT_TAG": world.Strict,
						"BRIDGE_STREAM_STRICT_DESTINATION": w.Name + "_{tag}" + map[bool]string{true: ".{type}"}[b.NATS != nil],
					}
				}))
			})
		}
	})
}

func aTopicIsMadeAgain(i *interleaving) {
	end := i.count()
	i.Term()
	i.Bus.Remake(i.T, i.destination())
	i.foreign(int(end) * 2 * world.Partitions)
	i.restart()
	i.consistent()
}

func aPurge(i *interleaving) {
	i.Term()
	i.Bus.Expire(i.T, i.destination(), 0)
	types(i.T, i.Env, 0, "checkpoint", "rebuild", world.Strict)
	i.restart()
	i.consistent()
}

func aCopyIsStarted(i *interleaving) {
	i.Term()
	copied := i.CopyCheckpoint()
	i.restart()
	i.publishes(func() { i.insert("a", 1) })
	i.publishes(func() { i.update("a", 2) })
	env := i.Env.WithoutOwn().With(world.Env{"BRIDGE_CHECKPOINT_URL": "file:" + copied})
	publisher := *i.Publisher
	younger := &interleaving{Publisher: &publisher, proxy: i.proxy}
	younger.Daemon = world.NewDaemon(i.T, i.Path, env)
	count := i.count()
	younger.restart()
	younger.Reconcile()
	if n := i.count(); n != count {
		i.T.Errorf("%d messages were published again", n-count)
	}
	// Both see each row, and what one has published the other does not publish if it has read that.
	// The older one learns of the other by its first message.
	rows := 0
	world.Eventually(i.T, arriveWithin, "the older one says that another has taken over", func() bool {
		rows++
		i.insert(fmt.Sprint("b", rows), 1)
		status, body := i.Get("/readyz")
		return status == 503 && strings.Contains(body, "another bridge publishes these streams")
	})
	if status, body := i.Get("/livez"); status != 200 {
		i.T.Errorf("/livez %d: %s", status, body)
	}
	i.Kill()
	// A row that both publish at the same time is there twice, and what the older one stored behind
	// the younger one is stated once more: none of that may come during the reconcile.
	arrives(younger.Publisher)
	// Where nothing of the younger one follows, it looks up the ends of its topics once a minute.
	world.Eventually(i.T, time.Minute+arriveWithin, "what the older one stored last is stated once more", younger.restated)
	younger.publishes(func() { i.update("a", 3) })
	younger.consistent()
}

// restated reports whether no entity's last message is of a smaller epoch than one before it.
func (i *interleaving) restated() bool {
	i.T.Helper()
	highest, late := make(map[string]uint64), make(map[string]bool)
	for _, m := range i.Received(world.Strict) {
		s, err := sink.ParseState(m.Headers[sink.HeaderState])
		switch {
		case err != nil:
			i.T.Fatal(err)
		case s.Epoch < highest[m.Key]:
			late[m.Key] = true
		default:
			highest[m.Key] = s.Epoch
			delete(late, m.Key)
		}
	}
	return len(late) == 0
}

// messagesExpire (rule 22) has messages expire that an older copy of the store lacks. Each row is
// as that copy has it. But nothing tells what has expired, so all entities are published once more.
func messagesExpire(i *interleaving) {
	// The second cursor looks back less than an hour: it does not find the rows.
	i.World.Exec("UPDATE strict SET modified = modified - INTERVAL 1 HOUR")
	i.Reconcile()
	i.World.Exec("CREATE TABLE former AS SELECT * FROM strict")
	i.Term()
	copied := i.CopyCheckpoint()
	i.restart()
	i.changeAll()
	i.Kill()
	i.World.Exec("UPDATE strict JOIN former USING (id) SET strict.state = former.state, strict.n = former.n, strict.modified = former.modified")
	i.Bus.Expire(i.T, i.destination(), 1)
	i.PutCheckpoint(copied)
	i.startPublishes(interleavingEntities)
}

// messagesExpireAndTheStoreIsLost has the entities published of which the bus has nothing.
func messagesExpireAndTheStoreIsLost(i *interleaving) {
	i.changeAll()
	i.Kill()
	i.Bus.Expire(i.T, i.destination(), 1)
	i.LoseCheckpoint()
	i.startPublishes(interleavingEntities - len(i.Received(world.Strict)))
}

// changeAll has each entity published twice. So all but the newest message of a topic-partition
// expire behind an offset from before the call.
func (i *interleaving) changeAll() {
	i.T.Helper()
	for range 2 {
		before := i.count()
		i.World.Exec("UPDATE strict SET n = n + 1, modified = now(6)")
		i.awaitCount(before + interleavingEntities)
	}
}

// startPublishes starts the program and waits until the bus is as the table. It fails the test
// unless that takes so many messages.
func (i *interleaving) startPublishes(want int) {
	i.T.Helper()
	before := i.count()
	i.restart()
	i.consistent()
	if n := i.count() - before; n != int64(want) {
		i.T.Errorf("%d messages were published, want %d", n, want)
	}
}

func theStoreIsLost(i *interleaving) {
	i.World.Exec("CREATE VIEW fresh AS SELECT * FROM strict WHERE app = 'x'")
	if n := i.count(); n != 0 {
		i.T.Fatalf("%d messages of what was there before", n)
	}
	i.publishes(func() { i.insert("a", 1) })
	burn(i)
	i.publishes(func() { i.insert("b", 1) })
	if i.Bus.Kafka != nil {
		i.Bus.Kafka.AddPartitions(i.T, i.destination(), world.Partitions+3)
	}
	for _, name := range []string{"c", "d", "e", "f", "g"} {
		i.publishes(func() { i.insert(name, 1) })
	}
	i.publishes(func() { i.update("a", 2) })
	burn(i)
	i.Kill()
	i.LoseCheckpoint()
	i.insert("h", 1)
	count := i.count()
	i.restart()
	i.awaitCount(count + 1)
	i.Reconcile()
	if n := i.count(); n != count+1 {
		i.T.Errorf("%d messages were published, want 1", n-count)
	}
	if wrong := i.World.Difference("fresh", i.Received(world.Strict)); wrong != "" {
		i.T.Error(wrong)
	}
}

// burn has ids taken that no row will have.
func burn(i *interleaving) {
	i.T.Helper()
	must.OK(i.T, i.World.Open("INSERT INTO strict (app, name, state, n) VALUES ('x', 'burned', 's1', 1), ('x', 'burned too', 's1', 1)").Rollback())
}
