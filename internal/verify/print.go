package verify

import (
	"fmt"
	"strings"

	"bridge/internal/terminal"
)

// faultWords say what a fault is.
var faultWords = map[Fault]string{
	Missing:    "rows without an event",
	Stale:      "rows whose last event says something else",
	Extra:      "events of what no row has",
	OutOfOrder: "events in the wrong order",
	BrokenLink: "events that follow one that is not there",
	Altered:    "events that do not fit themselves or their row",
	Foreign:    "messages that are no events",
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
	Split:            "entities with events in several partitions, as after a change of the number of partitions",
	PutAside:         "events that follow one that the bus refused, a dead letter",
	Unreadable:       "rows that make no event under ON_BAD_VALUE=stop",
	FormerKey:        "events whose records have the key of an earlier version of bridge, which is not that of later events",
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
	text.WriteString("\n")
	for _, place := range r.Partitions {
		if place.Expired {
			fmt.Fprintf(&text, "    %s begins at %d: what was before has expired\n", place.Partition, place.First)
		}
	}
	writeFinding(&text, r.Foreign.Count, "WRONG", string(r.Foreign.Fault), faultWords[r.Foreign.Fault], r.Foreign.Examples)
	for i := range r.Streams {
		writeStream(&text, &r.Streams[i])
	}
	if r.Good {
		text.WriteString("nothing is wrong, as far as it can be judged\n")
	}
	return text.String()
}

func writeStream(text *strings.Builder, s *Stream) {
	live := number(s.Live, "entity that lives")
	if s.Live != 1 {
		live = fmt.Sprintf("%d entities that live", s.Live)
	}
	if s.Kind == "release" {
		live = number(s.Live, "row") + " with an event"
	}
	fmt.Fprintf(text, "stream %s: %s, %s with %s; %s, %s, %s\n", terminal.Visible(s.Stream), s.Kind,
		terminal.Count(s.Shards, "table"), number(s.Rows, "row"), number(s.Events, "event"), number(s.Repeats, "repeat"), live)
	for _, f := range s.Faults {
		writeFinding(text, f.Count, "WRONG", string(f.Fault), faultWords[f.Fault], f.Examples)
		if f.Fault == Missing {
			writeMissing(text, s)
		}
	}
	if s.Rejected > 0 {
		fmt.Fprintf(text, "    of %s above an event is a dead letter: bridge deadletter list names it, bridge deadletter resend publishes what is true\n", terminal.Count(int(s.Rejected), "row"))
	}
	for _, d := range s.Unjudged {
		writeFinding(text, d.Count, "not judged", string(d.Reason), doubtWords[d.Reason], d.Examples)
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
	for _, e := range examples {
		fmt.Fprintf(text, "        %s\n", exampleText(e))
	}
	if more := n - uint64(len(examples)); more > 0 && len(examples) > 0 {
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
