package world

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"
)

// TestAnEventThatTheBusForgot plants a delete at second 4, and an event that comes again.
func TestAnEventThatTheBusForgot(t *testing.T) {
	gone := stateMessage(4, 3, "ABSENT_IN_SNAPSHOT", "x", 0)
	for what, c := range map[string]struct {
		// behind is how many events come before the one that comes again.
		behind  int
		again   Message
		seconds float64
		run     uint64
		forgets time.Duration
		repeat  bool
	}{
		"the delete, by a later run":              {4, gone, 6, 2, 2 * time.Second, false},
		"the delete, found at another time":       {4, edited(0, says(`"time":1`, `"time":6`))([]Message{gone})[0], 6, 2, 2 * time.Second, false},
		"the first event of the entity":           {4, stateMessage(1, 0, "Added", "x", 1), 6, 2, 2 * time.Second, false},
		"the delete, while the bus keeps it":      {4, gone, 5.9, 2, 2 * time.Second, true},
		"the delete, by the same run":             {4, gone, 6, 1, 2 * time.Second, true},
		"the delete, where the bus keeps all":     {4, gone, 6, 2, 0, true},
		"an event of an entity that is not gone":  {7, stateMessage(6, 0, "Added", "X", 4), 9, 2, 2 * time.Second, true},
		"the last event of one that is not gone":  {7, stateMessage(7, 6, "Modified", "X", 5), 12, 2, 2 * time.Second, true},
		"an event of one that was gone meanwhile": {7, stateMessage(5, 4, "Added", "x", 3), 12, 2, 2 * time.Second, true},
	} {
		t.Run(what, func(t *testing.T) {
			histories, tape := plantedStates()
			tape[3] = gone
			last := c.again
			last.Headers = maps.Clone(last.Headers)
			last = byRun(c.run, last)
			last.Stored, last.Offset = plantedAt(c.seconds), 99
			tape = append(tape[:c.behind:c.behind], last)
			v := NewEntityJudge(t, histories, Expect{Hops: true, Forgets: c.forgets}).Messages(tape)
			if wrong := v.Counts["one id for two events"]; wrong > 0 {
				t.Error(v.Wrong())
			}
			want := 0
			if c.repeat {
				want = 1
			}
			if v.Repeated != want || v.Forgotten != 1-want {
				t.Fatalf("%d repeated, %d forgotten", v.Repeated, v.Forgotten)
			}
			text := strings.Join(v.Repeats, "")
			for _, part := range []string{last.Headers["eiffel-id"], "offset 0 by run 1", fmt.Sprintf("offset 99 by run %d", c.run)} {
				if c.repeat && !strings.Contains(text, part) {
					t.Errorf("%q lacks %q", text, part)
				}
			}
		})
	}
}
