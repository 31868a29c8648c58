package verify

import (
	"fmt"
	"strings"

	"bridge/internal/terminal"
)

// faultWords say what a fault is.
var faultWords = map[Fault]string{
	Missing:        "rows without an event",
	Stale:          "rows whose last event says something else",
	Extra:          "events of what no row has",
	OutOfOrder:     "events in the wrong order",
	BrokenLink:     "events that follow one that is not there",
	Altered:        "events that do not fit themselves or their row",
	LostMessage:    "messages that the bus acknowledged and does not hold",
	OtherKey:       "the stream was published under another KIND, KEY or scope than it is configured with",
	Repeated:       "events that are there twice, though they were published with exactly-once",
	OtherPartition: "last events that lie in another partition than that of their key",
	Foreign:        "messages that are no events",
}

// doubtWords say why something was not judged.
var doubtWords = map[Unjudged]string{
	Young:            "rows that came or changed just now",
	Changing:         "rows that change faster than they can be looked at",
	Expired:          "the bus no longer holds its beginning",
	Thinned:          "the bus removes single messages by its own rules",
	NotFromBeginning: "rows from before START",
	Purged:           "events of rows that are gone, as a log may lose them",
	Changed:          "rows of a log that were changed after their event",
	Unproven:         "events whose meta.id cannot be recomputed from what they say",
	Restarted:        "entities whose history begins again, as after bridge checkpoint set",
	Split:            "entities with events in several partitions and without stamps, as after a change of the number of partitions",
	Moved:            "events that follow the last one of their own table, of entities that came from another table",
	TwoRows:          "entities with rows in several tables",
	PutAside:         "events that follow one that the bus refused, a dead letter",
	Unreadable:       "rows that make no event under ON_BAD_VALUE=stop",
	FormerKey:        "events whose records have the key of an earlier version of bridge, which is not that of later events",
	Removed:          "messages that the bus acknowledged, and may have removed by its own rules",
	Uncounted:        "messages whose numbers take too much memory: none was found to be lost or copied by its number",
	NewerForm:        "messages of a newer version of bridge",
}

// repeatWords say what a repeat is.
var repeatWords = map[Repeat]string{
	Copy:  "messages with the stamp of an earlier one, of the same event",
	Again: "messages with the event of an earlier one and another stamp, as after a restart",
}

// KindsOfFault counts the findings that are wrong.
func (r *Report) KindsOfFault() int {
	n := 0
	if r.Foreign.Count > 0 {
		n++
	}
	for _, s := range r.Streams {
		n += len(s.Faults)
	}
	return n
}

// Text is the report for people.
func (r *Report) Text() string {
	var text strings.Builder
	fmt.Fprintf(&text, "bus: %s in %s", number(r.Messages, "message"), terminal.Count(len(r.Partitions), "partition"))
	if r.Others > 0 {
		fmt.Fprintf(&text, ", %d of other sources", r.Others)
	}
	if r.DeadLetters > 0 {
		fmt.Fprintf(&text, ", %s", number(r.DeadLetters, "dead letter"))
	}
	for _, other := range r.OtherDomains {
		writeDomain(&text, other)
	}
	text.WriteString("\n")
	for _, place := range r.Partitions {
		if place.Expired {
			fmt.Fprintf(&text, "    %s begins at %d: what was before has expired\n", place.Partition, place.First)
		}
	}
	writeFinding(&text, r.Foreign.Count, "WRONG", string(r.Foreign.Fault), faultWords[r.Foreign.Fault], r.Foreign.Examples)
	for _, u := range r.Unfit {
		fmt.Fprintf(&text, "stream %s: NOT JUDGED, for its table %s: %s\n", terminal.Visible(u.Stream), terminal.Visible(u.Shard), terminal.Visible(u.What))
	}
	for i := range r.Streams {
		writeStream(&text, &r.Streams[i])
	}
	if r.Good {
		text.WriteString("nothing is wrong, as far as it can be judged\n")
	}
	return text.String()
}

func writeDomain(text *strings.Builder, other OtherDomain) {
	if other.Domain == "" {
		fmt.Fprintf(text, ", %d of further domains", other.Messages)
		return
	}
	fmt.Fprintf(text, ", %d of the domain %s", other.Messages, terminal.Visible(other.Domain))
}

func writeStream(text *strings.Builder, s *Stream) {
	live := number(s.Live, "entity that lives")
	if s.Live != 1 {
		live = fmt.Sprintf("%d entities that live", s.Live)
	}
	if s.Kind == "release" {
		live = number(s.Live, "row") + " with an event"
	}
	if s.Tombstones > 0 {
		live += ", " + number(s.Tombstones, "tombstone")
	}
	fmt.Fprintf(text, "stream %s: %s, %s with %s; %s, %s, %s\n", terminal.Visible(s.Stream), s.Kind,
		terminal.Count(s.Shards, "table"), number(s.Rows, "row"), number(s.Events, "event"), number(s.Repeats, "repeat"), live)
	for _, f := range s.Faults {
		writeFinding(text, f.Count, "WRONG", string(f.Fault), faultWords[f.Fault], f.Examples)
		if f.Fault == Missing {
			writeMissing(text, s)
		}
	}
	for _, f := range s.Healed {
		writeFinding(text, f.Count, "healed, no fault", string(f.Fault), faultWords[f.Fault], f.Examples)
	}
	if s.Rejected > 0 {
		fmt.Fprintf(text, "    of %s above an event is a dead letter: bridge deadletter list names it, bridge deadletter resend publishes what is true\n", terminal.Count(int(s.Rejected), "row"))
	}
	for _, d := range s.Unjudged {
		writeFinding(text, d.Count, "not judged", string(d.Reason), doubtWords[d.Reason], d.Examples)
	}
	for _, r := range s.Repeated {
		writeFinding(text, r.Count, "repeated, no fault", string(r.Repeat), repeatWords[r.Repeat], r.Examples)
	}
}

// writeMissing says where missing rows may be.
func writeMissing(text *strings.Builder, s *Stream) {
	if s.Behind > 0 {
		fmt.Fprintf(text, "        %d of them lie above all rows that were published: is bridge running, and has it caught up?\n", s.Behind)
	}
}

func writeFinding(text *strings.Builder, n uint64, verdict, code, words string, examples []Example) {
	if n == 0 {
		return
	}
	fmt.Fprintf(text, "    %s: %s %d: %s\n", verdict, code, n, words)
	named := uint64(0)
	for _, e := range examples {
		fmt.Fprintf(text, "        %s\n", exampleText(e))
		if named++; e.Lost != nil {
			named += e.Lost.Last - e.Lost.First
		}
	}
	if more := n - named; more > 0 && len(examples) > 0 {
		fmt.Fprintf(text, "        and %d more\n", more)
	}
}

// exampleText names what is known of an example.
func exampleText(e Example) string {
	var parts []string
	if e.Shard != "" {
		parts = append(parts, e.Shard)
	}
	if e.Row > 0 {
		parts = append(parts, fmt.Sprintf("row %d", e.Row))
	}
	if e.Key != "" {
		parts = append(parts, "key "+e.Key)
	}
	if e.Event != "" {
		parts = append(parts, "event "+e.Event)
	}
	if e.Stamp != "" {
		parts = append(parts, "stamp "+e.Stamp)
	}
	if e.Partition != "" {
		parts = append(parts, fmt.Sprintf("at %s %d", e.Partition, e.At))
	}
	return terminal.Visible(strings.Join(parts, ", ") + ": " + e.What)
}

// number is count for large numbers.
func number(n uint64, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
