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
	// Durable: messages outlive a restart of the bus; Restart must be set.
	Durable bool
	// Rejects: there are messages that the bus refuses for good; MaxBytes must be set.
	Rejects bool
	// Stalls: the bus can be made to stand still; Stall must be set.
	Stalls bool
	// Wipes: the bus can be created again; Wipe must be set.
	Wipes bool

	// cuts: Cut is set.
	cuts bool
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
	// MaxBytes is a size of Message.Value: half of it is surely accepted, and what is 16 KiB larger
	// is surely refused.
	MaxBytes int
	// Restart ends the bus hard, as a crash does, and starts it again with the same data; it
	// returns when the bus accepts connections.
	Restart func(t testing.TB)
	// Cut ends all connections of the sink. Optional.
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
	features := probe(t, open)
	runAll(t, open, append([]test{
		{"a batch arrives complete and in order per key", true, "", arrives},
		{"keys arrive as they are, beyond ASCII too", true, "", keys},
		{"an empty batch is acknowledged", true, "", empty},
		{"batches of several goroutines arrive side by side", true, "", concurrent},
		{"a large batch arrives", true, "", large},
		{"a batch is not retained", true, "", notRetained},
		{"a repeated message keeps its id and bytes", true, "", repeated},
		{"a cancelled Publish tells what was acknowledged", true, "", cancelled},
		{"a closed sink publishes nothing", true, "", closed},
		{"an open sink is ready", true, "", ready},
		{"a stalled Publish can be cancelled", features.Stalls, "Stalls", stalledCancel},
		{"a stalled Publish ends with Close", features.Stalls, "Stalls", stalledClose},
		{"a rejected message holds back the later ones of its key", features.Rejects, "Rejects", rejected},
		{"what follows a rejected message can be sent again", features.Rejects, "Rejects", afterRejected},
		{"a bus that was created again takes what is published", features.Wipes, "Wipes", wiped},
		{"a restart of the bus loses nothing", features.Durable, "Durable", restart},
	}, offsetTests(features)...))
}

// RunOffsets runs the part of the suite that compares what outcomes say with what is read.
func RunOffsets(t *testing.T, open func(t *testing.T) Fixture) {
	runAll(t, open, offsetTests(probe(t, open)))
}

func offsetTests(features Features) []test {
	return []test{
		{"acknowledged messages lie where the outcome says", features.Reads, "Reads", locatedWhole},
		{"messages around a rejected one lie where the outcome says", features.Reads && features.Rejects, "Reads and Rejects", locatedAroundRejected},
		{"messages lie where the outcome says over cut connections", features.Reads && features.cuts, "Reads and Cut", locatedOverCuts},
		{"a repeat that the bus drops lies where the first one does", features.Reads && features.Drops, "Reads and Drops", locatedDuplicates},
		{"a message with Again set is stored again", features.Reads, "Reads", locatedRepairs},
	}
}

// test is one test of the suite; missing says what a fixture lacks where it is not asked.
type test struct {
	name    string
	asked   bool
	missing string
	run     func(*testing.T, Fixture)
}

func runAll(t *testing.T, open func(t *testing.T) Fixture, tests []test) {
	for _, test := range tests {
		if !test.asked {
			t.Logf("not asked of this sink, its fixture lacks %s: %s", test.missing, test.name)
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

// probe opens one fixture to see what it offers and that it is whole.
func probe(t *testing.T, open func(t *testing.T) Fixture) Features {
	t.Helper()
	var features Features
	t.Run("the fixture is whole", func(t *testing.T) {
		f := open(t)
		defer f.Sink.Close()
		features = f.Features
		features.cuts = f.Cut != nil
		switch {
		case len(f.Destinations) == 0 || f.Read == nil:
			t.Fatal("a fixture needs Destinations and Read")
		case features.Rejects != (f.MaxBytes > 0), features.Durable != (f.Restart != nil),
			features.Stalls != (f.Stall != nil), features.Wipes != (f.Wipe != nil):
			t.Fatal("Features and the fields of the fixture contradict one another")
		}
		for _, d := range f.Destinations {
			if got := f.Read(t, d); len(got) != 0 {
				t.Fatalf("%s holds %d messages at the start", d, len(got))
			}
		}
	})
	return features
}
