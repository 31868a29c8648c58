// Package python tests the example in Python.
package python

import (
	"encoding/json"
	"log/slog"
	"maps"
	"testing"

	natsjs "github.com/nats-io/nats.go/jetstream"
	"github.com/twmb/franz-go/pkg/kgo"

	"example.org/bridge/sink"
	"example.org/bridge/sink/jetstream"
	"example.org/bridge/sink/kafka"
	"example.org/bridge/tests/clienttest"
	"example.org/bridge/tests/testall"
	"example.org/bridge/tests/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// table runs the example, which is to print what want says.
func table(t *testing.T, packages string, want map[string]string, args ...string) {
	t.Helper()
	var rows map[string]struct{ Says string }
	if err := json.Unmarshal(testenv.Python("Python with "+packages, packages, "examples/python/table.py", append([]string{clienttest.Stream}, args...)...).Run(t), &rows); err != nil {
		t.Fatal(err)
	}
	got := make(map[string]string)
	for key, row := range rows {
		got[key] = row.Says
	}
	if !maps.Equal(got, want) {
		t.Errorf("the table has %d entities, want %d: %v", len(got), len(want), got)
	}
}

func closing(t *testing.T, s sink.Sink, err error) sink.Sink {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// TestTableOnKafka has entities that moved from one topic to another, and one that a tombstone
// without headers deletes.
func TestTableOnKafka(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	server := testenv.Kafka(t)
	const now, before = "python-now", "python-before"
	for _, topic := range []string{now, before} {
		server.CreateTopic(t, topic, 3, nil)
	}
	o, err := kafka.Open(kafka.Options{Connection: kafka.Connection{Brokers: server.Brokers()}, Logger: slog.New(slog.DiscardHandler)})
	publisher := closing(t, o, err)
	former := clienttest.NewWriter(t, publisher, before, 1)
	former.Write(500, 120)
	w := clienttest.NewWriter(t, publisher, now, 2)
	w.Write(1000, 100)
	want := maps.Clone(former.Table)
	for i := range 100 {
		// All of these have moved, and some are deleted since.
		delete(want, clienttest.Key(i))
	}
	maps.Copy(want, w.Table)
	raw, err := kgo.NewClient(kgo.SeedBrokers(server.Brokers()...))
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	for key := range w.Table {
		if err := raw.ProduceSync(t.Context(), &kgo.Record{Topic: now, Key: []byte(key)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
		delete(want, key)
		break
	}
	table(t, "python-clients", want, "kafka", server.Brokers()[0], before, now)
}

func TestTableOnNATS(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	server := testenv.NATS(t)
	name := server.CreateStream(t, natsjs.StreamConfig{}).CachedInfo().Config.Name
	o, err := jetstream.Open(jetstream.Options{
		Connection: jetstream.Connection{URLs: []string{server.URL()}, Stream: name},
		Published:  []string{name + ".a"},
	})
	w := clienttest.NewWriter(t, closing(t, o, err), name+".a", 1)
	w.Write(1000, 120)
	table(t, "python-nats", w.Table, "nats", server.URL(), name+".*")
}
