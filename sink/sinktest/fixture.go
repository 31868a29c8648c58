package sinktest

import (
	"testing"

	"bridge/sink"
)

// Features says what a bus can show, beyond what every sink must do.
type Features struct {
	// Keys: the consumer sees message keys.
	Keys bool
	// Headers: the consumer sees message headers.
	Headers bool
	// Reads: the sink is a sink.Reader too, and outcomes tell the offset of each message.
	Reads bool
	// Drops: the bus drops repeats by their DedupID, for longer than a test lasts.
	Drops bool
}

// Fixture is one sink with a bus that holds nothing yet on the destinations named.
type Fixture struct {
	// Sink is under test. The suite closes it at the end of the test.
	Sink sink.Sink
	// Destinations are one or more that exist and are empty. For a bus with TPs that share no
	// order (partitions), the first should have several.
	Destinations []string
	// Read returns what a consumer independent of the sink sees on destination from its beginning
	// to its end at this moment, each TP in its order.
	Read func(t testing.TB, destination string) []Record
	// Features says what else to ask.
	Features Features

	// What follows is optional, and what a bus cannot do is not asked.

	// MaxBytes is a size of Message.Value: half of it is surely accepted, and what is 16 KiB larger
	// is surely refused for good.
	MaxBytes int
	// Restart ends the bus hard, as a crash does, and starts it again with the same data; it
	// returns when the bus accepts connections.
	Restart func(t testing.TB)
	// Cut ends all connections of the sink.
	Cut func(t testing.TB)
	// Stall makes the bus stop answering until resume is called.
	Stall func(t testing.TB) (resume func())
	// Wipe removes the destinations with their messages and creates them again.
	Wipe func(t testing.TB)
}

// Record is one message as a consumer sees it.
type Record struct {
	// ID is the message's id: from the header, else from meta.id of the event.
	ID string
	// Key is nil where the bus carries none.
	Key []byte
	// Value is the event.
	Value []byte
	// Headers by name; more than those of the message may be there.
	Headers map[string]string
}

// Run runs the suite. It calls open for each test of it.
func Run(t *testing.T, open func(t *testing.T) Fixture) {
	f := probe(t, open)
	runAll(t, open, append([]test{
		{"a batch arrives complete and in order per key", true, arrives},
		{"keys arrive as they are, beyond ASCII too", true, keys},
		{"an empty batch is acknowledged", true, empty},
		{"batches of several goroutines arrive side by side", true, concurrent},
		{"a large batch arrives", true, large},
		{"a batch is not retained", true, notRetained},
		{"a repeated message keeps its id and bytes", true, repeated},
		{"a cancelled Publish tells what was acknowledged", true, cancelled},
		{"a closed sink publishes nothing", true, closed},
		{"an open sink is ready", true, ready},
		{"a stalled Publish can be cancelled", f.Stall != nil, stalledCancel},
		{"a stalled Publish ends with Close", f.Stall != nil, stalledClose},
		{"a rejected message holds back the later ones of its key, which can be sent again", f.MaxBytes > 0, rejected},
		{"a bus that was created again takes what is published", f.Wipe != nil, wiped},
		{"a restart of the bus loses nothing", f.Restart != nil, restart},
	}, offsetTests(f)...))
}

// RunOffsets runs the part of the suite that compares what outcomes say with what is read.
func RunOffsets(t *testing.T, open func(t *testing.T) Fixture) {
	f := probe(t, open)
	runAll(t, open, append(offsetTests(f), test{"messages around a rejected one lie where the outcome says", f.MaxBytes > 0, rejected}))
}

func offsetTests(f Fixture) []test {
	return []test{
		{"acknowledged messages lie where the outcome says", f.Features.Reads, locatedWhole},
		{"messages lie where the outcome says over cut connections", f.Features.Reads && f.Cut != nil, locatedOverCuts},
		{"a repeat that the bus drops lies where the first one does", f.Features.Reads && f.Features.Drops, locatedDuplicates},
		{"a message with Again set is stored again", f.Features.Reads, locatedRepairs},
	}
}

// test is one test of the suite, and whether a fixture is asked.
type test struct {
	name  string
	asked bool
	run   func(*testing.T, Fixture)
}

func runAll(t *testing.T, open func(t *testing.T) Fixture, tests []test) {
	for _, test := range tests {
		if !test.asked {
			t.Logf("not asked of this sink: %s", test.name)
			continue
		}
		t.Run(test.name, func(t *testing.T) {
			f := open(t)
			t.Cleanup(func() {
				if err := f.Sink.Close(); err != nil {
					t.Errorf("Close: %v", err)
				}
			})
			test.run(t, f)
		})
	}
}

// probe opens one fixture to see what it offers.
func probe(t *testing.T, open func(t *testing.T) Fixture) (f Fixture) {
	t.Helper()
	t.Run("a sink is opened and closed", func(t *testing.T) {
		f = open(t)
		if err := f.Sink.Close(); err != nil {
			t.Fatal(err)
		}
	})
	return f
}
