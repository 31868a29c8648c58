package verify

import (
	"cmp"
	"time"

	"bridge/event"
	"bridge/source"
)

// Options say what to compare.
type Options struct {
	// Shards are the tables, those of a stream side by side.
	Shards []Shard
	// Bus is read, and not closed.
	Bus Bus
	// Examples is how many examples of each finding are kept. Defaults to 10; a negative number is
	// none.
	Examples int
	// Rounds is how often what does not fit is looked at again before it is reported, Pause the
	// time before each round. They default to 3 and 1 s; a stability window makes the pause longer,
	// so that all rounds together outlast it, up to a minute.
	Rounds int
	Pause  time.Duration
	// Domain is the event domain: messages of another one are passed over. Empty: any.
	Domain string
	// Numbers is the memory for the numbers of messages, in bytes: one bit for each, where those
	// around it have not been read yet. Defaults to 64 MiB.
	Numbers int
	// Progress is told now and then what is done. Optional.
	Progress func(Step)
}

// Step says how far a run is.
type Step struct {
	// What is being done, as a verb phrase.
	What string
	// Done of Total are done; Total is 0 where it is not known.
	Done, Total uint64
}

// Shard is one table with what its events look like.
type Shard struct {
	// Stream and Name are the stream's and the shard's names.
	Stream, Name string
	Kind         event.Kind
	// Source reads the table.
	Source source.Shard
	// Encoder encodes its rows; it is the check's own.
	Encoder *event.Encoder
	// Zone is the zone of DATETIME columns. Defaults to UTC.
	Zone *time.Location
	// Window is the stability window.
	Window time.Duration
	// Latest and After are START: rows that were there before are not expected on the bus.
	Latest bool
	After  uint64
	// Apart says that the entities of a capability shard are its own, as without a KEY: an id in
	// another table is another entity. Else the tables of a stream share their entities.
	Apart bool
	// Hash is that of kind, key columns and scope, as sink.State has it. 0: not compared.
	Hash uint32
	// Destinations are the topics of the shard; unused for a bus without them.
	Destinations []string
	// Text returns what a finding says of an error of Encoder. Defaults to its Error.
	Text func(error) string
}

func (s *Shard) text(err error) string {
	if s.Text == nil {
		return err.Error()
	}
	return s.Text(err)
}

func (o Options) withDefaults() Options {
	o.Examples = max(cmp.Or(o.Examples, 10), 0)
	o.Rounds = cmp.Or(max(o.Rounds, 0), 3)
	o.Pause = cmp.Or(o.Pause, time.Second)
	o.Numbers = cmp.Or(o.Numbers, 64<<20)
	if o.Progress == nil {
		o.Progress = func(Step) {}
	}
	return o
}
