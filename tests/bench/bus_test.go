package bench

import (
	"encoding/json"
	"strconv"
	"testing"
	"time"
)

// bus is a real bus as the benchmark sees it. A target is a topic or a stream.
type bus interface {
	name() string
	// exactlyOnce returns the bus for programs that publish each event once.
	exactlyOnce() bus
	// product and version are for people.
	product() string
	version() string
	// open makes a target and returns what to set as DESTINATION; drop removes it.
	open(t testing.TB, target string) (destination string)
	drop(t testing.TB, target string)
	// env returns the variables that point the program to the target.
	env(target string) env
	// count returns how many messages the target holds, by its offsets or state.
	count(t testing.TB, target string) int64
	// bytes is how much of the server's disk the target takes.
	bytes(t testing.TB, target string) int64
	// follow calls each for every message from the beginning of the target, with its row and when
	// it was there, until stop is called.
	follow(t testing.TB, target string, each func(arrival)) (stop func())
	// servers are the addresses for a child; library and ours are the works that publish.
	servers() string
	library() string
	ours() string
}

// arrival is a message that a consumer has received.
type arrival struct {
	row   uint64
	at    time.Time
	value []byte
}

// row is a message of a program that publishes rows, with what it may have around them.
type row struct {
	ID      uint64 `json:"id"`
	After   *row   `json:"after"`
	Payload *row   `json:"payload"`
}

// rowOf returns the row of a message: what its header says, or the id in its value. It is 0 for a
// message without one.
func rowOf(header string, value []byte) uint64 {
	if n, err := strconv.ParseUint(header, 10, 64); err == nil {
		return n
	}
	var r row
	if json.Unmarshal(value, &r) != nil {
		return 0
	}
	for r.Payload != nil {
		r = *r.Payload
	}
	if r.After != nil {
		return r.After.ID
	}
	return r.ID
}

// busNames are what --buses takes.
var busNames = []string{"kafka", "jetstream"}

func openBus(t *testing.T, name string) bus {
	t.Helper()
	if name == "kafka" {
		return openKafka(t)
	}
	return openJetStream(t)
}
