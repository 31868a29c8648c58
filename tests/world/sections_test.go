package world

import (
	"maps"
	"strings"
	"testing"

	"example.org/bridge/tests/workload"
)

// TestTheJudgeFindsRowsOfEarlierSections plants a tape in a first section and more in a second one,
// whose record has a sixth row, another version of the second.
func TestTheJudgeFindsRowsOfEarlierSections(t *testing.T) {
	for what, c := range map[string]struct {
		first, second func(p []Message) []Message
		found         string
		repeated      int
	}{
		"nothing in an exact repeat": {second: func(p []Message) []Message { return append(p, message(2, "e-2", "tail")) }, repeated: 1},
		"a row that comes again with another id": {second: func(p []Message) []Message {
			other := message(2, "e-2", "late")
			other.Value = []byte(strings.Replace(string(other.Value), plantedID(2), plantedID(7), 1))
			return append(p, other)
		}, found: "repeated otherwise: row 2"},
		"a row that is lost, once":   {first: func(p []Message) []Message { return p[:2] }, found: "lost: t-5"},
		"nothing in a doubtful row":  {second: func(p []Message) []Message { return append(p, message(4, "e-4", "late")) }},
		"a stamp that is used again": {second: func(p []Message) []Message { p[0].Headers = stampOf(2, p[0]); return p }, found: "one stamp for two events"},
	} {
		t.Run(what, func(t *testing.T) {
			rows, tape := planted()
			j := NewRowJudge(t, rows, Expect{Steady: true})
			next := rows[1]
			next.Token, next.Version = "t-6", 2
			more := []Message{message(6, "e-2", "tail")}
			if c.first != nil {
				tape = c.first(tape)
			}
			if c.second != nil {
				more = c.second(more)
			}
			inSection(j, tape)
			j.AddRows(&next)
			inSection(j, more)
			finds(t, &j.Verdict, c.found)
			if j.Repeated != c.repeated || len(j.Lost) > 1 {
				t.Errorf("%d repeated, want %d; %d lost", j.Repeated, c.repeated, len(j.Lost))
			}
			// Two rows may still come: the one that was rolled back and the doubtful one.
			if kept := j.record.(*rowRecord); len(kept.rows) > 2 || len(kept.newest) > 0 {
				t.Errorf("%d rows and %d entities are kept", len(kept.rows), len(kept.newest))
			}
		})
	}
}

func inSection(j *Judge, tape []Message) {
	for _, m := range tape {
		j.Message(m)
	}
	j.EndSection()
}

// stampOf returns the headers of a message with the stamp of the planted event n.
func stampOf(n int, m Message) map[string]string {
	headers := maps.Clone(m.Headers)
	headers["bridge-state"] = stateMessage(n, 0, "Added", "x", 1).Headers["bridge-state"]
	return headers
}

// TestTheJudgeFindsStatesOfEarlierSections plants the states up to one that stayed in a first
// section.
func TestTheJudgeFindsStatesOfEarlierSections(t *testing.T) {
	for what, c := range map[string]struct {
		second   func(p []Message) []Message
		found    string
		repeated int
	}{
		"nothing in an exact repeat of the last event": {second: func(p []Message) []Message {
			return append([]Message{stateMessage(3, 2, "Modified", "x", 1)}, p...)
		}, repeated: 1},
		"nothing in a row that has another MODIFIED when it is read again": {second: func(p []Message) []Message {
			return append([]Message{modifiedAt(stateMessage(8, 0, "Added", "X", 4), 2)}, p...)
		}, repeated: 1},
		"what says it again": {second: func(p []Message) []Message {
			return append([]Message{stateMessage(9, 3, "Modified", "x", 1)}, p...)
		}, found: `nothing new: a "x"`},
		"a link to another event": {second: func(p []Message) []Message { p[0] = stateMessage(4, 2, "TOMBSTONE", "x", 0); return p }, found: `link: a "x"`},
	} {
		t.Run(what, func(t *testing.T) {
			histories, tape := plantedStates()
			j := NewEntityJudge(t, []workload.History{
				{App: "a", Name: "x", Versions: histories[0].Versions[:3]}, {App: "a", Name: "X", Versions: histories[1].Versions[:1]},
			}, Expect{})
			first := append(tape[:3:3], modifiedAt(stateMessage(8, 0, "Added", "X", 4), 1))
			inSection(j, first)
			if wrong := j.Wrong(); wrong != "" {
				t.Fatal(wrong)
			}
			if value := j.record.(*entityRecord).chains[EntityKey{"a", "x"}].last.Value; value != nil {
				t.Errorf("%s is kept", value)
			}
			j.SetHistories(histories)
			inSection(j, c.second(append(tape[3:5:5], stateMessage(7, 8, "Modified", "X", 5))))
			finds(t, &j.Verdict, c.found)
			if j.Repeated != c.repeated {
				t.Errorf("%d repeated, want %d", j.Repeated, c.repeated)
			}
		})
	}
}
