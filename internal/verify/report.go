package verify

import (
	"slices"

	"bridge/event"
)

// Fault is something that is wrong.
type Fault string

// The faults.
const (
	// Missing: a row without an event.
	Missing Fault = "missing"
	// Stale: the last event says something else than the row.
	Stale Fault = "stale"
	// Extra: the last event says that the entity lives, but it has no row; or an event of a row
	// that was never there.
	Extra Fault = "extra"
	// OutOfOrder: an event came before one that it follows.
	OutOfOrder Fault = "outOfOrder"
	// Altered: an event whose bytes, meta.id or headers do not fit.
	Altered Fault = "altered"
	// BrokenLink: an event follows one that the bus does not hold, though it holds its beginning.
	BrokenLink Fault = "brokenLink"
	// LostMessage: a message that the bus has acknowledged and does not hold.
	LostMessage Fault = "lost"
	// OtherKey: the newest message of the stream was published under another KIND, KEY or scope of
	// its entities than the configuration has.
	OtherKey Fault = "otherKey"
	// Repeated: an event that was published with exactly-once and is there twice.
	Repeated Fault = "repeated"
	// OtherPartition: the last message of an entity or a row that lies in another partition than
	// that of its key.
	OtherPartition Fault = "otherPartition"
	// Foreign: a message that is no event at all.
	Foreign Fault = "foreign"
)

// Faults are all faults in the order of a report.
var Faults = []Fault{OtherKey, LostMessage, Missing, Stale, Extra, OutOfOrder, BrokenLink, Altered, Repeated, OtherPartition, Foreign}

// Unjudged is why something could not be judged.
type Unjudged string

// The reasons.
const (
	// Expired: the bus no longer holds its beginning, where the event may have been.
	Expired Unjudged = "expired"
	// Thinned: the bus removes single messages by its own rules.
	Thinned Unjudged = "thinned"
	// NotFromBeginning: START is not the beginning, and the row is older.
	NotFromBeginning Unjudged = "notFromBeginning"
	// Young: the row is younger than the stability window.
	Young Unjudged = "young"
	// Changing: the row changed while it was looked at.
	Changing Unjudged = "changing"
	// Purged: an event of a release whose row is gone.
	Purged Unjudged = "purged"
	// Changed: the row of a release was changed after its event.
	Changed Unjudged = "changed"
	// Unproven: an event whose meta.id cannot be recomputed from what it says.
	Unproven Unjudged = "unproven"
	// Restarted: entities whose history begins a second time, as after bridge checkpoint set.
	Restarted Unjudged = "anew"
	// Split: the events of an entity lie in several partitions and have no stamps, so they have no
	// order among each other.
	Split Unjudged = "split"
	// Moved: an event that follows the last one of its own table, or none, where the entity's last
	// event is of another table.
	Moved Unjudged = "moved"
	// TwoRows: rows of several tables have one key.
	TwoRows Unjudged = "twoRows"
	// PutAside: an event that follows one which the bus refused and which is a dead letter.
	PutAside Unjudged = "deadLetter"
	// Unreadable: a row that makes no event under ON_BAD_VALUE=stop.
	Unreadable Unjudged = "unreadable"
	// FormerKey: an event whose message has the key of a version that escaped nothing in it.
	FormerKey Unjudged = "formerKey"
	// Removed: a message that the bus has acknowledged and does not hold, where it removes messages
	// by its own rules.
	Removed Unjudged = "removed"
	// Uncounted: messages whose numbers do not fit into Options.Numbers: which are lost or copied
	// is not known.
	Uncounted Unjudged = "uncounted"
	// NewerForm: a message with a stamp that only a newer version can read.
	NewerForm Unjudged = "newerForm"
)

// Reasons are all reasons in the order of a report.
var Reasons = []Unjudged{Young, Changing, Expired, Thinned, NotFromBeginning, Purged, Changed, Unproven, Restarted, Split, Moved, TwoRows, PutAside, Unreadable, FormerKey, Removed, Uncounted, NewerForm}

// Repeat is why a message is there again. It is no fault with at-least-once.
type Repeat string

// The repeats of messages with stamps.
const (
	// Copy: a message with the stamp of an earlier one, as the sending of one message twice makes.
	Copy Repeat = "copy"
	// Again: a message with the meta.id of an earlier one and another stamp, as a restart makes.
	Again Repeat = "again"
)

// RepeatKinds are all kinds of repeats in the order of a report.
var RepeatKinds = []Repeat{Copy, Again}

// Example is one case of a finding. What is not known is empty.
type Example struct {
	Shard string `json:"shard,omitempty"`
	Row   uint64 `json:"row,omitempty"`
	// Key is the entity's key as text.
	Key string `json:"key,omitempty"`
	// Event is the meta.id of the event in question, Partition and At are where it lies.
	Event     string `json:"event,omitempty"`
	Partition string `json:"place,omitempty"`
	At        uint64 `json:"at,omitempty"`
	// Stamp is the epoch and seq of the message, as its header bridge-state has them.
	Stamp string `json:"stamp,omitempty"`
	// Lost names messages that are not there.
	Lost *Lost `json:"lost,omitempty"`
	// What says what is wrong, as a phrase.
	What string `json:"what"`

	// partition is an index into Bus.Partitions, -1 where the example lies on no bus.
	partition int
}

// Lost names messages of a shard by their numbers, as the headers bridge-state count them: in a
// term of an epoch, from First to Last, counted from 0. Epoch is hexadecimal, as in the header.
type Lost struct {
	Epoch string `json:"epoch"`
	Term  uint32 `json:"term"`
	First uint64 `json:"first"`
	Last  uint64 `json:"last"`
}

// Finding counts the cases of one fault.
type Finding struct {
	Fault    Fault     `json:"fault"`
	Count    uint64    `json:"count"`
	Examples []Example `json:"examples"`
}

// Doubt counts what could not be judged for one reason.
type Doubt struct {
	Reason   Unjudged  `json:"reason"`
	Count    uint64    `json:"count"`
	Examples []Example `json:"examples"`
}

// Repetition counts the repeats of one kind.
type Repetition struct {
	Repeat   Repeat    `json:"repeat"`
	Count    uint64    `json:"count"`
	Examples []Example `json:"examples"`
}

// Stream is what was found about a stream.
type Stream struct {
	Stream string     `json:"stream"`
	Kind   event.Kind `json:"kind"`
	Shards int        `json:"shards"`
	// Rows were read from the tables, Events from the bus, Repeats among them.
	Rows    uint64 `json:"rows"`
	Events  uint64 `json:"events"`
	Repeats uint64 `json:"repeats"`
	// Tombstones counts the messages without a body, which are no events.
	Tombstones uint64 `json:"tombstones"`
	// Live counts the entities that live by the bus; for a release stream, the rows that have an
	// event.
	Live uint64 `json:"live"`
	// Rejected counts the rows that are missing, stale or extra and have a dead letter.
	Rejected uint64 `json:"rejected"`
	// Behind counts missing rows above the last one that the tail has published.
	Behind uint64    `json:"behind"`
	Faults []Finding `json:"faults"`
	// Healed are faults of the past that bridge has healed.
	Healed   []Finding `json:"healed"`
	Unjudged []Doubt   `json:"unjudged"`
	// Repeated are the repeats that have stamps.
	Repeated []Repetition `json:"repeated"`
}

// Unfit is a stream that could not be judged, for the table that is named: it cannot be read, or
// its rows make no events.
type Unfit struct {
	Stream string `json:"stream"`
	Shard  string `json:"shard"`
	What   string `json:"what"`
}

// Report is what a run found.
type Report struct {
	// Good says that nothing is wrong, as far as it could be judged, and that all streams could be.
	Good bool `json:"good"`
	// Unfit are the streams that are not among Streams.
	Unfit []Unfit `json:"unfit"`
	// Messages counts the messages read, Others the events of other sources among them, and
	// DeadLetters the dead letters.
	Messages    uint64   `json:"messages"`
	Others      uint64   `json:"others"`
	DeadLetters uint64   `json:"deadLetters"`
	Streams     []Stream `json:"streams"`
	// OtherDomains are the messages of other domains, which are passed over.
	OtherDomains []OtherDomain `json:"otherDomains"`
	// Foreign are the messages that are no event of any source.
	Foreign    Finding           `json:"foreign"`
	Partitions []PartitionReport `json:"places"`
}

// OtherDomain counts the messages of another domain. The empty name is that of all further ones.
type OtherDomain struct {
	Domain   string `json:"domain"`
	Messages uint64 `json:"messages"`
}

// PartitionReport is what was read of a partition.
type PartitionReport struct {
	Partition string `json:"place"`
	First     uint64 `json:"first"`
	Next      uint64 `json:"next"`
	Expired   bool   `json:"expired"`
	Thinned   bool   `json:"thinned"`
}

// tally collects the cases of one stream, a few examples of each.
type tally struct {
	most    int
	wrong   map[Fault]*Finding
	reasons map[Unjudged]*Doubt
	repeats map[Repeat]*Repetition
	// deliveries judge the repeats of the stream.
	deliveries *deliveries
	// past are faults that are healed if nothing is wrong now.
	past *tally
}

func newTally(most int) *tally {
	return &tally{most: most, wrong: make(map[Fault]*Finding), past: &tally{most: most, wrong: make(map[Fault]*Finding)},
		reasons: make(map[Unjudged]*Doubt), repeats: make(map[Repeat]*Repetition), deliveries: newDeliveries()}
}

func (t *tally) fault(f Fault, e Example) { t.faults(f, 1, []Example{e}) }

func (t *tally) faults(f Fault, n uint64, examples []Example) {
	found := t.wrong[f]
	if found == nil {
		found = &Finding{Fault: f, Examples: []Example{}}
		t.wrong[f] = found
	}
	found.Count += n
	found.Examples = append(found.Examples, examples[:min(len(examples), t.most-len(found.Examples))]...)
}

// pastFault takes in a fault of the history of the bus; healed says that bridge has published
// behind it.
func (t *tally) pastFault(f Fault, n uint64, e Example, healed bool) {
	if healed {
		t = t.past
	}
	t.faults(f, n, []Example{e})
}

// heal returns the faults that are healed: where what the bus says last is right. Else they are
// faults.
func (t *tally) heal() []Finding {
	healed := t.past.found()
	if !slices.ContainsFunc([]Fault{Missing, Stale, Extra, Altered}, func(f Fault) bool { return t.wrong[f] != nil }) {
		return healed
	}
	for _, past := range healed {
		t.faults(past.Fault, past.Count, past.Examples)
	}
	return []Finding{}
}

// found lists the faults in the order of Faults.
func (t *tally) found() []Finding {
	list := []Finding{}
	for _, f := range Faults {
		if found := t.wrong[f]; found != nil {
			list = append(list, *found)
		}
	}
	return list
}

func (t *tally) doubt(r Unjudged, e Example) { t.doubts(r, 1, e) }

func (t *tally) doubts(r Unjudged, n uint64, examples ...Example) {
	if n == 0 {
		return
	}
	found := t.reasons[r]
	if found == nil {
		found = &Doubt{Reason: r, Examples: []Example{}}
		t.reasons[r] = found
	}
	found.Count += n
	for _, e := range examples {
		if len(found.Examples) < t.most {
			found.Examples = append(found.Examples, e)
		}
	}
}

func (t *tally) repeated(r Repeat, n uint64, examples []Example) {
	found := t.repeats[r]
	if found == nil {
		found = &Repetition{Repeat: r, Examples: []Example{}}
		t.repeats[r] = found
	}
	found.Count += n
	found.Examples = append(found.Examples, examples[:min(len(examples), t.most-len(found.Examples))]...)
}

// report fills in what was found, in the order of Faults and Reasons.
func (t *tally) report(s *Stream) {
	if s.Healed == nil {
		s.Healed = t.heal()
	}
	s.Faults, s.Unjudged, s.Repeated = t.found(), []Doubt{}, []Repetition{}
	for _, r := range Reasons {
		if found := t.reasons[r]; found != nil {
			s.Unjudged = append(s.Unjudged, *found)
		}
	}
	for _, r := range RepeatKinds {
		if found := t.repeats[r]; found != nil {
			s.Repeated = append(s.Repeated, *found)
		}
	}
}

// summarize says whether anything is wrong.
func (r *Report) summarize() {
	r.Good = r.Foreign.Count == 0 && len(r.Unfit) == 0 && !slices.ContainsFunc(r.Streams, func(s Stream) bool { return len(s.Faults) > 0 })
}
