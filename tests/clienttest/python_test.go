package clienttest_test

import (
	"encoding/json"
	"maps"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"example.org/bridge/tests/clienttest"
	"example.org/bridge/tests/must"
	"example.org/bridge/tests/testall"
	"example.org/bridge/tests/testenv"
)

func pythonTable(t *testing.T, packages string, want map[string]string, args ...string) {
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

// TestTableOnKafka has entities that moved from one topic to another, and one that a tombstone
// without headers deletes.
func TestTableOnKafka(t *testing.T) {
	testall.Beside(t)
	server := testenv.Kafka(t)
	brokers := server.Brokers()
	const now, before = "python-now", "python-before"
	for _, topic := range []string{now, before} {
		server.CreateTopic(t, topic, 3, nil)
	}
	publisher := kafkaSink(t, brokers)
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
	raw := must.Get(kgo.NewClient(kgo.SeedBrokers(brokers...)))(t)
	defer raw.Close()
	for key := range w.Table {
		must.OK(t, raw.ProduceSync(t.Context(), &kgo.Record{Topic: now, Key: []byte(key)}).FirstErr())
		delete(want, key)
		break
	}
	pythonTable(t, "python-clients", want, "kafka", brokers[0], before, now)
}

func TestTableOnNATS(t *testing.T) {
	testall.Beside(t)
	server := testenv.NATS(t)
	f := onStream(t, server)
	w := clienttest.NewWriter(t, f.Sink, f.Destination, 1)
	w.Write(1000, 120)
	pythonTable(t, "python-nats", w.Table, "nats", server.URL(), f.Reads)
}
