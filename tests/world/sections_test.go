package world

import (
	"maps"
	"strings"
	"testing"

	"bridge/tests/workload"
)

// TestTheJudgeFindsRowsOfEarlierSections plants a tape in a first section and more in a second one,
// whose record has a sixth row, another version of the second.
func TestTheJudgeFindsRowsOfEarlierSections(t *testing.T) {
	for what, c := range map[string]struct {
		first, second func(p []Message) []Message
		found         string
		repeated      int
	}{
		"nothing in what is right":   {found: ""},
		"nothing in an exact repeat": {second: func(p []Message) []Message { return append(p, message(2, "e-2", "tail")) }, repeated: 1},
		"a repeat with other bytes": {second: func(p []Message) []Message {
			other := message(2, "e-2", "tail")
			other.Value = append([]byte(" "), other.Value...)
			return append(p, other)
		}, repeated: 1, found: "one id for two events"},
		"a row that comes again with another id": {second: func(p []Message) []Message {
			other := message(2, "e-2", "late")
			other.Value = []byte(strings.Replace(string(other.Value), plantedID(2), plantedID(7), 1))
			return append(p, other)
		}, found: "repeated otherwise: row 2"},
		"a row that is lost, once":                {first: func(p []Message) []Message { return p[:2] }, found: "lost: t-5"},
		"a row of the second section, once":       {second: func([]Message) []Message { return nil }, found: "lost: t-6"},
		"a row that was rolled back":              {second: func(p []Message) []Message { return append(p, message(3, "e-3", "late")) }, found: "rolled back: row 3"},
		"nothing in a doubtful row":               {second: func(p []Message) []Message { return append(p, message(4, "e-4", "late")) }},
		"a row of no section":                     {second: func(p []Message) []Message { return append(p, message(9, "e-9", "tail")) }, found: "of no row"},
		"a stamp that is used again":              {second: func(p []Message) []Message { p[0].Headers = stampOf(2, p[0]); return p }, found: "one stamp for two events"},
		"a late row that is not marked":           {second: func(p []Message) []Message { return []Message{ofFirst(p[0])} }, found: "not marked as late: row 1"},
		"another older version of the same row":   {first: func(p []Message) []Message { return []Message{p[1], p[2], p[0]} }, found: "order of an entity: version 1"},
		"nothing in a version of another section": {second: func(p []Message) []Message { return p }},
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
			j.record.(*rowRecord).add(&next)
			inSection(j, more)
			found := j.Wrong()
			if c.found == "" && found != "" || !strings.Contains(found, c.found) {
				t.Errorf("found %q, want %q", found, c.found)
			}
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
	j.endSection()
}

// stampOf returns the headers of a message with the stamp of the planted event n.
func stampOf(n int, m Message) map[string]string {
	headers := maps.Clone(m.Headers)
	headers["bridge-state"] = stateMessage(n, 0, "Added", "x", 1).Headers["bridge-state"]
	return headers
}

// ofFirst returns the message of the sixth row as if that had the id of the first.
func ofFirst(m Message) Message {
	m.Headers = maps.Clone(m.Headers)
	m.Headers["bridge-row-id"] = "1"
	m.Value = []byte(strings.Replace(string(m.Value), `"id":6}`, `"id":1}`, 1))
	return m
}

// TestTheJudgeFindsStatesOfEarlierSections plants the states up to one that stayed in a first
// section.
func TestTheJudgeFindsStatesOfEarlierSections(t *testing.T) {
	for what, c := range map[string]struct {
		second   func(p []Message) []Message
		found    string
		repeated int
	}{
		"nothing in what is right": {second: func(p []Message) []Message { return p }},
		"nothing in an exact repeat of the last event": {second: func(p []Message) []Message {
			return append([]Message{stateMessage(3, 2, "Modified", "x", 1)}, p...)
		}, repeated: 1},
		"nothing in a row that has another MODIFIED when it is read again": {second: func(p []Message) []Message {
			return append([]Message{modifiedAt(stateMessage(8, 0, "Added", "X", 4), 2)}, p...)
		}, repeated: 1},
		"a repeat with another content": {second: func(p []Message) []Message {
			return append([]Message{stateMessage(3, 2, "Modified", "x", 2)}, p...)
		}, found: "one id for two events", repeated: 1},
		"what says it again": {second: func(p []Message) []Message {
			return append([]Message{stateMessage(9, 3, "Modified", "x", 1)}, p...)
		}, found: `nothing new: a "x"`},
		"an older state": {second: func(p []Message) []Message {
			return append([]Message{stateMessage(9, 3, "Modified", "x", 2)}, p...)
		}, found: `out of order: a "x"`},
		"a link to another event":       {second: func(p []Message) []Message { p[0] = stateMessage(4, 2, "TOMBSTONE", "x", 0); return p }, found: `link: a "x"`},
		"an entity that is added twice": {second: func(p []Message) []Message { return append([]Message{stateMessage(9, 3, "Added", "x", 1)}, p...) }, found: `operation: a "x"`},
		"a state that is missing":       {second: func(p []Message) []Message { return p[:2] }, found: `stale: a "X"`},
		"another content of a state": {second: func(p []Message) []Message {
			p[2].Value = []byte(strings.Replace(string(p[2].Value), `"state":"s5"`, `"n":1,"state":"s4"`, 1))
			return p
		}, found: `content: a "X"`},
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
			j.record.(*entityRecord).histories = historiesByEntity(histories)
			inSection(j, c.second(append(tape[3:5:5], stateMessage(7, 8, "Modified", "X", 5))))
			if found := j.Wrong(); c.found == "" && found != "" || !strings.Contains(found, c.found) {
				t.Errorf("found %q, want %q", found, c.found)
			}
			if j.Repeated != c.repeated {
				t.Errorf("%d repeated, want %d", j.Repeated, c.repeated)
			}
		})
	}
}
