package world

import (
	"maps"
	"testing"

	"example.org/bridge/tests/workload"
)

// TestTheJudgeFindsRowsOfEarlierSections plants a tape in a first section and more in a second one,
// whose record has a sixth row, another version of the second.
func TestTheJudgeFindsRowsOfEarlierSections(t *testing.T) {
	for what, c := range map[string]struct {
		first, second planting
		found         string
		repeated      int
	}{
		"nothing in an exact repeat":             {with(), with(message(2, "e-2", "tail")), "", 1},
		"a row that comes again with another id": {with(), with(edited(0, says(plantedID(2), plantedID(7)))([]Message{message(2, "e-2", "late")})...), "repeated otherwise: row 2", 0},
		"a row that is lost, once":               {cut(2), with(), "lost: t-5", 0},
		"nothing in a doubtful row":              {with(), with(message(4, "e-4", "late")), "", 0},
		"a stamp that is used again":             {with(), edited(0, func(m *Message) { m.Headers = stampOf(2, *m) }), "one stamp for two events", 0},
	} {
		t.Run(what, func(t *testing.T) {
			rows, tape := planted()
			j := NewRowJudge(t, rows, Expect{Steady: true})
			next := rows[1]
			next.Token, next.Version = "t-6", 2
			inSection(j, c.first(tape))
			j.AddRows(&next)
			inSection(j, c.second([]Message{message(6, "e-2", "tail")}))
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

func ahead(m Message) planting {
	return func(p []Message) []Message { return append([]Message{m}, p...) }
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
		second   planting
		found    string
		repeated int
	}{
		"nothing in an exact repeat of the last event":                     {ahead(stateMessage(3, 2, "Modified", "x", 1)), "", 1},
		"nothing in a row that has another MODIFIED when it is read again": {ahead(modifiedAt(stateMessage(8, 0, "Added", "X", 4), 2)), "", 1},
		"what says it again":      {ahead(stateMessage(9, 3, "Modified", "x", 1)), `nothing new: a "x"`, 0},
		"a link to another event": {instead(0, stateMessage(4, 2, "TOMBSTONE", "x", 0)), `link: a "x"`, 0},
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
