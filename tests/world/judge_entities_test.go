package world

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"bridge/sink"
	"bridge/tests/workload"
)

// plantedID returns the id of the planted event n.
func plantedID(n int) string { return fmt.Sprintf("00000000-0000-5000-8000-%012d", n) }

// stateMessage returns the planted event n, which follows on prev (0: on none), received n seconds
// after the beginning.
func stateMessage(n, prev int, op, name string, state int) Message {
	reason, kind := "", op
	if op == "TOMBSTONE" || op == "ABSENT_IN_SNAPSHOT" {
		reason, kind = fmt.Sprintf(`"reason":%q,`, op), "Deleted"
	} else {
		reason = fmt.Sprintf(`"state":"s%d",`, state)
	}
	return plantedMessage(n, prev, "Caps"+kind+"Event", "a+"+name, fmt.Sprintf(`"app":"a","name":%q,%s"row":{"source":"db","table":"caps","id":7}`, name, reason))
}

// plantedMessage is an event with a number, which is its second, too.
func plantedMessage(n, prev int, kind, key, data string) Message {
	links := "[]"
	if prev > 0 {
		links = fmt.Sprintf(`[{"type":"PREVIOUS_VERSION","target":%q}]`, plantedID(prev))
	}
	return Message{
		Key: key, At: plantedAt(float64(n)), Partition: "0",
		Headers: map[string]string{
			"eiffel-id": plantedID(n), "eiffel-type": kind, "bridge-row-id": "7", "content-type": "application/json",
			"bridge-origin": "tail", "bridge-domain": "bridge",
			"bridge-state": string(sink.AppendState(nil, &sink.State{Epoch: 1, Seq: uint64(n), Kind: stateKind(data)})),
		},
		Value: fmt.Appendf(nil, `{"meta":{"id":%q,"type":%q,"version":"1.0.0","time":1,"source":{"domainId":"bridge"}},"data":{%s},"links":%s}`,
			plantedID(n), kind, data, links),
	}
}

// modifiedAt is an event of a row with this MODIFIED, in seconds.
func modifiedAt(m Message, seconds int) Message {
	times := strings.NewReplacer(`"time":1`, fmt.Sprintf(`"time":%d`, seconds), `"data":{`, fmt.Sprintf(`"data":{"modified":"2026-01-01T00:00:%02dZ",`, seconds))
	m.Value = []byte(times.Replace(string(m.Value)))
	return m
}

func stateKind(data string) sink.StateKind {
	switch {
	case strings.Contains(data, "TOMBSTONE"):
		return sink.StateTombstone
	case strings.Contains(data, "ABSENT_IN_SNAPSHOT"):
		return sink.StateAbsent
	}
	return sink.StateLive
}

func plantedAt(seconds float64) time.Time {
	return time.Unix(1_000_000, 0).Add(time.Duration(seconds * float64(time.Second)))
}

// plantedStates is what became of two entities, and a tape that fits it.
func plantedStates() ([]workload.History, []Message) {
	version := func(c workload.Condition, state uint64, begun float64) workload.Version {
		return workload.Version{Condition: c, State: state, ID: 7, CommitBegun: plantedAt(begun), CommitEnded: plantedAt(begun + 0.1)}
	}
	histories := []workload.History{
		{App: "a", Name: "x", Versions: []workload.Version{
			version(workload.Live, 1, 0.5), version(workload.Live, 2, 1.5), version(workload.Live, 1, 2.5), version(workload.Tombstone, 0, 3.5),
			version(workload.Absent, 0, 4.2), version(workload.Live, 3, 4.5),
		}},
		{App: "a", Name: "X", Versions: []workload.Version{version(workload.Live, 4, 0.5), version(workload.Live, 5, 1.5)},
			Doubtful: []workload.Version{version(workload.Live, 6, 1.2)}},
	}
	return histories, []Message{
		stateMessage(1, 0, "Added", "x", 1), stateMessage(2, 1, "Modified", "x", 2), stateMessage(3, 2, "Modified", "x", 1),
		stateMessage(4, 3, "TOMBSTONE", "x", 0), stateMessage(5, 4, "Added", "x", 3), stateMessage(6, 0, "Added", "X", 4),
		stateMessage(7, 6, "Modified", "X", 5),
	}
}

func TestTheJudgeFindsInStates(t *testing.T) {
	for what, c := range map[string]struct {
		plant func(p []Message) []Message
		found string
	}{
		"nothing in what is right":           {func(p []Message) []Message { return p }, ""},
		"nothing in a run that is repeated":  {func(p []Message) []Message { return append(p[:5:5], append(p[2:5:5], p[5:]...)...) }, ""},
		"nothing in a state that was missed": {func(p []Message) []Message { return append(p[:5:5], stateMessage(7, 0, "Added", "X", 5)) }, ""},
		"nothing in a proved absence": {func(p []Message) []Message {
			p[3] = stateMessage(4, 3, "ABSENT_IN_SNAPSHOT", "x", 0)
			p[3].At = plantedAt(4.3)
			return p
		}, ""},
		"nothing in a state that did not last": {func(p []Message) []Message {
			return append(p[:6:6], stateMessage(7, 6, "Modified", "X", 6), stateMessage(8, 7, "Modified", "X", 4), stateMessage(9, 8, "Modified", "X", 5))
		}, ""},
		"a state that did not last before its time": {func(p []Message) []Message {
			p[6] = stateMessage(7, 6, "Modified", "X", 6)
			p[6].At = plantedAt(1.1)
			return p
		}, "of no state: a \"X\""},
		"a repeat that ends with an older state": {func(p []Message) []Message { return append(p, p[5]) }, "stale: a \"X\" is s5 at the end, the bus has s4"},
		"an entity that is missing":              {func(p []Message) []Message { return p[:5] }, "missing: a \"X\""},
		"a state that is missing":                {func(p []Message) []Message { return p[:6] }, "stale: a \"X\""},
		"an entity that no table had":            {func(p []Message) []Message { return append(p, stateMessage(9, 0, "Added", "z", 1)) }, "of no entity: a \"z\""},
		"a state that no table had":              {func(p []Message) []Message { p[6] = stateMessage(7, 6, "Modified", "X", 9); return p }, "of no state: a \"X\""},
		"states in the wrong order": {func(p []Message) []Message {
			p[5], p[6] = stateMessage(6, 0, "Added", "X", 5), stateMessage(7, 6, "Modified", "X", 4)
			return p
		}, "out of order: a \"X\""},
		"a delete of what existed all the while": {func(p []Message) []Message {
			return append(p, stateMessage(8, 7, "ABSENT_IN_SNAPSHOT", "X", 0))
		}, "deleted though it existed all the while: a \"X\""},
		"a delete before its time": {func(p []Message) []Message {
			p[3].At = plantedAt(3.2)
			return p
		}, "before its commit: a \"x\""},
		"a delete of what was deleted": {func(p []Message) []Message {
			return append(p[:4:4], stateMessage(5, 4, "ABSENT_IN_SNAPSHOT", "x", 0), stateMessage(8, 5, "Added", "x", 3), p[5], p[6])
		}, "operation: a \"x\" deleted"},
		"an entity that is added twice": {func(p []Message) []Message { p[1] = stateMessage(2, 1, "Added", "x", 2); return p }, "operation: a \"x\" added"},
		"a change of what is not there": {func(p []Message) []Message { p[4] = stateMessage(5, 4, "Modified", "x", 3); return p }, "operation: a \"x\" modified"},
		"a change that changes nothing": {func(p []Message) []Message {
			return append(p, stateMessage(8, 7, "Modified", "X", 5))
		}, "nothing new: a \"X\""},
		"a link that is missing":    {func(p []Message) []Message { p[6] = stateMessage(7, 0, "Modified", "X", 5); return p }, "link: a \"X\""},
		"a link to another event":   {func(p []Message) []Message { p[6] = stateMessage(7, 1, "Modified", "X", 5); return p }, "link: a \"X\""},
		"a first event with a link": {func(p []Message) []Message { p[5] = stateMessage(6, 1, "Added", "X", 4); return p }, "link: a \"X\""},
		"one id for two events": {func(p []Message) []Message {
			other := p[1]
			other.Value = []byte(strings.Replace(string(other.Value), `"time":1`, `"time":2`, 1))
			return append(p, other, p[4])
		}, "one id for two events"},
		"nothing in a row that has another MODIFIED when it is read again": {func(p []Message) []Message {
			again := modifiedAt(p[6], 2)
			p[6] = modifiedAt(p[6], 1)
			return append(p, again)
		}, ""},
		"one id for two states of one MODIFIED": {func(p []Message) []Message {
			p[6] = modifiedAt(p[6], 1)
			other := p[6]
			other.Value = []byte(strings.Replace(string(other.Value), `"s5"`, `"s4"`, 1))
			return append(p, other, p[6])
		}, "one id for two events"},
		"one id for two states and another MODIFIED": {func(p []Message) []Message {
			other := modifiedAt(p[6], 2)
			p[6] = modifiedAt(p[6], 1)
			other.Value = []byte(strings.Replace(string(other.Value), `"s5"`, `"s4"`, 1))
			return append(p, other, p[6])
		}, "one id for two events"},
		"what cannot be decoded": {func(p []Message) []Message { return append(p, Message{Value: []byte("{}")}) }, "no event"},
		"what has no schema": {func(p []Message) []Message {
			p[0].Value = []byte(strings.Replace(string(p[0].Value), `"time":1`, `"at":1`, 1))
			return p
		}, "schema: a \"x\""},
		"a header of another": {func(p []Message) []Message { p[0].Headers = maps.Clone(p[1].Headers); return p }, "header: a \"x\""},
		"another origin":      {func(p []Message) []Message { p[0].Headers["bridge-origin"] = "hearsay"; return p }, "origin: a \"x\""},
		"another key":         {func(p []Message) []Message { p[0].Key = "a+X"; return p }, "key: a \"x\""},
		"no state":            {func(p []Message) []Message { delete(p[0].Headers, sink.HeaderState); return p }, "stamp: "},
		"another domain":      {func(p []Message) []Message { p[0].Headers[sink.HeaderDomain] = "elsewhere"; return p }, "stamp: "},
		"a key in the state": {func(p []Message) []Message {
			p[0].Key = ""
			p[0].Headers[sink.HeaderState] += " k=a+X."
			return p
		}, "key: a \"x\""},
		"a stamp that is used twice": {func(p []Message) []Message {
			p[1].Headers[sink.HeaderState] = p[0].Headers[sink.HeaderState]
			return p
		}, "one stamp for two events: "},
		"a delete that the state does not tell": {func(p []Message) []Message {
			for _, m := range p {
				if strings.Contains(string(m.Value), "TOMBSTONE") {
					m.Headers[sink.HeaderState] = string(sink.AppendState(nil, &sink.State{Epoch: 1, Seq: 77}))
				}
			}
			return p
		}, "stamp: "},
	} {
		t.Run(what, func(t *testing.T) {
			histories, tape := plantedStates()
			r := NewEntityJudge(t, histories, Expect{}).Messages(c.plant(tape))
			if found := r.Wrong(); c.found == "" && found != "" || !strings.Contains(found, c.found) {
				t.Errorf("found %q, want %q", found, c.found)
			}
		})
	}
}

// TestTheJudgeOfAProcessThatStoodStill has it store a repeat behind its successor's messages.
func TestTheJudgeOfAProcessThatStoodStill(t *testing.T) {
	for what, c := range map[string]struct {
		expect Expect
		found  string
	}{
		"nothing where the bus does not fence it": {Expect{Frozen: true}, ""},
		"what says it again where the bus does":   {Expect{}, "nothing new: a \"X\""},
	} {
		t.Run(what, func(t *testing.T) {
			histories, tape := plantedStates()
			late := tape[5]
			late.Headers = maps.Clone(late.Headers)
			for i := range tape {
				tape[i] = byRun(2, tape[i])
			}
			tape = append(tape, late, byRun(2, stateMessage(8, 7, "Modified", "X", 5)))
			if found := NewEntityJudge(t, histories, c.expect).Messages(tape).Wrong(); c.found == "" && found != "" || !strings.Contains(found, c.found) {
				t.Errorf("found %q, want %q", found, c.found)
			}
		})
	}
}

// TestTheJudgeOfACommitWithoutAnAnswer has an entity change behind its last version, or not: the
// bus may have either.
func TestTheJudgeOfACommitWithoutAnAnswer(t *testing.T) {
	for what, c := range map[string]struct {
		condition workload.Condition
		begun     float64
		tape      func(p []Message) []Message
		found     string
	}{
		"nothing where it happened": {workload.Live, 5, func(p []Message) []Message { return append(p, stateMessage(8, 7, "Modified", "X", 8)) }, ""},
		"nothing where it did not":  {workload.Live, 5, func(p []Message) []Message { return p }, ""},
		"nothing where it deleted":  {workload.Tombstone, 5, func(p []Message) []Message { return append(p, stateMessage(8, 7, "TOMBSTONE", "X", 0)) }, ""},
		"an older state":            {workload.Live, 5, func(p []Message) []Message { return append(p, p[5]) }, "stale: a \"X\" is s5 at the end, the bus has s4"},
		"one from before the last version at the end": {workload.Live, 1.2, func(p []Message) []Message {
			return append(p[:6:6], stateMessage(7, 6, "Modified", "X", 8))
		}, "stale: a \"X\" is s5 at the end, the bus has s8"},
		"an entity that is missing": {workload.Live, 5, func(p []Message) []Message { return p[:5] }, "missing: a \"X\""},
	} {
		t.Run(what, func(t *testing.T) {
			histories, tape := plantedStates()
			v := workload.Version{Condition: c.condition, ID: 7, CommitBegun: plantedAt(c.begun), CommitEnded: plantedAt(c.begun + 0.1)}
			if v.Condition == workload.Live {
				v.State = 8
			}
			histories[1].Doubtful = append(histories[1].Doubtful, v)
			if found := NewEntityJudge(t, histories, Expect{}).Messages(c.tape(tape)).Wrong(); c.found == "" && found != "" || !strings.Contains(found, c.found) {
				t.Errorf("found %q, want %q", found, c.found)
			}
		})
	}
}

// TestTheJudgeOfABusThatLostMessages has events follow on one that is gone.
func TestTheJudgeOfABusThatLostMessages(t *testing.T) {
	for what, c := range map[string]struct {
		tape    func(p []Message) []Message
		orphans int
		found   string
	}{
		"the first of its entity":  {func(p []Message) []Message { return append(p[:5:5], p[6]) }, 1, ""},
		"behind an older event":    {func(p []Message) []Message { return append(p[:1:1], p[2:]...) }, 1, ""},
		"on one that is not lost":  {func(p []Message) []Message { p[6] = stateMessage(7, 1, "Modified", "X", 5); return p }, 0, "link: a \"X\""},
		"and the end is not there": {func(p []Message) []Message { return append(p[:4:4], p[6]) }, 1, "missing: a \"x\""},
	} {
		t.Run(what, func(t *testing.T) {
			histories, tape := plantedStates()
			r := NewEntityJudge(t, histories, Expect{Lossy: true}).Messages(c.tape(tape))
			if found := r.Wrong(); r.Orphans != c.orphans || c.found == "" && found != "" || !strings.Contains(found, c.found) {
				t.Errorf("%d orphans, found %q, want %d and %q", r.Orphans, found, c.orphans, c.found)
			}
		})
	}
}

func TestTheJudgeFindsInATable(t *testing.T) {
	at := func(state string) Entry { return Entry{members: map[string]string{"state": state, "ratio": "1e3"}} }
	one, two := EntityKey{"a", "x"}, EntityKey{"a", "X"}
	table := Fold{one: at("s1"), two: at("s2")}
	for what, c := range map[string]struct {
		bus   Fold
		found string
	}{
		"nothing in what is the same":    {Fold{one: at("s1"), two: {members: map[string]string{"state": "s2", "ratio": "1000"}}, {"a", "z"}: {deleted: true}}, ""},
		"what is missing":                {Fold{one: at("s1")}, `missing: a "X"`},
		"what is deleted and should not": {Fold{one: at("s1"), two: {deleted: true}}, `missing: a "X"`},
		"another state":                  {Fold{one: at("s1"), two: at("s1")}, `stale: a "X": state is "s1"`},
		"what is there and should not":   {Fold{one: at("s1"), two: at("s2"), {"a", "z"}: at("s3")}, `extra: a "z"`},
	} {
		t.Run(what, func(t *testing.T) {
			v := newVerdict()
			c.bus.Compare(table, true, &v)
			if found := v.Wrong(); c.found == "" && found != "" || !strings.Contains(found, c.found) {
				t.Errorf("found %q, want %q", found, c.found)
			}
		})
	}
}
