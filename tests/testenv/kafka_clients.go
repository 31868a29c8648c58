package testenv

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// KafkaClient is a client of Kafka that is not ours, in a process of its own.
type KafkaClient struct {
	// Name is that of the client as people know it.
	Name string
	// command makes the arguments of a process that prints count records of topics as JSON, one a
	// line.
	command func(brokers string, count int, topics []string) (args []string, err error)
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
	JavaConsole  = KafkaClient{Name: "Java console consumer", command: javaConsole, parse: javaRecord}
	LibrdKafka   = KafkaClient{Name: "librdkafka (confluent-kafka)", command: python("read_confluent.py")}
	KafkaPython  = KafkaClient{Name: "kafka-python", command: python("read_kafka_python.py")}
	AIOKafka     = KafkaClient{Name: "aiokafka", command: python("read_aiokafka.py")}
	KafkaJS      = KafkaClient{Name: "KafkaJS", command: node}
	KafkaJSPlus  = KafkaClient{Name: "KafkaJS with kafkajs-snappy", command: node, env: []string{"WITH_SNAPPY=1"}}
	clientWithin = 4 * time.Minute
)

// Read returns the first count records of topics, which must hold as many.
func (c *KafkaClient) Read(t testing.TB, k *KafkaServer, count int, topics ...string) []KafkaRecord {
	t.Helper()
	args, err := c.command(strings.Join(k.Brokers(), ","), count, topics)
	if err != nil {
		missing(t, c.Name, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), clientWithin)
	defer cancel()
	if c.parse != nil {
		args = append(args, c.committed...)
	}
	run := exec.CommandContext(ctx, args[0], args[1:]...)
	run.Env = append(os.Environ(), c.env...)
	var stderr bytes.Buffer
	run.Stderr = &stderr
	out, err := run.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s%s", c.Name, err, out, stderr.Bytes())
	}
	var records []KafkaRecord
	for line := range strings.Lines(string(out)) {
		var r KafkaRecord
		if c.parse != nil {
			r, err = c.parse(strings.TrimSuffix(line, "\n"))
		} else {
			err = json.Unmarshal([]byte(line), &r)
		}
		if err != nil {
			t.Fatalf("%s says %q: %v", c.Name, line, err)
		}
		records = append(records, r)
	}
	report("real", c.Name)
	return records
}

// javaConsole runs Kafka's own console consumer.
func javaConsole(brokers string, count int, topics []string) ([]string, error) {
	java, err := exec.LookPath("java")
	if err != nil {
		return nil, err
	}
	libs := kafkaLibs()
	if jars, err := filepath.Glob(filepath.Join(libs, "kafka-tools-[0-9]*.jar")); err != nil || len(jars) == 0 {
		return nil, fmt.Errorf("no kafka-tools in %s", libs)
	}
	args := []string{
		java, "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", libs + "/*",
		"org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server", brokers, "--include", strings.Join(topics, "|"),
		"--from-beginning", "--max-messages", fmt.Sprint(count), "--timeout-ms", "180000",
	}
	for _, property := range []string{"print.key=true", "print.headers=true", "key.separator=\t", "headers.separator=,"} {
		args = append(args, "--property", property)
	}
	return args, nil
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

// fetched returns a path in the cache that is there once scripts/test-deps has made it.
func fetched(dir, path string) (string, error) {
	stamp := filepath.Join(cacheDir(), dir, "done")
	if _, err := os.Stat(stamp); err != nil {
		return "", err
	}
	return filepath.Join(cacheDir(), dir, path), nil
}

func clientScript(name string) string {
	return filepath.Join(root(), "tests", "testenv", "kafka", name)
}

func python(script string) func(string, int, []string) ([]string, error) {
	return func(brokers string, count int, topics []string) ([]string, error) {
		python, err := fetched("python-clients", "bin/python3")
		return append([]string{python, clientScript(script), brokers, fmt.Sprint(count)}, topics...), err
	}
}

func node(brokers string, count int, topics []string) ([]string, error) {
	node, err := exec.LookPath("node")
	if err != nil {
		return nil, err
	}
	modules, err := fetched("node-clients", "node_modules")
	return append([]string{node, clientScript("read_kafkajs.js"), modules, brokers, fmt.Sprint(count)}, topics...), err
}
