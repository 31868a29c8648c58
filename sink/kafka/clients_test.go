package kafka_test

import (
	"testing"

	"example.org/bridge/sink/kafka"
	"example.org/bridge/sink/sinktest"
	"example.org/bridge/tests/faulty/failpoint"
	"example.org/bridge/tests/testenv"
)

// TestClientsReadWhatTheDocsSay has clients that people use, as installed plainly, read what
// docs/how-to.md says that they read.
func TestClientsReadWhatTheDocsSay(t *testing.T) {
	k := testenv.Kafka(t)
	const rows = 20
	for _, codec := range kafka.Compressions {
		topic := clientTopic(codec)
		k.CreateTopic(t, topic, 2, nil)
		publish(t, open(t, kafka.Options{Brokers: k.Brokers(), Compression: codec}), series(topic, "k", 0, rows, 5))
	}
	k.CreateTopic(t, clientTopic(""), 2, nil)
	publish(t, open(t, kafka.Options{Brokers: k.Brokers()}), series(clientTopic(""), "k", 0, rows, 5))
	plain := []kafka.Compression{"", kafka.None, kafka.Gzip}
	for _, test := range []struct {
		client testenv.KafkaClient
		codecs []kafka.Compression
	}{
		{testenv.JavaConsole, append(kafka.Compressions, "")},
		{testenv.LibrdKafka, append(kafka.Compressions, "")},
		{testenv.KafkaPython, plain},
		{testenv.AIOKafka, plain},
		{testenv.KafkaJS, plain},
		{testenv.KafkaJSPlus, append(plain, kafka.Snappy)},
	} {
		t.Run(test.client.Name, func(t *testing.T) {
			t.Parallel()
			var topics []string
			for _, codec := range test.codecs {
				topics = append(topics, clientTopic(codec))
			}
			checkClient(t, test.client.Read(t, k, rows*len(topics), topics...), topics, rows)
		})
	}
}

// clientTopic is the topic of a codec; "" stands for the default.
func clientTopic(codec kafka.Compression) string {
	if codec == "" {
		codec = "default"
	}
	return "clients-" + string(codec)
}

// checkClient holds what a client saw against the series of rows messages in each topic.
func checkClient(t *testing.T, got []testenv.KafkaRecord, topics []string, rows int) {
	t.Helper()
	seen := make(map[testenv.KafkaRecord]int)
	for _, r := range got {
		// The console consumer does not tell the topic.
		r.Topic = ""
		seen[r]++
	}
	for _, m := range series("", "k", 0, rows, 5) {
		if want := (testenv.KafkaRecord{Key: string(m.Key), ID: m.ID, Value: string(m.Value)}); seen[want] != len(topics) {
			t.Fatalf("message %s was seen %d times in %d topics: %d records, the first is %+v", m.ID, seen[want], len(topics), len(got), got[0])
		}
	}
}

// TestClientsReadEachEventOnce has clients that people use read what was published in transactions,
// with batches between them that were aborted: each sees what was committed, once. One that does
// not ask for read_committed sees the others, too.
func TestClientsReadEachEventOnce(t *testing.T) {
	t.Parallel()
	k := testenv.Kafka(t)
	const topic, rows = "clients-once", 60
	k.CreateTopic(t, topic, 2, nil)
	opts := transactional(t, k.Brokers())
	events := series(topic, "k", 0, rows, 5)
	aborted := 0
	for from := 0; from < rows; from += 20 {
		publish(t, fenced(t, opts), events[from:from+10])
		// A process that stands still before it commits, and one that takes over from it.
		zombie := fenced(t, opts)
		reached, resume := hangAt(zombie, failpoint.TransactionSent)
		ended := sinktest.Publishing(deadline(t), zombie, series(topic, "aborted", from, 10, 5))
		<-reached
		publish(t, fenced(t, opts), events[from+10:from+20])
		resume()
		if err := <-ended; err == nil {
			t.Fatal("a batch is acknowledged behind a takeover")
		}
		aborted += 10
	}
	once(t, k, topic, events)
	for _, client := range []testenv.KafkaClient{testenv.JavaConsole, testenv.LibrdKafka, testenv.KafkaPython, testenv.AIOKafka, testenv.KafkaJS} {
		t.Run(client.Name, func(t *testing.T) {
			t.Parallel()
			reader := client.ReadCommitted()
			checkClient(t, reader.Read(t, k, rows, topic), []string{topic}, rows)
		})
	}
	t.Run("without read_committed", func(t *testing.T) {
		t.Parallel()
		if got := testenv.JavaConsole.Read(t, k, rows+aborted, topic); len(got) != rows+aborted {
			t.Errorf("%d records", len(got))
		}
	})
}
