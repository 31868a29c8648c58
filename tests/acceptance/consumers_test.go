package acceptance

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"example.org/bridge/client"
	"example.org/bridge/client/jetstream"
	"example.org/bridge/client/kafka"
	"example.org/bridge/event"
	"example.org/bridge/tests/must"
	"example.org/bridge/tests/testall"
	"example.org/bridge/tests/testenv"
	"example.org/bridge/tests/world"
)

// TestAClientTableIsTheTable keeps a client.Table of entities that are written, while bridge is
// killed, the bus is restarted, and its topic or stream is deleted and made again. In the end it is
// the table of the database, and so is one that begins then.
func TestAClientTableIsTheTable(t *testing.T) {
	testall.Beside(t)
	world.EachOwnBus(t, func(t *testing.T, b *world.Bus) {
		_, states := world.Load(1, 2)
		w := world.New(t, world.Options{Database: testenv.MariaDB(t), Entities: &states})
		p := w.Publish(b, world.Publishing{Path: world.Binary(t, world.RaceDetector), Env: world.LoadEnv})
		p.Start()
		table := followTable(t, p)
		_, stop := w.Write()
		for range 3 {
			world.Pause(world.Between(time.Second, 2*time.Second))
			p.Kill()
			p.Start()
		}
		isKilled(t, b.Server())
		arrives(p)
		b.Remake(t, p.Destination(world.Strict))
		world.Pause(world.Between(time.Second, 2*time.Second))
		stop()
		p.AllPublished()
		// A reconcile every four seconds finds what the bus lost when it was made again.
		equalsTable(t, w, table)
		if s := table.Stats(); s.Rebuilds == 0 {
			t.Errorf("the table was not made again: %+v", s)
		}
		equalsTable(t, w, followTable(t, p))
	})
}

func followTable(t *testing.T, p *world.Publisher) *client.Table {
	t.Helper()
	table := must.Get(client.NewTable(clientBus(t, p.Bus), client.Options{
		Stream: world.Strict, Destinations: []string{clientReads(p)}, RefreshEvery: time.Second, KeepFor: 20 * time.Second,
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}))(t)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- table.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run ends with %v", err)
		}
	})
	world.Eventually(t, time.Minute, "the table is ready", func() bool {
		select {
		case <-table.Ready():
			return true
		default:
			return false
		}
	})
	return table
}

func clientBus(t *testing.T, b *world.Bus) client.Bus {
	t.Helper()
	var bus client.Bus
	var err error
	if b.Kafka != nil {
		bus, err = kafka.New(kafka.Options{Brokers: b.Kafka.Brokers()})
	} else {
		bus, err = jetstream.New(jetstream.Options{URLs: []string{b.NATS.URL()}})
	}
	must.OK(t, err)
	return bus
}

func clientReads(p *world.Publisher) string {
	return strings.ReplaceAll(p.Env["BRIDGE_STREAM_"+strings.ToUpper(world.Strict)+"_DESTINATION"], "{type}", ">")
}

func equalsTable(t *testing.T, w *world.World, table *client.Table) {
	t.Helper()
	world.Until(t, time.Minute, "the client's table is that of the database", func() any {
		var messages []world.Message
		for e := range table.All() {
			messages = append(messages, world.Message{Key: e.Key, Value: e.Body, Headers: map[string]string{"bridge-stream": e.Stream}})
		}
		if wrong := w.Difference(world.Strict, messages); wrong != "" {
			return fmt.Sprintf("it has %d entities: %s\n%+v %v", table.Len(), wrong, table.Stats(), table.Err())
		}
		return nil
	})
	if table.Len() == 0 {
		t.Error("there is nothing: the test shows nothing")
	}
}

// TestACompactedTopicHoldsTheLiveEntities changes a table in every way, with a condition on its
// rows, while the program is killed; then the topic is compacted. A consumer that begins at the
// beginning holds what the table has, a start without a checkpoint publishes nothing, and one with
// an older checkpoint what the topic has forgotten.
func TestACompactedTopicHoldsTheLiveEntities(t *testing.T) {
	testall.Beside(t)
	b := world.KafkaBus(testenv.Kafka(t))
	c := newCompaction(t, b)
	c.daemon.Start()
	for range 3 {
		c.write(50)
		// Also on a busy machine it has published what there is to delete.
		c.drained()
		c.write(50)
		c.daemon.Kill()
		c.daemon.Start()
	}
	c.drained()
	c.compact()
	before := b.Count(t, c.topic)
	c.daemon.Ends()
	c.daemon.LoseCheckpoint()
	c.daemon.Start()
	c.drained()
	if after := b.Count(t, c.topic); after != before {
		live, records := c.live()
		t.Errorf("without a checkpoint the topic ends at %d, before at %d: %d records, %v", after, before, records, live)
	}
	if r := world.Verify(t, c.daemon.Env); !r.Good {
		t.Errorf("bridge verify: %+v", r)
	}
	c.outdated()
}

// TestAnEntityIsForgottenWhereItLayBefore adds partitions, then deletes all rows, publishes them
// again and deletes them, beside kills: in none of the partitions is the last record of a key one
// that lives, which compaction would keep.
func TestAnEntityIsForgottenWhereItLayBefore(t *testing.T) {
	testall.Beside(t)
	b := world.KafkaBus(testenv.Kafka(t))
	c := newCompaction(t, b)
	c.daemon.Start()
	for _, more := range []int32{2, 4} {
		for i := range compactedKeys {
			c.world.Exec("INSERT INTO items (k, v, state) VALUES (?, 'v', 'open')", fmt.Sprint("k", i))
		}
		c.drained()
		b.Kafka.AddPartitions(t, c.topic, more*world.Partitions)
		c.daemon.Ends()
		c.daemon.Start()
		c.drained()
		before := b.Count(t, c.topic)
		c.world.Exec("DELETE FROM items")
		world.Eventually(t, time.Minute, "an entity is deleted", func() bool { return b.Count(t, c.topic) > before })
		c.daemon.Kill()
		c.daemon.Start()
		c.drained()
	}
	c.daemon.Ends()
	last, keys := make(map[[2]string]bool), make(map[string]bool)
	b.Read(t, c.topic, func(m world.Message) { last[[2]string{m.Partition, m.Key}] = m.Value != nil })
	for at, lives := range last {
		if keys[at[1]] = true; lives {
			t.Errorf("the last record of %s in partition %s lives", at[1], at[0])
		}
	}
	if len(keys) == len(last) {
		t.Error("no entity has moved: the test shows nothing")
	}
	before := b.Count(t, c.topic)
	c.daemon.LoseCheckpoint()
	c.daemon.Start()
	c.drained()
	if after := b.Count(t, c.topic); after != before {
		t.Errorf("without a checkpoint the topic ends at %d, before at %d", after, before)
	}
	if r := world.Verify(t, c.daemon.Env); !r.Good {
		t.Errorf("bridge verify: %+v", r)
	}
}

// outdated has the program begin with an older copy of its checkpoint, by which entities live that
// the topic has forgotten (rule 30). Their rows are again as they were.
func (c *compaction) outdated() {
	c.t.Helper()
	stop := func() {
		c.t.Helper()
		c.daemon.Ends()
	}
	stop()
	copied := c.daemon.CopyCheckpoint()
	c.world.Exec("CREATE TABLE kept AS SELECT * FROM items WHERE deleted = 0 AND state <> 'draft'")
	c.daemon.Start()
	world.AwaitReady(c.t, c.daemon)
	c.world.Exec("DELETE FROM items WHERE deleted = 0 AND state <> 'draft'")
	c.drained()
	c.compact()
	stop()
	c.world.Exec("INSERT INTO items SELECT * FROM kept")
	c.daemon.PutCheckpoint(copied)
	want := c.table()
	if len(want) == 0 {
		c.t.Fatal("the test shows too little")
	}
	c.daemon.Start()
	c.drained()
	if live, _ := c.live(); !maps.Equal(live, want) {
		c.t.Errorf("with an older checkpoint the topic has %v, the table %v", live, want)
	}
	if r := world.Verify(c.t, c.daemon.Env); !r.Good {
		c.t.Errorf("bridge verify: %+v", r)
	}
}

// compaction is a table, and the program that publishes it to a topic that is to be compacted.
type compaction struct {
	t      *testing.T
	bus    *world.Bus
	world  *world.World
	daemon *world.Daemon
	topic  string
	rng    *rand.Rand
}

const compactedKeys = 40

func newCompaction(t *testing.T, b *world.Bus) *compaction {
	t.Helper()
	w := world.Empty(t, nil)
	w.Exec(`CREATE TABLE items (id INTEGER PRIMARY KEY AUTOINCREMENT, k TEXT NOT NULL UNIQUE, v TEXT, state TEXT, deleted INT NOT NULL DEFAULT 0)`)
	c := &compaction{t: t, bus: b, world: w, topic: w.Name + "_items", rng: rand.New(rand.NewPCG(7, 7))}
	e := b.Env().With(world.Env{
		"BRIDGE_SOURCE_URL": w.URL, "BRIDGE_STREAMS": "items", "BRIDGE_STABILITY_WINDOW": "0s", "BRIDGE_POLL_INTERVAL": "10ms",
		"BRIDGE_RECONCILE_INTERVAL": "1s", "BRIDGE_RECONCILE_MAX_DELETES": "100%", "BRIDGE_BATCH_ROWS": "20",
	}).With(world.Env{
		"BRIDGE_STREAM_ITEMS_TABLE": "items", "BRIDGE_STREAM_ITEMS_KIND": "capability", "BRIDGE_STREAM_ITEMS_KEY": "k",
		"BRIDGE_STREAM_ITEMS_DELETED": "deleted", "BRIDGE_STREAM_ITEMS_FILTER": "state <> 'draft'", "BRIDGE_STREAM_ITEMS_DESTINATION": b.Open(t, c.topic),
	})
	// Nothing is compacted before a segment ends.
	c.configure(map[string]string{"cleanup.policy": "compact"})
	c.daemon = world.NewDaemon(t, world.Binary(t, false), e)
	return c
}

func (c *compaction) configure(values map[string]string) {
	c.t.Helper()
	configs := make(map[string]*string)
	for name, value := range values {
		configs[name] = &value
	}
	c.bus.Kafka.ConfigureTopic(c.t, c.topic, configs)
}

func (c *compaction) write(n int) {
	c.t.Helper()
	for i := range n {
		key := fmt.Sprintf("k%d", c.rng.IntN(compactedKeys))
		state := []string{"open", "done", "draft"}[c.rng.IntN(3)]
		switch c.rng.IntN(6) {
		case 0:
			c.world.Exec("DELETE FROM items WHERE k = ?", key)
		case 1:
			c.world.Exec("UPDATE items SET deleted = 1 - deleted WHERE k = ?", key)
		case 2:
			c.world.Exec("UPDATE items SET state = NULL WHERE k = ?", key)
		case 3:
			c.world.Exec("UPDATE items SET state = ? WHERE k = ?", state, key)
		default:
			c.world.Exec("REPLACE INTO items (k, v, state, deleted) VALUES (?, ?, ?, ?)", key, fmt.Sprint("v", i%5), state, c.rng.IntN(4)/3)
		}
		if i%10 == 0 {
			world.Pause(20 * time.Millisecond)
		}
	}
}

func (c *compaction) drained() {
	c.t.Helper()
	world.AwaitReady(c.t, c.daemon)
	last := c.world.Highest("items")
	world.Eventually(c.t, time.Minute, "the tail has come to the end", func() bool { return c.daemon.Position("items") >= last })
	c.daemon.Reconcile("items")
}

func (c *compaction) table() map[string]string {
	c.t.Helper()
	return c.world.Pairs("SELECT k, v || ' ' || state FROM items WHERE deleted = 0 AND state <> 'draft'")
}

// live returns the entities that live by the topic, as it is now, and how many records of ours it
// holds.
func (c *compaction) live() (live map[string]string, records int) {
	c.t.Helper()
	live = make(map[string]string)
	c.bus.Read(c.t, c.topic, func(m world.Message) {
		if strings.HasPrefix(m.Key, "tick") {
			return
		}
		records++
		if m.Value == nil {
			delete(live, m.Key)
			return
		}
		e := decode(c.t, m)
		if live[m.Key] = member(e, "v") + " " + member(e, "state"); e.Op == event.Deleted {
			delete(live, m.Key)
		}
	})
	return live, records
}

// compact waits until the broker has left of each key its last record, and of deleted ones none.
func (c *compaction) compact() {
	c.t.Helper()
	c.configure(map[string]string{"segment.ms": "100", "delete.retention.ms": "0", "min.cleanable.dirty.ratio": "0.01"})
	const tick = `{"meta":{"id":"00000000-0000-4000-8000-000000000001","type":"TickEvent","time":1,"source":{"uri":"bridge://other/tick"}},` +
		`"data":{"row":{"source":"a","table":"b","id":1}},"links":[]}`
	want, publish := c.table(), c.bus.Publisher(c.t, c.topic)
	world.Eventually(c.t, 3*time.Minute, "the topic is compacted", func() bool {
		// A record closes a segment that is old enough: only closed ones are compacted.
		var ticks []world.Message
		for partition := range world.Partitions {
			ticks = append(ticks, world.Message{Partition: fmt.Sprint(partition), Key: "tick", Value: []byte(tick)})
		}
		must.OK(c.t, publish(c.t.Context(), ticks...))
		world.Pause(200 * time.Millisecond)
		live, records := c.live()
		return records == len(want) && maps.Equal(live, want)
	})
	c.t.Logf("%d entities live: %v", len(want), slices.Sorted(maps.Keys(want)))
}
