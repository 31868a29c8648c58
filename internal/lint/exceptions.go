package main

import "strings"

// exception lets what has a prefix break a rule, for a reason.
type exception struct{ prefix, reason string }

// openToClose is the reason for contexts that end with Close and no call passes.
const openToClose = "ends what Open began when Close is called"

const replaced = "is to be replaced by recovery from the bus"

var (
	words = []exception{
		{"internal/lint/", "lists the words"},
		{"tests/world/program.go", "names a flag of go build"},
		{"tests/torture/", "names faults and texts of the page that results were published with, and quotes the log"},
		{"internal/shard/", replaced},
		{"checkpoint/bolt/", replaced},
		{"internal/verify/report.go", "the names of its JSON members stay"},
		{"internal/verify/release_test.go", "the names of its JSON members stay"},
		{"checkpoint/journal", replaced},
		{"sink/recall", replaced},
		{"sink/jetstream/doc.go", "names Recall, which " + replaced},
		{"sink/jetstream/options.go", "names Recall, which " + replaced},
		{"sink/kafka/doc.go", "names Recall, which " + replaced},
		{"internal/app/app.go", "names Recalls, which " + replaced},
		{"internal/app/metrics_test.go", "names a label of a metric that alerts rely on"},
		{"sink/memory/recall", replaced},
		{"sink/sinktest/recall", replaced},
		{"sink/sinktest/fixture", replaced},
		{"sink/embedded/embedded.go", "passes Recall on, which " + replaced},
		{"docs/fault-matrix.md", "is a record of a run, in the words of its day"},
		{"sink/jetstream/recall", replaced},
		{"sink/kafka/recall", replaced},
		{"event/tell", replaced},
	}
	columns = []exception{
		{"internal/shard/", replaced},
		{"checkpoint/bolt/", replaced},
	}
	sleeps = []exception{
		{"internal/shard/", replaced},
		{"checkpoint/bolt/", replaced},
	}
	methods = []exception{
		{"checkpoint/bolt.Store", replaced},
	}
	fields = []exception{
		{"internal/shard.Options", "is configuration, given once"},
	}
	contexts = []exception{
		{"internal/shard.", replaced},
		{"sink/kafka.", openToClose},
		{"sink/jetstream.", openToClose},
		{"sink/stdout.", openToClose},
	}
)

func excepted(rule []exception, name string) bool {
	for _, e := range rule {
		if strings.HasPrefix(name, e.prefix) {
			return true
		}
	}
	return false
}
