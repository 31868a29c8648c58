package kafka_test

import (
	"cmp"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"example.org/bridge/sink"
	"example.org/bridge/sink/kafka"
	"example.org/bridge/sink/sinktest"
	"example.org/bridge/tests/faulty/failpoint"
	"example.org/bridge/tests/testenv"
)

// TestClientsReadWhatTheDocsSay has clients that people use, as installed plainly, read what
// docs/how-to.md says that they read: with read_committed, of what was published in transactions
// with aborted ones between them, each message once.
func TestClientsReadWhatTheDocsSay(t *testing.T) {
	t.Parallel()
	k := testenv.Kafka(t)
	const rows, once = 60, "clients-once"
	events := series("", "k", 0, rows, 5)
	topic := func(codec kafka.Compression) string { return "clients-" + string(cmp.Or(codec, "default")) }
	to := func(topic string, batch []sink.Message) []sink.Message {
		batch = slices.Clone(batch)
		for i := range batch {
			batch[i].Destination = topic
		}
		return batch
	}
	for _, codec := range append(kafka.Compressions, "") {
		k.CreateTopic(t, topic(codec), 2, nil)
		sinktest.MustPublish(t, open(t, kafka.Options{Connection: at(k.Brokers()), Compression: codec}), to(topic(codec), events))
	}
	k.CreateTopic(t, once, 2, nil)
	opts := transactional(t, k.Brokers())
	for from := 0; from < rows; from += 20 {
		sinktest.MustPublish(t, fenced(t, opts), to(once, events[from:from+10]))
		// A process that stands still before it commits, and one that takes over from it.
		zombie := fenced(t, opts)
		reached, resume := hangAt(zombie, failpoint.TransactionSent)
		ended := sinktest.Publishing(sinktest.Deadline(t), zombie, series(once, "aborted", from, 10, 5))
		<-reached
		sinktest.MustPublish(t, fenced(t, opts), to(once, events[from+10:from+20]))
		resume()
		if err := <-ended; err == nil {
			t.Fatal("a batch is acknowledged behind a takeover")
		}
	}
	all := consume(t, once, k.Brokers(), kgo.KeepControlRecords())
	if n := len(slices.DeleteFunc(all, func(r *kgo.Record) bool { return r.Attrs.IsControl() })); n != rows+rows/2 {
		t.Errorf("%d records, with the aborted ones", n)
	}
	plain := []kafka.Compression{"", kafka.None, kafka.Gzip}
	for _, test := range []struct {
		client consumer
		codecs []kafka.Compression
	}{
		{javaConsole, append(kafka.Compressions, "")},
		{librdKafka, append(kafka.Compressions, "")},
		{kafkaPython, plain},
		{aioKafka, plain},
		{kafkaJS, plain},
		{kafkaJSPlus, append(plain, kafka.Snappy)},
	} {
		t.Run(test.client.name, func(t *testing.T) {
			t.Parallel()
			topics := []string{once}
			for _, codec := range test.codecs {
				topics = append(topics, topic(codec))
			}
			seen := make(map[consumed]int)
			for _, r := range test.client.read(t, k, rows*len(topics), topics...) {
				// The console consumer does not tell the topic.
				r.Topic = ""
				seen[r]++
			}
			for _, m := range events {
				if want := (consumed{Key: string(m.Key), ID: m.ID, Value: string(m.Value)}); seen[want] != len(topics) {
					t.Fatalf("message %s was seen %d times in %d topics", m.ID, seen[want], len(topics))
				}
			}
		})
	}
}

// consumer is a client of Kafka that is not ours, in a process of its own.
type consumer struct {
	name string
	// program prints count records of topics as JSON, one a line.
	program func(name, brokers string, count int, topics []string) testenv.Foreign
	// parse reads a line, where it is not JSON.
	parse func(line string) (consumed, error)
	// env is added to the environment.
	env string
}

// consumed is what a consumer saw. ID is the header eiffel-id.
type consumed struct{ Topic, Key, ID, Value string }

// The consumers, as scripts/test-deps fetches them.
var (
	javaConsole = consumer{name: "Java console consumer", program: runJava, parse: javaRecord}
	librdKafka  = consumer{name: "librdkafka (confluent-kafka)", program: runPython("read_confluent.py")}
	kafkaPython = consumer{name: "kafka-python", program: runPython("read_kafka_python.py")}
	aioKafka    = consumer{name: "aiokafka", program: runPython("read_aiokafka.py")}
	kafkaJS     = consumer{name: "KafkaJS", program: runKafkaJS}
	kafkaJSPlus = consumer{name: "KafkaJS with kafkajs-snappy", program: runKafkaJS, env: "WITH_SNAPPY=1"}
)

// read returns the first count records of topics, which must hold as many.
func (c consumer) read(t *testing.T, k *testenv.KafkaServer, count int, topics ...string) (records []consumed) {
	t.Helper()
	f := c.program(c.name, strings.Join(k.Brokers(), ","), count, topics)
	if f.Env = append(f.Env, "ISOLATION_LEVEL=read_committed"); c.env != "" {
		f.Env = append(f.Env, c.env)
	}
	if c.parse == nil {
		return testenv.JSONLines[consumed](t, f)
	}
	for line := range strings.Lines(string(f.Run(t))) {
		r, err := c.parse(strings.TrimSuffix(line, "\n"))
		if err != nil {
			t.Fatalf("%s says %q: %v", c.name, line, err)
		}
		records = append(records, r)
	}
	return records
}

func runJava(name, brokers string, count int, topics []string) testenv.Foreign {
	java, err := exec.LookPath("java")
	args := []string{
		java, "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", testenv.KafkaLibs() + "/*",
		"org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server", brokers, "--include", strings.Join(topics, "|"),
		"--from-beginning", "--isolation-level", "read_committed", "--max-messages", fmt.Sprint(count), "--timeout-ms", "180000",
	}
	for _, property := range []string{"print.key=true", "print.headers=true", "key.separator=\t", "headers.separator=,"} {
		args = append(args, "--property", property)
	}
	return testenv.Foreign{Name: name, Missing: err, Args: args}
}

// javaRecord reads a line of the console consumer: headers, key and value.
func javaRecord(line string) (r consumed, err error) {
	parts := strings.SplitN(line, "\t", 3)
	if len(parts) != 3 {
		return r, fmt.Errorf("it has %d parts", len(parts))
	}
	r.Key, r.Value = parts[1], parts[2]
	for header := range strings.SplitSeq(parts[0], ",") {
		if id, ok := strings.CutPrefix(header, "eiffel-id:"); ok {
			r.ID = id
		}
	}
	return r, nil
}

func runPython(script string) func(name, brokers string, count int, topics []string) testenv.Foreign {
	return func(name, brokers string, count int, topics []string) testenv.Foreign {
		return testenv.Python(name, "python-clients", "tests/testenv/kafka/"+script, append([]string{brokers, fmt.Sprint(count)}, topics...)...)
	}
}

func runKafkaJS(name, brokers string, count int, topics []string) testenv.Foreign {
	return testenv.Node(name, "node-clients", "tests/testenv/kafka/read_kafkajs.js", append([]string{brokers, fmt.Sprint(count)}, topics...)...)
}
