package verify

import (
	"fmt"
	"strings"

	"example.org/bridge/internal/terminal"
)

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
		fmt.Fprintf(text, "    of %s above an event is a dead letter: bridge deadletter list names it, bridge deadletter resend publishes what is true\n", terminal.Count(int(s.Rejected), "row"))
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
