package sinktest

import (
	"testing"

	"example.org/bridge/sink"
	"example.org/bridge/tests/must"
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

	destination string
}

// Run runs the suite. It calls open for each test of it.
func Run(t *testing.T, open func(t *testing.T) Fixture) {
	f := open(t)
	must.OK(t, f.Sink.Close())
	runAll(t, []test[Fixture]{
		{"a restart of the bus loses nothing", f.Restart != nil, true, func(t *testing.T, f Fixture) { harmed(t, f, f.Restart) }},
		{"a stalled Publish can be cancelled", f.Stall != nil, true, stalledCancel},
		{"a stalled Publish ends with Close", f.Stall != nil, true, stalledClose},
		{"what is published arrives whole and in order per key", true, false, arrives},
		{"batches of several goroutines arrive side by side", true, false, concurrent},
		{"a repeat keeps its id and bytes, or is dropped", true, false, repeats},
		{"a message with Again set is stored again", f.Features.Reads, false, again},
		{"a cancelled Publish tells what was acknowledged", true, false, cancelled},
		{"a closed sink publishes nothing", true, false, closed},
		{"a rejected message holds back the later ones of its key, which can be sent again", f.MaxBytes > 0, false, rejected},
		{"cut connections lose nothing", f.Cut != nil, false, cut},
		{"a bus that was created again takes what is published", f.Wipe != nil, false, wiped},
	}, open, func(f Fixture) error { return f.Sink.Close() })
}

// test is one test of a suite: asked where the fixture has what it takes, alone where no other may
// run beside it.
type test[F any] struct {
	name         string
	asked, alone bool
	run          func(*testing.T, F)
}

func runAll[F any](t *testing.T, tests []test[F], open func(t *testing.T) F, end func(F) error) {
	for _, test := range tests {
		if !test.asked {
			t.Logf("not asked, the fixture lacks what it takes: %s", test.name)
			continue
		}
		t.Run(test.name, func(t *testing.T) {
			if !test.alone {
				t.Parallel()
			}
			f := open(t)
			t.Cleanup(func() { must.OK(t, end(f)) })
			test.run(t, f)
		})
	}
}
