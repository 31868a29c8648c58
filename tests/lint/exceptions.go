package main

import "strings"

// exceptions let what begins with a prefix break a rule, for a reason.
type exceptions map[string]string

const openToClose = "ends what Open began when Close is called"

var (
	words = exceptions{
		"tests/lint/":                   "lists the words",
		"tests/world/program.go":        "names a flag of go build",
		"tests/way/":                    "names a flag of go build",
		"tests/faulty/mistakes_test.go": "names a flag of go test",
		"tests/torture/":                "names faults and texts of the page that results were published with, and quotes the log",
		"internal/verify/findings.go":   "the names of its JSON members stay",
		"internal/app/metrics_test.go":  "names a label of a metric that alerts rely on",
		"internal/shard/metrics.go":     "names a label of a metric that alerts rely on",
		"docs/fault-matrix.md":          "is a record of a run, in the words of its day",
	}
	// schemes begin URLs of buses and databases, and kinds are the folders of one kind of them.
	schemes = []string{"kafka", "nats", "embedded", "stdout", "mysql", "sqlite"}
	kinds   = []string{
		"internal/driver/", "sink/kafka/", "sink/jetstream/", "sink/embedded/", "sink/stdout/", "source/mysql/", "source/sqlite/", "examples/", "tests/",
	}
	fields   = exceptions{"internal/shard.Options": "is configuration, given once"}
	contexts = exceptions{
		"internal/shard.nomination": "is a request that another goroutine serves until its caller leaves",
		"sink/kafka.":               openToClose,
		"client/kafka/broker.":      openToClose,
		"client/jetstream/server.":  openToClose,
		"sink/jetstream.":           openToClose,
		"sink/stdout.":              openToClose,
	}
)

func (e exceptions) cover(name string) bool {
	for prefix := range e {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}
