package verify

import (
	"fmt"
	"slices"
	"strings"

	"example.org/bridge/event"
	"example.org/bridge/internal/terminal"
)

// Code names a finding, in reports and in docs/findings.md.
type Code string

type list uint8

const (
	faults list = iota
	unjudged
	repeats
)

type finding struct {
	Code
	list
	words string
}

// findings has every finding, in the order of a report.
var findings []finding

func define(l list, code Code, words string) Code {
	findings = append(findings, finding{code, l, words})
	return code
}

// The faults.
var (
	otherKey       = define(faults, "otherKey", "the stream was published under another KIND, KEY or scope than it is configured with")
	lost           = define(faults, "lost", "messages that the bus acknowledged and does not hold")
	missing        = define(faults, "missing", "rows without an event")
	stale          = define(faults, "stale", "rows whose last event says something else")
	extra          = define(faults, "extra", "events of what no row has")
	outOfOrder     = define(faults, "outOfOrder", "events in the wrong order")
	brokenLink     = define(faults, "brokenLink", "events that follow one that is not there")
	altered        = define(faults, "altered", "events that do not fit themselves or their row")
	repeated       = define(faults, "repeated", "events that are there twice, though they were published with exactly-once")
	otherPartition = define(faults, "otherPartition", "last events that lie in another partition than that of their key")
	foreign        = define(faults, "foreign", "messages that are no events")
)

// What could not be judged.
var (
	young            = define(unjudged, "young", "rows that came or changed just now")
	changing         = define(unjudged, "changing", "rows that change faster than they can be looked at")
	expired          = define(unjudged, "expired", "the bus no longer holds its beginning")
	thinned          = define(unjudged, "thinned", "the bus removes single messages by its own rules")
	notFromBeginning = define(unjudged, "notFromBeginning", "rows from before START")
	purged           = define(unjudged, "purged", "events of rows that are gone, as a log may lose them")
	changed          = define(unjudged, "changed", "rows of a log that were changed after their event, are others under its id, or were published with other columns or types")
	notProven        = define(unjudged, "unproven", "events whose meta.id cannot be recomputed from what they say")
	restarted        = define(unjudged, "anew", "entities whose history begins again, as after bridge checkpoint set")
	moved            = define(unjudged, "moved", "events that follow the last one of their own table, of entities that came from another table")
	twoRows          = define(unjudged, "twoRows", "entities with rows in several tables")
	renamed          = define(unjudged, "renamed", "rows whose event has a former name of their table, as after bridge checkpoint move")
	putAside         = define(unjudged, "deadLetter", "events that follow one that the bus refused, a dead letter")
	unreadable       = define(unjudged, "unreadable", "rows that make no event under ON_BAD_VALUE=stop")
	removed          = define(unjudged, "removed", "messages that the bus acknowledged, and may have removed by its own rules")
	uncounted        = define(unjudged, "uncounted", "messages that take too much memory: none was found to be lost or copied by its number, or to be of a table's former name")
	newerForm        = define(unjudged, "newerForm", "messages of a newer version of bridge")
)

// The repeats of messages with stamps, which are no fault with at-least-once.
var (
	copied = define(repeats, "copy", "messages with the stamp of an earlier one, of the same event")
	again  = define(repeats, "again", "messages with the event of an earlier one and another stamp, as after a restart")
)

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
	// What is the fault, as a phrase.
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

// Finding counts the cases of one code, which is Fault, Reason or Repeat by the list it stands in.
type Finding struct {
	Fault    Code      `json:"fault,omitempty"`
	Reason   Code      `json:"reason,omitempty"`
	Repeat   Code      `json:"repeat,omitempty"`
	Count    uint64    `json:"count"`
	Examples []Example `json:"examples"`
}

// add counts n cases, and keeps examples up to most of them.
func (f *Finding) add(most int, n uint64, examples ...Example) {
	f.Count += n
	f.Examples = append(f.Examples, examples[:min(len(examples), most-len(f.Examples))]...)
}

// Stream has the findings about a stream.
type Stream struct {
	Stream string     `json:"stream"`
	Kind   event.Kind `json:"kind"`
	Shards int        `json:"shards"`
	// Rows were read from the tables, Events from the bus, Repeats among them.
	Rows    uint64 `json:"rows"`
	Events  uint64 `json:"events"`
	Repeats uint64 `json:"repeats"`
	// Republished are those of Events that somebody has asked for again; they are no repeats.
	Republished uint64 `json:"republished"`
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
	Unjudged []Finding `json:"unjudged"`
	// Repeated are the repeats that have stamps.
	Repeated []Finding `json:"repeated"`
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
	Foreign    Finding     `json:"foreign"`
	Partitions []Partition `json:"places"`
}

// OtherDomain counts the messages of another domain. The empty name is that of all further ones.
type OtherDomain struct {
	Domain   string `json:"domain"`
	Messages uint64 `json:"messages"`
}

// tally collects the cases of one stream, a few examples of each.
type tally struct {
	most  int
	found map[Code]*Finding
	// past are faults that are healed where what the bus says last is right.
	past map[Code]*Finding
}

func (t *tally) add(c Code, n uint64, examples ...Example) { t.addTo(t.found, c, n, examples...) }

func (t *tally) addTo(to map[Code]*Finding, c Code, n uint64, examples ...Example) {
	if n == 0 {
		return
	}
	if to[c] == nil {
		to[c] = &Finding{Examples: []Example{}}
	}
	to[c].add(t.most, n, examples...)
}

// addPast takes in a fault of the history of the bus; healed says that bridge has published behind
// it.
func (t *tally) addPast(c Code, n uint64, e Example, healed bool) {
	if healed {
		t.addTo(t.past, c, n, e)
	} else {
		t.add(c, n, e)
	}
}

func (t *tally) fill(s *Stream) {
	if slices.ContainsFunc([]Code{missing, stale, extra, altered}, func(c Code) bool { return t.found[c] != nil }) {
		for c, f := range t.past {
			t.add(c, f.Count, f.Examples...)
		}
		clear(t.past)
	}
	s.Faults, s.Healed, s.Unjudged, s.Repeated = []Finding{}, []Finding{}, []Finding{}, []Finding{}
	for _, of := range findings {
		if f := t.past[of.Code]; f != nil {
			f.Fault = of.Code
			s.Healed = append(s.Healed, *f)
		}
		f := t.found[of.Code]
		if f == nil {
			continue
		}
		switch of.list {
		case faults:
			f.Fault = of.Code
			s.Faults = append(s.Faults, *f)
		case unjudged:
			f.Reason = of.Code
			s.Unjudged = append(s.Unjudged, *f)
		case repeats:
			f.Repeat = of.Code
			s.Repeated = append(s.Repeated, *f)
		}
	}
}

// KindsOfFault counts the findings that are wrong.
func (r *Report) KindsOfFault() int {
	n := int(min(r.Foreign.Count, 1))
	for i := range r.Streams {
		n += len(r.Streams[i].Faults)
	}
	return n
}

// Text is the report for people.
func (r *Report) Text() string {
	text := new(strings.Builder)
	fmt.Fprintf(text, "bus: %s in %s", number(r.Messages, "message"), terminal.Count(len(r.Partitions), "partition"))
	if r.Others > 0 {
		fmt.Fprintf(text, ", %d of other sources", r.Others)
	}
	if r.DeadLetters > 0 {
		fmt.Fprintf(text, ", %s", number(r.DeadLetters, "dead letter"))
	}
	for _, other := range r.OtherDomains {
		if other.Domain == "" {
			fmt.Fprintf(text, ", %d of further domains", other.Messages)
		} else {
			fmt.Fprintf(text, ", %d of the domain %s", other.Messages, terminal.Visible(other.Domain))
		}
	}
	text.WriteString("\n")
	for _, p := range r.Partitions {
		if p.Expired {
			fmt.Fprintf(text, "    %s begins at %d: what was before has expired\n", p.Name, p.First)
		}
	}
	if r.Foreign.Count > 0 {
		r.Foreign.write(text, "WRONG", foreign)
	}
	for _, u := range r.Unfit {
		fmt.Fprintf(text, "stream %s: NOT JUDGED, for its table %s: %s\n", terminal.Visible(u.Stream), terminal.Visible(u.Shard), terminal.Visible(u.What))
	}
	for i := range r.Streams {
		r.Streams[i].write(text)
	}
	if r.Good {
		text.WriteString("nothing is wrong, as far as it can be judged\n")
	}
	return text.String()
}

func (s *Stream) write(text *strings.Builder) {
	live := number(s.Live, "entity that lives")
	if s.Live != 1 {
		live = fmt.Sprintf("%d entities that live", s.Live)
	}
	if s.Kind == "release" {
		live = number(s.Live, "row") + " with an event"
	}
	if s.Republished > 0 {
		live += ", " + number(s.Republished, "event") + " published again on demand"
	}
	if s.Tombstones > 0 {
		live += ", " + number(s.Tombstones, "tombstone")
	}
	fmt.Fprintf(text, "stream %s: %s, %s with %s; %s, %s, %s\n", terminal.Visible(s.Stream), s.Kind,
		terminal.Count(s.Shards, "table"), number(s.Rows, "row"), number(s.Events, "event"), number(s.Repeats, "repeat"), live)
	for _, f := range s.Faults {
		f.write(text, "WRONG", f.Fault)
		if f.Fault == missing && s.Behind > 0 {
			fmt.Fprintf(text, "        %d of them lie above all rows that were published: is bridge running, and has it caught up?\n", s.Behind)
		}
	}
	for _, f := range s.Healed {
		f.write(text, "healed, no fault", f.Fault)
	}
	if s.Rejected > 0 {
		fmt.Fprintf(text, "    of %s above, an event is a dead letter: bridge deadletter list names it, bridge deadletter resend publishes what is true\n", terminal.Count(int(s.Rejected), "row"))
	}
	for _, f := range s.Unjudged {
		f.write(text, "not judged", f.Reason)
	}
	for _, f := range s.Repeated {
		f.write(text, "repeated, no fault", f.Repeat)
	}
}

func (f *Finding) write(text *strings.Builder, verdict string, code Code) {
	words := ""
	for _, of := range findings {
		if of.Code == code {
			words = of.words
		}
	}
	fmt.Fprintf(text, "    %s: %s %d: %s\n", verdict, code, f.Count, words)
	named := uint64(0)
	for _, e := range f.Examples {
		fmt.Fprintf(text, "        %s\n", e.text())
		if named++; e.Lost != nil {
			named += e.Lost.Last - e.Lost.First
		}
	}
	if more := f.Count - named; more > 0 && named > 0 {
		fmt.Fprintf(text, "        and %d more\n", more)
	}
}

func (e *Example) text() string {
	var parts []string
	part := func(known bool, format string, values ...any) {
		if known {
			parts = append(parts, fmt.Sprintf(format, values...))
		}
	}
	part(e.Shard != "", "%s", e.Shard)
	part(e.Row > 0, "row %d", e.Row)
	part(e.Key != "", "key %s", e.Key)
	part(e.Event != "", "event %s", e.Event)
	part(e.Stamp != "", "stamp %s", e.Stamp)
	part(e.Partition != "", "at %s %d", e.Partition, e.At)
	return terminal.Visible(strings.Join(parts, ", ") + ": " + e.What)
}

// number is terminal.Count for large numbers.
func number(n uint64, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
