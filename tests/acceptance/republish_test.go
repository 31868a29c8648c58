package acceptance

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"example.org/bridge/tests/testall"
	"example.org/bridge/tests/world"
)

// TestRepublish publishes all that both streams have published again, beside writes, while bridge
// is killed at random moments and loses its folder: each event that is still true comes again, with
// its id, and nothing is lost, false or out of order. With exactly-once each comes again once.
func TestRepublish(t *testing.T) {
	testall.Beside(t)
	eachDelivery(t, republish)
}

type lastEvent struct {
	id  string
	row uint64
}

// lastEvents returns the last event of each row of orders, or of each entity of strict, that lives,
// and how often each event was published again.
func lastEvents(t *testing.T, p *world.Publisher, stream string) (last map[string]lastEvent, again map[string]int) {
	t.Helper()
	last, again = make(map[string]lastEvent), make(map[string]int)
	for _, m := range p.Received(stream) {
		e := decode(t, m)
		of := fmt.Sprint(e.RowID)
		if stream == world.Strict {
			of = string(e.Data["app"]) + string(e.Data["name"])
		}
		if last[of] = (lastEvent{e.ID, e.RowID}); e.Reason != "" {
			delete(last, of)
		}
		if e.Origin() == "republish" {
			again[e.ID]++
		}
	}
	return last, again
}

func republish(t *testing.T, b *world.Bus) {
	p := underLoad(t, b, world.Binary(t, world.RaceDetector), progressOnBus(t, b))
	stop := begins(p)
	world.Eventually(t, 2*time.Minute, "some hundred rows are published", func() bool { return p.Position(world.Orders) > 600 })
	streams := []string{world.Orders, world.Strict}
	before := make(map[string]map[string]lastEvent)
	for _, stream := range streams {
		before[stream], _ = lastEvents(t, p, stream)
		types(t, p.Env, 0, "republish", stream, "--from", "1", "--rate", "150")
	}
	types(t, p.Env, 1, "republish", world.Orders, "--to", "5")
	const cuts = 4
	killed(p, cuts)
	for _, stream := range streams {
		world.Eventually(t, 2*time.Minute, stream+" is published again", func() bool { return p.Shard(stream).Republish.State == "done" })
	}
	arrives(p)
	stop()
	p.AllPublished()
	for _, stream := range streams {
		now, again := lastEvents(t, p, stream)
		there := p.World.Pairs("SELECT CAST(id AS CHAR), '' FROM " + stream)
		status, most := p.Shard(stream).Republish, 0
		wanted, beyond := 0, 0
		var lacking []lastEvent
		for of, event := range before[stream] {
			// What has changed, or has another row, came as what it is.
			if _, lives := there[fmt.Sprint(event.row)]; !lives || now[of] != event {
				continue
			}
			// So did what was published ahead of the position that the request goes to.
			if event.row > status.To {
				beyond++
				continue
			}
			if wanted++; again[event.id] == 0 {
				lacking = append(lacking, event)
			}
		}
		for n := range maps.Values(again) {
			most = max(most, n)
		}
		t.Logf("%s: %d of %d events came again, at most %d times, %d were ahead, and status says %+v", stream, len(again), wanted, most, beyond, status)
		if wanted == 0 || len(lacking) > 0 {
			t.Errorf("%s: of %d events these did not come again: %+v", stream, wanted, lacking)
		}
		if b.Once() && most > 1 {
			t.Errorf("%s: an event came again %d times", stream, most)
		}
		_, said, _ := world.Command(t, p.Env, "republish", stream)
		if !strings.Contains(said, "done 100 %") {
			t.Errorf("%s: the command says %s", stream, said)
		}
	}
	byCondition(t, p)
	p.MustHold(p.MostRepeats(cuts), world.Expect{})
}

// byCondition publishes rows again that match a condition, and asks with one that the database
// refuses: that ends the request alone.
func byCondition(t *testing.T, p *world.Publisher) {
	t.Helper()
	_, before := lastEvents(t, p, world.Orders)
	types(t, p.Env, 0, "republish", world.Orders, "--where", "token LIKE '%7'", "--to", "200", "--rate", "0")
	world.Eventually(t, time.Minute, "rows that match are published again", func() bool { return p.Shard(world.Orders).Republish.State == "done" })
	want := len(p.World.Pairs("SELECT CAST(id AS CHAR), '' FROM orders WHERE id <= 200 AND token LIKE '%7'"))
	_, after := lastEvents(t, p, world.Orders)
	got := 0
	for id, n := range after {
		got += n - before[id]
	}
	if want == 0 || got != want {
		t.Errorf("%d rows came again by a condition, want %d", got, want)
	}
	types(t, p.Env, 2, "republish", world.Orders, "--where", "id IN (SELECT 1)")
	types(t, p.Env, 0, "republish", world.Orders, "--where", "no_such_column = 1")
	world.Eventually(t, time.Minute, "a wrong condition ends the request", func() bool { return p.Shard(world.Orders).Republish.State == "failed" })
	if r := p.Shard(world.Orders).Republish; !strings.Contains(string(r.Error), "no_such_column") || p.Shard(world.Orders).State != "running" {
		t.Errorf("a wrong condition: %+v, and the stream is %s", r, p.Shard(world.Orders).State)
	}
	types(t, p.Env, 1, "republish", world.Orders)
}

// Each other time the program starts without its folder.
func killed(p *world.Publisher, cuts int) {
	p.T.Helper()
	for n := range cuts {
		world.Pause(world.Between(200*time.Millisecond, 1500*time.Millisecond))
		p.Kill()
		if n%2 == 1 {
			p.LoseCheckpoint()
		}
		p.Start()
		world.AwaitReady(p.T, p.Daemon)
	}
}
