package kafka_test

import (
	"fmt"
	"os/exec"
	"strings"
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
		publish(t, open(t, kafka.Options{Connection: at(k.Brokers()), Compression: codec}), series(topic, "k", 0, rows, 5))
	}
	k.CreateTopic(t, clientTopic(""), 2, nil)
	publish(t, open(t, kafka.Options{Connection: at(k.Brokers())}), series(clientTopic(""), "k", 0, rows, 5))
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
			var topics []string
			for _, codec := range test.codecs {
				topics = append(topics, clientTopic(codec))
			}
			checkClient(t, test.client.read(t, k, rows*len(topics), topics...), topics, rows)
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
func checkClient(t *testing.T, got []consumed, topics []string, rows int) {
	t.Helper()
	seen := make(map[consumed]int)
	for _, r := range got {
		// The console consumer does not tell the topic.
		r.Topic = ""
		seen[r]++
	}
	for _, m := range series("", "k", 0, rows, 5) {
		if want := (consumed{Key: string(m.Key), ID: m.ID, Value: string(m.Value)}); seen[want] != len(topics) {
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
	for _, client := range []consumer{javaConsole, librdKafka, kafkaPython, aioKafka, kafkaJS} {
		t.Run(client.name, func(t *testing.T) {
			t.Parallel()
			client.committed = true
			checkClient(t, client.read(t, k, rows, topic), []string{topic}, rows)
		})
	}
	t.Run("without read_committed", func(t *testing.T) {
		t.Parallel()
		if got := javaConsole.read(t, k, rows+aborted, topic); len(got) != rows+aborted {
			t.Errorf("%d records", len(got))
		}
	})
}

// consumer is a client of Kafka that is not ours, in a process of its own.
type consumer struct {
	name string
	// program prints count records of topics as JSON, one a line.
	program func(name, brokers string, count int, topics []string) testenv.Foreign
	// parse reads a line, where it is not JSON.
	parse func(line string) (consumed, error)
	// env is added to the environment. committed has it read committed messages only.
	env       string
	committed bool
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
	if c.env != "" {
		f.Env = append(f.Env, c.env)
	}
	if c.committed {
		f.Env = append(f.Env, "ISOLATION_LEVEL=read_committed")
	}
	if c.parse == nil {
		return testenv.JSONLines[consumed](t, f)
	}
	if c.committed {
		f.Args = append(f.Args, "--isolation-level", "read_committed")
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

// runJava runs Kafka's own console consumer.
func runJava(name, brokers string, count int, topics []string) testenv.Foreign {
	java, err := exec.LookPath("java")
	args := []string{
		java, "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", testenv.KafkaLibs() + "/*",
		"org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server", brokers, "--include", strings.Join(topics, "|"),
		"--from-beginning", "--max-messages", fmt.Sprint(count), "--timeout-ms", "180000",
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
