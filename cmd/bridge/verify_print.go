package main

import (
	"fmt"
	"strings"

	"bridge/internal/verify"
)

// faultWords say what a fault is.
var faultWords = map[verify.Fault]string{
	verify.Missing:    "rows without an event",
	verify.Stale:      "rows whose last event says something else",
	verify.Extra:      "events of what no row has",
	verify.OutOfOrder: "events in the wrong order",
	verify.BrokenLink: "events that follow one that is not there",
	verify.Altered:    "events that do not fit themselves or their row",
	verify.Foreign:    "messages that are no events",
}

// doubtWords say why something was not judged.
var doubtWords = map[verify.Unjudged]string{
	verify.Young:            "rows that came or changed just now",
	verify.Changing:         "rows that change faster than they can be looked at",
	verify.Expired:          "the bus no longer holds its beginning",
	verify.Thinned:          "the bus removes single messages by its own rules",
	verify.NotFromBeginning: "rows from before START",
	verify.Purged:           "events of rows that are gone, as a log may lose them",
	verify.Changed:          "rows of a log that were changed after their event",
	verify.Unproven:         "events whose meta.id cannot be recomputed from what they say",
	verify.Anew:             "entities whose history begins anew, as after bridge checkpoint set",
	verify.Split:            "entities with events in several places, as after a change of the number of partitions",
	verify.PutAside:         "events that follow one that the bus refused, a dead letter",
	verify.Unreadable:       "rows that make no event under ON_BAD_VALUE=stop",
}

// kindsOfFault counts the findings that are wrong.
func kindsOfFault(r *verify.Report) int {
	n := 0
	if r.Foreign.Count > 0 {
		n++
	}
	for _, s := range r.Streams {
		n += len(s.Faults)
	}
	return n
}

// printVerification prints a report for people.
func (p *process) printVerification(r *verify.Report) error {
	var text strings.Builder
	fmt.Fprintf(&text, "bus: %s in %s", number(r.Messages, "message"), count(len(r.Places), "place"))
	if r.Others > 0 {
		fmt.Fprintf(&text, ", %d of other sources", r.Others)
	}
	if r.DeadLetters > 0 {
		fmt.Fprintf(&text, ", %s", number(r.DeadLetters, "dead letter"))
	}
	text.WriteString("\n")
	for _, place := range r.Places {
		if place.Expired {
			fmt.Fprintf(&text, "    %s begins at %d: what was before has expired\n", place.Place, place.First)
		}
	}
	writeFinding(&text, r.Foreign.Count, "WRONG", string(r.Foreign.Fault), faultWords[r.Foreign.Fault], r.Foreign.Examples)
	for i := range r.Streams {
		writeStream(&text, &r.Streams[i])
	}
	if r.Good {
		text.WriteString("nothing is wrong, as far as it can be judged\n")
	}
	_, err := fmt.Fprint(p.stdout, p.secrets.clean(text.String()))
	return err
}

func writeStream(text *strings.Builder, s *verify.Stream) {
	live := number(s.Live, "entity that lives")
	if s.Live != 1 {
		live = fmt.Sprintf("%d entities that live", s.Live)
	}
	if s.Kind == "release" {
		live = number(s.Live, "row") + " with an event"
	}
	fmt.Fprintf(text, "stream %s: %s, %s with %s; %s, %s, %s\n", visible(s.Stream), s.Kind,
		count(s.Shards, "table"), number(s.Rows, "row"), number(s.Events, "event"), number(s.Repeats, "repeat"), live)
	for _, f := range s.Faults {
		writeFinding(text, f.Count, "WRONG", string(f.Fault), faultWords[f.Fault], f.Examples)
		if f.Fault == verify.Missing {
			writeMissing(text, s)
		}
	}
	if s.Rejected > 0 {
		fmt.Fprintf(text, "    of %s above an event is a dead letter: bridge deadletter list names it, bridge deadletter resend publishes what is true\n", count(int(s.Rejected), "row"))
	}
	for _, d := range s.Unjudged {
		writeFinding(text, d.Count, "not judged", string(d.Reason), doubtWords[d.Reason], d.Examples)
	}
}

// writeMissing says where missing rows may be.
func writeMissing(text *strings.Builder, s *verify.Stream) {
	if s.Behind > 0 {
		fmt.Fprintf(text, "        %d of them lie above all rows that were published: is bridge running, and has it caught up?\n", s.Behind)
	}
}

func writeFinding(text *strings.Builder, n uint64, verdict, code, words string, examples []verify.Example) {
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
func exampleText(e verify.Example) string {
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
	if e.Place != "" {
		parts = append(parts, fmt.Sprintf("at %s %d", e.Place, e.At))
	}
	return visible(strings.Join(parts, ", ") + ": " + e.What)
}

// number is count for large numbers.
func number(n uint64, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
