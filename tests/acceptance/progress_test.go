package acceptance

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"example.org/bridge/tests/must"
	"example.org/bridge/tests/testall"
	"example.org/bridge/tests/testenv"
	"example.org/bridge/tests/world"
)

type volatile struct {
	*world.World
	t       *testing.T
	bus     *world.Bus
	keep    world.Env
	folders []string
}

func newVolatile(t *testing.T, b *world.Bus, rows int) *volatile {
	t.Helper()
	v := &volatile{World: world.Empty(t, testenv.MariaDB(t)), t: t, bus: b}
	for _, table := range []string{"facts", "states"} {
		v.Exec(`CREATE TABLE ` + table + ` (id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, name VARCHAR(50) NOT NULL, UNIQUE KEY (name)) ENGINE=InnoDB`)
		v.insert(table, "old", rows)
	}
	v.keep = progressOnBus(t, b)
	return v
}

func (v *volatile) insert(table, name string, n int) {
	v.Exec("INSERT INTO "+table+" (name) SELECT CONCAT(?, seq) FROM "+testenv.Sequence(n), name)
}

func (v *volatile) env() world.Env {
	e := v.keep.With(ownFolder(v.t)).With(world.Env{"BRIDGE_RECONCILE_INTERVAL": "2h"})
	v.folders = append(v.folders, strings.TrimPrefix(e["BRIDGE_CHECKPOINT_URL"], "bus://"))
	return e
}

func (v *volatile) publish(start string) *world.Publisher {
	return v.Publish(v.bus, world.Publishing{Path: world.Binary(v.t, world.RaceDetector), Env: v.env(), Follow: true, Streams: []world.Stream{
		{Name: "facts", Table: "facts", Kind: "release", Env: world.Env{"START": start}},
		{Name: "states", Table: "states", Kind: "capability", Env: world.Env{"START": start, "KEY": "name"}},
	}})
}

func (v *volatile) lose() {
	for _, folder := range v.folders {
		must.OK(v.t, os.RemoveAll(folder))
	}
}

func (v *volatile) written(d *world.Daemon, streams ...string) {
	v.t.Helper()
	now := float64(time.Now().UnixMilli()) / 1000
	for _, stream := range streams {
		world.Eventually(v.t, time.Minute, "the progress of "+stream+" is written", func() bool {
			return d.Metric(`bridge_progress_written_seconds{stream="`+stream+`"}`) > now
		})
	}
}

func decided(d *world.Daemon) bool {
	return d.Metric(`bridge_progress_written_seconds{stream="facts"}`) > 0 && d.Metric(`bridge_progress_written_seconds{stream="states"}`) > 0
}

// expect waits until a consumer has seen so many rows of a stream, and fails the test if there are
// others, or if one comes twice.
func (v *volatile) expect(p *world.Publisher, stream string, n int) {
	v.t.Helper()
	world.Eventually(v.t, time.Minute, fmt.Sprintf("%d rows of %s arrive", n, stream), func() bool { return p.Tape(stream).Count() >= n })
	seen := make(map[string]bool)
	for _, m := range p.Tape(stream).All() {
		seen[m.Headers["bridge-row-id"]] = true
	}
	if got := p.Tape(stream).Count(); got != n || len(seen) != n {
		v.t.Errorf("%d messages about %d rows of %s, want %d", got, len(seen), stream, n)
	}
}

// TestAStartThatNoMessageTells kills a bridge that has begun at the latest row and has published
// nothing, and removes its folder: what comes meanwhile is published, what was there is not.
func TestAStartThatNoMessageTells(t *testing.T) {
	testall.Beside(t)
	world.EachBus(t, func(t *testing.T, b *world.Bus) {
		v := newVolatile(t, b, 7)
		p := v.publish("latest")
		p.Start()
		world.Eventually(t, time.Minute, "both tables are begun", func() bool { return decided(p.Daemon) })
		for n := range 2 {
			p.Kill()
			v.lose()
			for _, table := range []string{"facts", "states"} {
				v.insert(table, fmt.Sprint("new", n, "-"), 5)
			}
			p.Start()
			v.expect(p, "facts", 5*(n+1))
			v.expect(p, "states", 5*(n+1))
		}
	})
}

// TestATransactionThatOutlivesTheFolder: an id that is pending far below the position when bridge
// is killed and its folder removed is published once it is committed, by the tail.
func TestATransactionThatOutlivesTheFolder(t *testing.T) {
	testall.Beside(t)
	world.EachBus(t, outlive)
}

func outlive(t *testing.T, b *world.Bus) {
	const rows = 20_000
	v := newVolatile(t, b, 1)
	tx := v.Open("INSERT INTO facts (name) VALUES ('pending')", "INSERT INTO states (name) VALUES ('pending')")
	v.insert("facts", "many", rows)
	v.Exec("INSERT INTO states (id, name) VALUES (?, 'far')", rows)
	p := v.publish("beginning")
	p.Start()
	v.expect(p, "facts", rows+1)
	v.expect(p, "states", 2)
	v.written(p.Daemon, "facts", "states")
	p.Kill()
	v.lose()
	p.Start()
	world.AwaitReady(t, p.Daemon)
	if n := p.Metric(`bridge_catch_up_messages_total{stream="facts"}`); n > rows/2 {
		t.Errorf("the start has read %v messages", n)
	}
	// The reconcile that follows a rebuilt view must not be what finds the row.
	world.Eventually(t, time.Minute, "the reconcile of states has ended", func() bool {
		r := p.Shard("states").Reconcile
		return r != nil && !r.EndedAt.IsZero()
	})
	must.OK(t, tx.Commit())
	v.expect(p, "facts", rows+2)
	v.expect(p, "states", 3)
	for _, stream := range []string{"facts", "states"} {
		all := p.Tape(stream).All()
		if m := all[len(all)-1]; m.Headers["bridge-origin"] != "late" || !strings.Contains(string(m.Value), "pending") {
			t.Errorf("the last message of %s is %s with the origin %s", stream, m.Value, m.Headers["bridge-origin"])
		}
	}
}

// TestAStandbyWithoutVolumes: two processes begin at the latest row, below which ids are pending.
// One that has followed from the beginning takes over; the rows are committed then. Then both lose
// their folders, and one takes over an id that is pending above.
func TestAStandbyWithoutVolumes(t *testing.T) {
	testall.Beside(t)
	world.EachBus(t, func(t *testing.T, b *world.Bus) {
		v := newVolatile(t, b, 7)
		below := v.Open("INSERT INTO facts (name) VALUES ('below')", "INSERT INTO states (name) VALUES ('below')")
		v.insert("facts", "first", 1)
		v.insert("states", "first", 1)
		p := v.publish("latest")
		f := world.NewGroup(p, shortTimeout, v.env(), v.env())
		var worker *world.Member
		works := func() {
			t.Helper()
			world.Eventually(t, time.Minute, "one works, and has begun both tables", func() bool {
				worker = f.Worker()
				return worker != nil && decided(worker.Daemon)
			})
		}
		works()
		both := func(n int) {
			t.Helper()
			v.expect(p, "facts", n)
			v.expect(p, "states", n)
		}
		for _, table := range []string{"facts", "states"} {
			v.insert(table, "second", 1)
		}
		both(1)
		former := worker
		former.Kill()
		works()
		must.OK(t, below.Commit())
		both(2)
		former.Restart()
		tx := v.Open("INSERT INTO facts (name) VALUES ('pending')")
		// Both at once: nothing but the bus knows where the tables began.
		for _, m := range f.Members {
			m.Kill()
		}
		v.lose()
		v.Exec("INSERT INTO facts (id, name) VALUES (200000, 'new')")
		v.insert("states", "new", 3)
		for _, m := range f.Members {
			m.Restart()
		}
		works()
		v.expect(p, "facts", 3)
		v.expect(p, "states", 5)
		v.written(worker.Daemon, "facts")
		// The other one takes over.
		worker.Kill()
		works()
		v.insert("states", "newer", 2)
		v.expect(p, "states", 7)
		must.OK(t, tx.Commit())
		v.expect(p, "facts", 4)
	})
}

// TestCommandsWithProgressOnTheBus: what a command changes holds though its folder is lost.
func TestCommandsWithProgressOnTheBus(t *testing.T) {
	testall.Beside(t)
	world.EachBus(t, func(t *testing.T, b *world.Bus) {
		const rows = 10
		v := newVolatile(t, b, rows)
		p := v.publish("beginning")
		p.Start()
		v.expect(p, "facts", rows)
		v.expect(p, "states", rows)
		p.Term()
		v.lose()
		command := func(want int, args ...string) string {
			t.Helper()
			defer v.lose()
			return types(t, p.Env, want, args...)
		}
		if said := command(0, "checkpoint", "show"); !strings.Contains(said, "facts    facts    10") {
			t.Errorf("show says:\n%s", said)
		}
		if said := command(1, "checkpoint", "set", "states", "states", "0"); !strings.Contains(said, "bus:///") {
			t.Errorf("set of a capability stream says:\n%s", said)
		}
		command(0, "checkpoint", "set", "facts", "facts", "4")
		p.Start()
		all := rows + 6
		if b.NATS != nil {
			// It drops messages with ids that it has.
			all = rows
		}
		world.Eventually(t, time.Minute, "the rows behind the id are published again", func() bool {
			return p.Tape("facts").Count() == all && p.Metric(`bridge_records_total{stream="facts"}`) == 6
		})
		v.expect(p, "states", rows)
		p.Term()
		v.lose()
		command(0, "checkpoint", "rebuild", "facts")
		p.Start()
		world.Eventually(t, time.Minute, "both tables are read", func() bool { return decided(p.Daemon) && p.Position("facts") == rows })
		// What JetStream has is of epochs before the set, and does not count: it is dropped again.
		if n, published := p.Tape("facts").Count(), p.Metric(`bridge_records_total{stream="facts"}`); n != all || published > 0 && b.Kafka != nil {
			t.Errorf("behind the rebuild %v rows were published, and there are %d messages, want %d", published, n, all)
		}
	})
}

// TestPause pauses a stream and a table of another one under load, at least once and exactly once.
// Nothing of them is published until they are resumed, though bridge is killed at random, and loses
// its folder; then nothing is lost, and what was committed meanwhile is there, late rows too.
func TestPause(t *testing.T) {
	testall.Beside(t)
	eachDelivery(t, pause)
}

func rests(d *world.Daemon) bool {
	code, _ := d.Get("/readyz")
	orders, strict := d.Shards(world.Orders), d.Shards(world.Strict)
	return code == http.StatusOK && len(orders)+len(strict) == 2 && orders[0].State == "paused" && strict[0].State == "paused"
}

func pause(t *testing.T, b *world.Bus) {
	p := underLoad(t, b, world.Binary(t, world.RaceDetector), progressOnBus(t, b))
	stop := begins(p)
	open := p.World.Begin("late", 1)
	id := open.FirstID()
	world.Eventually(t, 2*time.Minute, "an open transaction has been passed", func() bool { return p.Position(world.Orders) > id })

	types(t, p.Env, 0, "pause", world.Orders)
	types(t, p.Env, 0, "pause", world.Strict, "--table", world.Strict)
	before := published(p)
	const cuts = 4
	for n := range cuts {
		world.Eventually(t, 2*time.Minute, "both are paused, and bridge is ready", func() bool { return rests(p.Daemon) })
		if p.Metric(`bridge_paused_since_timestamp_seconds`) == 0 || p.Metric(`bridge_shard_state`) == 0 {
			t.Error("the metrics do not say it")
		}
		if n == 1 {
			open.Commit()
		}
		world.Pause(world.Between(0, 2*time.Second))
		p.Kill()
		if n%2 == 1 {
			p.LoseCheckpoint()
		}
		p.Start()
		if n == cuts-1 {
			break
		}
		world.Pause(world.Between(0, time.Second))
	}
	world.Eventually(t, 2*time.Minute, "both are paused still", func() bool { return rests(p.Daemon) })
	if code, body := p.Post("/api/v1/streams/" + world.Strict + "/reconcile"); code != http.StatusConflict || !strings.Contains(body, "bridge resume strict") {
		t.Errorf("a reconcile of a paused stream: %d %s", code, body)
	}
	if after := published(p); after != before {
		t.Errorf("%v messages at the pause, %v later", before, after)
	}
	types(t, p.Env, 1, "resume", world.Orders, "--table", world.Orders)
	at := p.Position(world.Orders)
	types(t, p.Env, 0, "resume", world.Orders)
	world.Eventually(t, 2*time.Minute, "it goes on without a start", func() bool { return p.Position(world.Orders) > at })
	types(t, p.Env, 0, "resume", world.Strict)
	world.Pause(world.Between(0, time.Second))
	p.Kill()
	p.Start()
	arrives(p)
	stop()
	if f := p.MustHold(p.MostRepeats(1), world.Expect{}); f.Late == 0 {
		t.Error("no row was late: the test shows nothing")
	}
}

func published(p *world.Publisher) [2]int {
	return [2]int{len(p.Received(world.Orders)), len(p.Received(world.Strict))}
}
