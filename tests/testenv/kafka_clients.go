package testenv

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// KafkaClient is a client of Kafka that is not ours, in a process of its own.
type KafkaClient struct {
	// Name is that of the client as people know it.
	Name string
	// program prints count records of topics as JSON, one a line.
	program func(name, brokers string, count int, topics []string) foreign
	// parse reads a line, where it is no JSON.
	parse func(line string) (KafkaRecord, error)
	// env is added to the environment. committed are arguments that have the console consumer read
	// committed messages only; the scripts follow a variable.
	env, committed []string
}

// ReadCommitted returns the client with an isolation level of read_committed.
func (c KafkaClient) ReadCommitted() KafkaClient {
	c.Name += " with read_committed"
	c.committed = []string{"--isolation-level", "read_committed"}
	c.env = append(slices.Clone(c.env), "ISOLATION_LEVEL=read_committed")
	return c
}

// KafkaRecord is what a client saw. ID is the header eiffel-id.
type KafkaRecord struct{ Topic, Key, ID, Value string }

// The clients, as scripts/test-deps fetches them.
var (
	JavaConsole = KafkaClient{Name: "Java console consumer", program: javaConsole, parse: javaRecord}
	LibrdKafka  = KafkaClient{Name: "librdkafka (confluent-kafka)", program: python("read_confluent.py")}
	KafkaPython = KafkaClient{Name: "kafka-python", program: python("read_kafka_python.py")}
	AIOKafka    = KafkaClient{Name: "aiokafka", program: python("read_aiokafka.py")}
	KafkaJS     = KafkaClient{Name: "KafkaJS", program: kafkaJS}
	KafkaJSPlus = KafkaClient{Name: "KafkaJS with kafkajs-snappy", program: kafkaJS, env: []string{"WITH_SNAPPY=1"}}
)

// Read returns the first count records of topics, which must hold as many.
func (c *KafkaClient) Read(t testing.TB, k *KafkaServer, count int, topics ...string) (records []KafkaRecord) {
	t.Helper()
	f := c.program(c.Name, strings.Join(k.Brokers(), ","), count, topics)
	f.env = c.env
	if c.parse == nil {
		return jsonLines[KafkaRecord](t, f)
	}
	f.args = append(f.args, c.committed...)
	for line := range strings.Lines(string(f.run(t))) {
		r, err := c.parse(strings.TrimSuffix(line, "\n"))
		if err != nil {
			t.Fatalf("%s says %q: %v", c.Name, line, err)
		}
		records = append(records, r)
	}
	return records
}

// javaConsole runs Kafka's own console consumer.
func javaConsole(name, brokers string, count int, topics []string) foreign {
	java, err := exec.LookPath("java")
	libs := kafkaLibs()
	if jars, _ := filepath.Glob(filepath.Join(libs, "kafka-tools-[0-9]*.jar")); err == nil && len(jars) == 0 {
		err = fmt.Errorf("no kafka-tools in %s", libs)
	}
	args := []string{
		java, "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", libs + "/*",
		"org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server", brokers, "--include", strings.Join(topics, "|"),
		"--from-beginning", "--max-messages", fmt.Sprint(count), "--timeout-ms", "180000",
	}
	for _, property := range []string{"print.key=true", "print.headers=true", "key.separator=\t", "headers.separator=,"} {
		args = append(args, "--property", property)
	}
	return foreign{name: name, missing: err, args: args}
}

// javaRecord reads a line of the console consumer: headers, key and value.
func javaRecord(line string) (r KafkaRecord, err error) {
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

func python(script string) func(name, brokers string, count int, topics []string) foreign {
	return func(name, brokers string, count int, topics []string) foreign {
		script := filepath.Join(Root(), "tests", "testenv", "kafka", script)
		return foreignOf(name, "python-clients", "bin/python3", append([]string{script, brokers, fmt.Sprint(count)}, topics...)...)
	}
}

func kafkaJS(name, brokers string, count int, topics []string) foreign {
	return node(name, "node-clients", "tests/testenv/kafka/read_kafkajs.js", append([]string{brokers, fmt.Sprint(count)}, topics...)...)
}
