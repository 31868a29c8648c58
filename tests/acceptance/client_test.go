package acceptance

import (
	"context"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"example.org/bridge/client"
	"example.org/bridge/client/jetstream"
	"example.org/bridge/client/kafka"
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

// followTable runs a client.Table of the stream of entities until the test ends.
func followTable(t *testing.T, p *world.Publisher) *client.Table {
	t.Helper()
	table, err := client.NewTable(clientBus(t, p.Bus), client.Options{
		Stream: world.Strict, Destinations: []string{clientReads(p)}, RefreshEvery: time.Second, KeepFor: 20 * time.Second,
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	check(t, err)
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
	check(t, err)
	return bus
}

// clientReads returns the topic of the entities, or their subjects.
func clientReads(p *world.Publisher) string {
	return strings.ReplaceAll(p.Env["BRIDGE_STREAM_"+strings.ToUpper(world.Strict)+"_DESTINATION"], "{type}", ">")
}

// equalsTable waits until a client.Table is the table of the database.
func equalsTable(t *testing.T, w *world.World, table *client.Table) {
	t.Helper()
	wrong := ""
	differs := func() bool {
		var messages []world.Message
		for e := range table.All() {
			messages = append(messages, world.Message{Key: e.Key, Value: e.Body, Headers: map[string]string{"bridge-stream": e.Stream}})
		}
		wrong = w.Difference(world.Strict, messages)
		return wrong != ""
	}
	deadline := time.Now().Add(3 * time.Minute)
	for differs() {
		if time.Now().After(deadline) {
			t.Fatalf("the table has %d entities and differs: %s\n%+v %v", table.Len(), wrong, table.Stats(), table.Err())
		}
		world.Pause(100 * time.Millisecond)
	}
	if table.Len() == 0 {
		t.Error("there is nothing: the test shows nothing")
	}
}
