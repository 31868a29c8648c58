package world

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"bridge/sink"
	"bridge/tests/workload"
)

// planted is a record of five rows and a tape that fits it.
func planted() ([]workload.Row, []Message) {
	begun := time.Now()
	row := func(n int, fate workload.Fate) workload.Row {
		return workload.Row{
			Table: "orders", Entity: fmt.Sprintf("e-%d", n), Token: fmt.Sprintf("t-%d", n), Version: 1, Fate: fate,
			Begun: begun, CommitBegun: begun.Add(time.Second), CommitEnded: begun.Add(2 * time.Second),
		}
	}
	rows := []workload.Row{
		row(1, workload.Committed), row(2, workload.Committed), row(3, workload.RolledBack), row(4, workload.Unknown), row(5, workload.Committed),
	}
	// The fifth is another version of the first.
	rows[4].Entity, rows[4].Version = rows[0].Entity, 2
	return rows, []Message{message(1, "e-1", "tail"), message(2, "e-2", "tail"), message(5, "e-1", "tail")}
}

func message(n int, entity, origin string) Message {
	m := plantedMessage(n, 0, "OrdersPublishedEvent", entity,
		fmt.Sprintf(`"token":"t-%d","entity":%q,"row":{"source":"db","table":"orders","id":%d}`, n, entity, n))
	m.Headers["bridge-row-id"], m.Headers["bridge-origin"] = fmt.Sprint(n), origin
	m.At = time.Now().Add(3 * time.Second)
	return m
}

// byRun has a run of the program with this epoch publish a message.
func byRun(epoch uint64, m Message) Message {
	s, err := sink.ParseState(m.Headers[sink.HeaderState])
	if err != nil {
		panic(err)
	}
	s.Epoch = epoch
	m.Headers[sink.HeaderState] = string(sink.AppendState(nil, &s))
	return m
}

// asState makes the event of a capability stream of a planted one.
func asState(m Message) Message {
	m.Headers["eiffel-type"] = "OrdersAddedEvent"
	m.Value = []byte(strings.Replace(string(m.Value), "OrdersPublishedEvent", "OrdersAddedEvent", 1))
	return m
}

func TestTheJudgeFindsInRows(t *testing.T) {
	steady := Expect{Steady: true}
	for what, c := range map[string]struct {
		plant func(rows []workload.Row, tape []Message) []Message
		want  Expect
		found string
	}{
		"nothing in what is right":   {func(_ []workload.Row, p []Message) []Message { return p }, Expect{Steady: true, Ascending: true}, ""},
		"nothing in an exact repeat": {func(_ []workload.Row, p []Message) []Message { return append(p, p[1]) }, Expect{Steady: true, Ascending: true}, ""},
		"nothing in a doubtful row":  {func(_ []workload.Row, p []Message) []Message { return append(p, message(4, "e-4", "late")) }, steady, ""},
		"a lost row":                 {func(_ []workload.Row, p []Message) []Message { return append(p[:1], p[2]) }, steady, "lost: t-2"},
		"a row that was rolled back": {func(_ []workload.Row, p []Message) []Message { return append(p, message(3, "e-3", "late")) }, steady, "rolled back: row 3"},
		"a row before its commit":    {func(rows []workload.Row, p []Message) []Message { p[1].At = rows[1].CommitBegun.Add(-1); return p }, steady, "before its commit: row 2"},
		"an event of no row":         {func(_ []workload.Row, p []Message) []Message { return append(p, message(9, "e-9", "tail")) }, steady, "of no row"},
		"an event of another row":    {func(_ []workload.Row, p []Message) []Message { p[1] = message(2, "e-1", "tail"); return p }, steady, "not the row: row 2"},
		"what is not JSON":           {func(_ []workload.Row, p []Message) []Message { return append(p, Message{Value: []byte("{")}) }, steady, "no event"},
		"nothing in what a process that stood still stores late": {func(_ []workload.Row, p []Message) []Message {
			return []Message{p[1], byRun(2, p[2]), byRun(1, p[0])}
		}, Expect{Frozen: true}, ""},
		"the order of one process":               {func(_ []workload.Row, p []Message) []Message { return []Message{p[1], byRun(2, p[2]), byRun(2, p[0])} }, Expect{Frozen: true}, "order of an entity"},
		"the order where no process stood still": {func(_ []workload.Row, p []Message) []Message { return []Message{p[1], byRun(2, p[2]), byRun(1, p[0])} }, Expect{}, "order of an entity"},
		"a late row that is not marked":          {func(_ []workload.Row, p []Message) []Message { p[1], p[2] = p[2], p[1]; return p }, steady, "not marked as late: row 2"},
		"nothing in the tail behind a row of an entity that was read by its key": {func(_ []workload.Row, p []Message) []Message {
			return []Message{p[0], asState(message(5, "e-1", "reconcile")), asState(message(2, "e-2", "tail"))}
		}, steady, ""},
		"a row ahead of the tail that is marked as late": {func(_ []workload.Row, p []Message) []Message {
			return []Message{p[0], asState(message(5, "e-1", "late")), asState(message(2, "e-2", "tail"))}
		}, steady, "not marked as late: row 2"},
		"a row that the tail has passed and an entity's key brings": {func(_ []workload.Row, p []Message) []Message {
			return []Message{p[0], p[2], asState(message(2, "e-2", "reconcile"))}
		}, steady, "origin: row 2"},
		"a fact that only a reconcile brings": {func(_ []workload.Row, p []Message) []Message {
			return []Message{p[0], message(2, "e-2", "reconcile"), p[2]}
		}, steady, "origin: row 2"},
		"a row ahead of the tail where ids ascend": {func(_ []workload.Row, p []Message) []Message {
			return []Message{p[0], asState(message(5, "e-1", "reconcile")), asState(message(2, "e-2", "tail"))}
		}, Expect{Ascending: true}, "not ascending: row 2"},
		"ids that do not ascend": {func(_ []workload.Row, p []Message) []Message {
			p[1], p[2] = p[2], message(2, "e-2", "late")
			return p
		}, Expect{Ascending: true}, "not ascending: row 2"},
		"an entity in the wrong order": {func(_ []workload.Row, p []Message) []Message {
			p[0], p[2] = p[2], p[0]
			return p
		}, Expect{}, "order of an entity: version 1"},
		"a repeat with other bytes": {func(_ []workload.Row, p []Message) []Message {
			other := p[1]
			other.Value = append([]byte(" "), other.Value...)
			return append(p, other)
		}, steady, "one id for two events"},
		"a repeat with another id": {func(_ []workload.Row, p []Message) []Message {
			other := p[1]
			other.Value = []byte(strings.Replace(string(other.Value), plantedID(2), plantedID(7), 1))
			return append(p, other)
		}, steady, "repeated otherwise: row 2"},
		"two rows of one event id": {func(_ []workload.Row, p []Message) []Message {
			p[1].Value = []byte(strings.Replace(string(p[1].Value), plantedID(2), plantedID(1), 1))
			return p
		}, steady, "one id for two events"},
		"a header of another": {func(_ []workload.Row, p []Message) []Message { p[1].Headers = p[0].Headers; return p }, steady, "header:"},
		"another key":         {func(_ []workload.Row, p []Message) []Message { p[1].Key = "e-9"; return p }, steady, "key:"},
		"what has no schema": {func(_ []workload.Row, p []Message) []Message {
			p[1].Value = []byte(strings.Replace(string(p[1].Value), `"time":1`, `"at":1`, 1))
			return p
		}, steady, "schema:"},
		"an unknown origin": {func(_ []workload.Row, p []Message) []Message { p[1] = message(2, "e-2", ""); return p }, steady, "origin: row 2"},
	} {
		t.Run(what, func(t *testing.T) {
			rows, tape := planted()
			found := NewRowJudge(t, rows, c.want).Messages(c.plant(rows, tape)).Wrong()
			if c.found == "" && found != "" || !strings.Contains(found, c.found) {
				t.Errorf("found %q, want %q", found, c.found)
			}
		})
	}
}
