package world

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"example.org/bridge/client/bus"
	"example.org/bridge/tests/testenv"
	"example.org/bridge/tests/workload"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// Nothing is to be found where want is empty.
func finds(t *testing.T, v *Verdict, want string) {
	t.Helper()
	if found := v.Wrong(); want == "" && found != "" || !strings.Contains(found, want) {
		t.Errorf("found %q, want %q", found, want)
	}
}

func plantedID(n int) string { return fmt.Sprintf("00000000-0000-5000-8000-%012d", n) }

// stateMessage returns the planted event n, which follows on prev (0: on none), received n seconds
// after the beginning.
func stateMessage(n, prev int, op, name string, state int) Message {
	reason, kind := "", op
	if op == "TOMBSTONE" || op == "FILTERED" || op == "ABSENT_IN_SNAPSHOT" {
		reason, kind = fmt.Sprintf(`"reason":%q,`, op), "Deleted"
	} else {
		reason = fmt.Sprintf(`"state":"s%d",`, state)
	}
	return plantedMessage(n, prev, "Caps"+kind+"Event", "a+"+name, fmt.Sprintf(`"app":"a","name":%q,%s"row":{"source":"db","table":"caps","id":7}`, name, reason))
}

// The number is its second, too.
func plantedMessage(n, prev int, kind, key, data string) Message {
	links := "[]"
	if prev > 0 {
		links = fmt.Sprintf(`[{"type":"PREVIOUS_VERSION","target":%q}]`, plantedID(prev))
	}
	return Message{
		Key: key, Stored: plantedAt(float64(n)), At: plantedAt(float64(n)), Partition: "0",
		Headers: map[string]string{
			"eiffel-id": plantedID(n), "eiffel-type": kind, "bridge-row-id": "7", "content-type": "application/json",
			"bridge-origin": "tail", "bridge-domain": "bridge",
			"bridge-state": string(bus.AppendState(nil, &bus.State{Epoch: 1, Seq: uint64(n), Kind: stateKind(data)})),
		},
		Value: fmt.Appendf(nil, `{"meta":{"id":%q,"type":%q,"version":"1.0.0","time":1,"source":{"domainId":"bridge"}},"data":{%s},"links":%s}`,
			plantedID(n), kind, data, links),
	}
}

func modifiedAt(m Message, seconds int) Message {
	times := strings.NewReplacer(`"time":1`, fmt.Sprintf(`"time":%d`, seconds), `"data":{`, fmt.Sprintf(`"data":{"modified":"2026-01-01T00:00:%02dZ",`, seconds))
	m.Value = []byte(times.Replace(string(m.Value)))
	return m
}

func stateKind(data string) bus.StateKind {
	switch {
	case strings.Contains(data, "TOMBSTONE"), strings.Contains(data, "FILTERED"):
		return bus.StateTombstone
	case strings.Contains(data, "ABSENT_IN_SNAPSHOT"):
		return bus.StateAbsent
	}
	return bus.StateLive
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

// planted is a record of five rows and a tape that fits it.
func planted() ([]workload.Row, []Message) {
	begun := time.Now()
	row := func(n int, outcome workload.Outcome) workload.Row {
		return workload.Row{
			Table: "orders", Entity: fmt.Sprintf("e-%d", n), Token: fmt.Sprintf("t-%d", n), Version: 1, Outcome: outcome,
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

func byRun(epoch uint64, m Message) Message {
	s, err := bus.ParseState(m.Headers[bus.HeaderState])
	if err != nil {
		panic(err)
	}
	s.Epoch = epoch
	m.Headers[bus.HeaderState] = string(bus.AppendState(nil, &s))
	return m
}

func asState(m Message) Message {
	m.Headers["eiffel-type"] = "OrdersAddedEvent"
	m.Value = []byte(strings.Replace(string(m.Value), "OrdersPublishedEvent", "OrdersAddedEvent", 1))
	return m
}

type planting func(p []Message) []Message

// with adds messages, cut does so behind the first n, instead replaces one.
func with(more ...Message) planting { return func(p []Message) []Message { return append(p, more...) } }

func cut(n int, more ...Message) planting {
	return func(p []Message) []Message { return append(p[:n:n], more...) }
}

func instead(i int, m Message) planting { return func(p []Message) []Message { p[i] = m; return p } }

// added adds message i once more, changed.
func edited(i int, change func(m *Message)) planting {
	return func(p []Message) []Message { change(&p[i]); return p }
}

func added(i int, change func(m *Message)) planting {
	return func(p []Message) []Message {
		m := p[i]
		m.Headers = maps.Clone(m.Headers)
		change(&m)
		return append(p, m)
	}
}

func says(was, is string) func(*Message) {
	return func(m *Message) { m.Value = []byte(strings.Replace(string(m.Value), was, is, 1)) }
}

func TestTheJudgeFindsInRows(t *testing.T) {
	steady := Expect{Steady: true}
	strictly := Expect{Steady: true, Ascending: true}
	for what, c := range map[string]struct {
		plant planting
		want  Expect
		found string
	}{
		"nothing in what is right":   {with(), strictly, ""},
		"nothing in an exact repeat": {added(1, func(*Message) {}), strictly, ""},
		"nothing in a doubtful row":  {with(message(4, "e-4", "late")), steady, ""},
		"a lost row":                 {func(p []Message) []Message { return append(p[:1], p[2]) }, steady, "lost: t-2"},
		"a row that was rolled back": {with(message(3, "e-3", "late")), steady, "rolled back: row 3"},
		"a row before its commit":    {edited(1, func(m *Message) { m.At = m.At.Add(-2500 * time.Millisecond) }), steady, "before its commit: row 2"},
		"an event of no row":         {with(message(9, "e-9", "tail")), steady, "of no row"},
		"an event of another row":    {instead(1, message(2, "e-1", "tail")), steady, "not the row: row 2"},
		"what is not JSON":           {with(Message{Value: []byte("{")}), steady, "no event"},
		"nothing in what a process that stood still stores late": {
			func(p []Message) []Message { return []Message{p[1], byRun(2, p[2]), byRun(1, p[0])} }, Expect{Frozen: true}, "",
		},
		"the order of one process": {
			func(p []Message) []Message { return []Message{p[1], byRun(2, p[2]), byRun(2, p[0])} }, Expect{Frozen: true}, "order of an entity",
		},
		"the order where no process stood still": {
			func(p []Message) []Message { return []Message{p[1], byRun(2, p[2]), byRun(1, p[0])} }, Expect{}, "order of an entity",
		},
		"a late row that is not marked": {func(p []Message) []Message { return []Message{p[0], p[2], p[1]} }, steady, "not marked as late: row 2"},
		"nothing in the tail behind a row of an entity that was read by its key": {
			cut(1, asState(message(5, "e-1", "reconcile")), asState(message(2, "e-2", "tail"))), steady, "",
		},
		"a row ahead of the tail that is marked as late": {
			cut(1, asState(message(5, "e-1", "late")), asState(message(2, "e-2", "tail"))), steady, "not marked as late: row 2",
		},
		"a row that the tail has passed and an entity's key brings": {
			func(p []Message) []Message { return []Message{p[0], p[2], asState(message(2, "e-2", "reconcile"))} }, steady, "origin: row 2",
		},
		"a fact that only a reconcile brings": {instead(1, message(2, "e-2", "reconcile")), steady, "origin: row 2"},
		"ids that do not ascend": {
			func(p []Message) []Message { return []Message{p[0], p[2], message(2, "e-2", "late")} }, Expect{Ascending: true}, "not ascending: row 2",
		},
		"an entity in the wrong order": {func(p []Message) []Message { return []Message{p[2], p[1], p[0]} }, Expect{}, "order of an entity: version 1"},
		"a repeat with other bytes":    {added(1, func(m *Message) { m.Value = append([]byte(" "), m.Value...) }), steady, "one id for two events"},
		"a repeat with another id":     {added(1, says(plantedID(2), plantedID(7))), steady, "repeated otherwise: row 2"},
		"a header of another":          {func(p []Message) []Message { p[1].Headers = p[0].Headers; return p }, steady, "header:"},
		"another key":                  {edited(1, func(m *Message) { m.Key = "e-9" }), steady, "key:"},
		"what has no schema":           {edited(1, says(`"time":1`, `"at":1`)), steady, "schema:"},
		"an unknown origin":            {instead(1, message(2, "e-2", "")), steady, "origin: row 2"},
	} {
		t.Run(what, func(t *testing.T) {
			rows, tape := planted()
			finds(t, NewRowJudge(t, rows, c.want).Messages(c.plant(tape)), c.found)
		})
	}
}

func TestTheJudgeFindsInStates(t *testing.T) {
	at := func(m Message, seconds float64) Message { m.At = plantedAt(seconds); return m }
	modified := func(seconds int) func(*Message) {
		return func(m *Message) { *m = modifiedAt(*m, seconds) }
	}
	for what, c := range map[string]struct {
		plant  planting
		found  string
		expect Expect
	}{
		"nothing in what is right":           {with(), "", Expect{}},
		"nothing in a run that is repeated":  {func(p []Message) []Message { return slices.Concat(p[:5], p[2:]) }, "", Expect{}},
		"nothing in a state that was missed": {cut(5, stateMessage(7, 0, "Added", "X", 5)), "", Expect{}},
		"nothing in a proved absence":        {instead(3, at(stateMessage(4, 3, "ABSENT_IN_SNAPSHOT", "x", 0), 4.3)), "", Expect{}},
		"nothing in a state that did not last": {
			cut(6, stateMessage(7, 6, "Modified", "X", 6), stateMessage(8, 7, "Modified", "X", 4), stateMessage(9, 8, "Modified", "X", 5)), "", Expect{},
		},
		"a state that did not last before its time": {instead(6, at(stateMessage(7, 6, "Modified", "X", 6), 1.1)), `of no state: a "X"`, Expect{}},
		"an entity that no table had":               {with(stateMessage(9, 0, "Added", "z", 1)), `of no entity: a "z"`, Expect{}},
		"a state that no table had":                 {instead(6, stateMessage(7, 6, "Modified", "X", 9)), `of no state: a "X"`, Expect{}},
		"states in the wrong order":                 {cut(5, stateMessage(6, 0, "Added", "X", 5), stateMessage(7, 6, "Modified", "X", 4)), `out of order: a "X"`, Expect{}},
		"a delete of what existed all the while":    {with(stateMessage(8, 7, "ABSENT_IN_SNAPSHOT", "X", 0)), `deleted though it existed all the while: a "X"`, Expect{}},
		"a delete before its time":                  {edited(3, func(m *Message) { m.At = plantedAt(3.2) }), `before its commit: a "x"`, Expect{}},
		"an entity that is added twice":             {instead(1, stateMessage(2, 1, "Added", "x", 2)), `operation: a "x" added`, Expect{}},
		"a change of what is not there":             {instead(4, stateMessage(5, 4, "Modified", "x", 3)), `operation: a "x" modified`, Expect{}},
		"a change that changes nothing":             {with(stateMessage(8, 7, "Modified", "X", 5)), `nothing new: a "X"`, Expect{}},
		"a link to another event":                   {instead(6, stateMessage(7, 1, "Modified", "X", 5)), `link: a "X"`, Expect{}},
		"a first event with a link":                 {instead(5, stateMessage(6, 1, "Added", "X", 4)), `link: a "X"`, Expect{}},
		"one id for two events":                     {added(1, says(`"time":1`, `"time":2`)), "one id for two events", Expect{}},
		"nothing in a row that has another MODIFIED when it is read again": {
			func(p []Message) []Message {
				return append(edited(6, modified(1))(slices.Clone(p)), modifiedAt(p[6], 2))
			}, "", Expect{},
		},
		"one id for two states of one MODIFIED": {
			func(p []Message) []Message { return added(6, says(`"s5"`, `"s4"`))(edited(6, modified(1))(p)) }, "one id for two events", Expect{},
		},
		"another origin":             {edited(0, func(m *Message) { m.Headers["bridge-origin"] = "hearsay" }), `origin: a "x"`, Expect{}},
		"another key":                {edited(0, func(m *Message) { m.Key = "a+X" }), `key: a "x"`, Expect{}},
		"no state":                   {edited(0, func(m *Message) { delete(m.Headers, bus.HeaderState) }), "stamp: ", Expect{}},
		"a key in the state":         {edited(0, func(m *Message) { m.Key = ""; m.Headers[bus.HeaderState] += " k=a+X." }), `key: a "x"`, Expect{}},
		"a stamp that is used twice": {func(p []Message) []Message { p[1].Headers = stampOf(1, p[1]); return p }, "one stamp for two events: ", Expect{}},
		"a delete that the state does not tell": {edited(3, func(m *Message) {
			m.Headers[bus.HeaderState] = string(bus.AppendState(nil, &bus.State{Epoch: 1, Seq: 77}))
		}), "stamp: ", Expect{}},
		"nothing in what one that stood still stores late":          {stoodStill, "", Expect{Frozen: true}},
		"what says it again where the bus does not store that":      {stoodStill, `nothing new: a "X"`, Expect{}},
		"nothing in the first of an entity behind one that is lost": {func(p []Message) []Message { return append(p[:5:5], p[6]) }, "", Expect{Lossy: true}},
		"nothing in one behind an older event than that":            {func(p []Message) []Message { return append(p[:1:1], p[2:]...) }, "", Expect{Lossy: true}},
		"a link to what is not lost":                                {instead(6, stateMessage(7, 1, "Modified", "X", 5)), `link: a "X"`, Expect{Lossy: true}},
		"nothing in topic-partitions that are read one by one":      {elsewhere(stateMessage(7, 6, "Modified", "X", 5)), "", Expect{Hops: true}},
		"a link to another event there":                             {elsewhere(stateMessage(7, 1, "Modified", "X", 5)), `link: a "X"`, Expect{Hops: true}},
		"an older state there":                                      {elsewhere(stateMessage(7, 6, "Modified", "X", 4)), `nothing new: a "X"`, Expect{Hops: true}},
		"what does not match and never did":                         {with(stateMessage(8, 0, "FILTERED", "z", 0)), `operation: a "z"`, Expect{Hops: true}},
		"nothing in a new event of what the bus forgot":             {instead(4, byRun(2, stateMessage(5, 0, "Added", "x", 3))), "", Expect{Hops: true, Forgets: time.Second}},
		"nothing in one behind what the program still knew":         {instead(4, byRun(2, stateMessage(5, 2, "Modified", "x", 3))), "", Expect{Hops: true, Forgets: time.Second}},
		"a new event where the bus forgets nothing":                 {instead(4, byRun(2, stateMessage(5, 0, "Added", "x", 3))), `link: a "x"`, Expect{Hops: true}},
		"a new event by the same process":                           {instead(4, stateMessage(5, 0, "Added", "x", 3)), `link: a "x"`, Expect{Hops: true, Forgets: time.Second}},
	} {
		t.Run(what, func(t *testing.T) {
			histories, tape := plantedStates()
			finds(t, NewEntityJudge(t, histories, c.expect).Messages(c.plant(tape)), c.found)
		})
	}
}

// It is read first.
func elsewhere(last Message) planting {
	last.Partition = "1"
	return func(p []Message) []Message { return append(slices.Clone(p[:5]), last, p[5]) }
}

// TestWhatIsStoredBehindAYoungerProcess is judged by the end alone, until the section ends.
func TestWhatIsStoredBehindAYoungerProcess(t *testing.T) {
	histories, tape := plantedStates()
	j := NewEntityJudge(t, histories, Expect{Hops: true})
	j.Starts = []time.Time{plantedAt(6.5)}
	tape[6] = stateMessage(7, 1, "Modified", "X", 5)
	inSection(j, tape)
	finds(t, &j.Verdict, "")
	inSection(j, []Message{byRun(2_000_000_000, stateMessage(8, 1, "Modified", "X", 5))})
	finds(t, &j.Verdict, `link: a "X"`)
}

func stoodStill(tape []Message) []Message {
	late := tape[5]
	late.Headers = maps.Clone(late.Headers)
	for i := range tape {
		tape[i] = byRun(2, tape[i])
	}
	return append(tape, late, byRun(2, stateMessage(8, 7, "Modified", "X", 5)))
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
			c.bus.Compare(table, &v)
			finds(t, &v, c.found)
		})
	}
}

func TestChatterIsJudgedByProcess(t *testing.T) {
	begins := `time=2026-01-02T03:04:%02dZ level=WARN msg="outage begins, retrying until it ends" dependency=nats error=EOF` + "\n"
	lasts := `time=2026-01-02T03:04:%02dZ level=WARN msg="outage lasts" dependency=nats error=EOF for=%ds` + "\n"
	for name, c := range map[string]struct {
		log  string
		want int
	}{
		"one process that says it twice":       {StartLine + "\n" + fmt.Sprintf(begins, 5) + fmt.Sprintf(begins, 10), 1},
		"two processes that say it once":       {fmt.Sprintf(begins, 5) + StartLine + "\n" + fmt.Sprintf(begins, 10), 0},
		"outages of two dependencies":          {fmt.Sprintf(begins, 5) + strings.Replace(fmt.Sprintf(begins, 6), "=nats", "=source", 1), 0},
		"an outage that lasts, twice a minute": {fmt.Sprintf(lasts, 5, 60) + fmt.Sprintf(lasts, 35, 90), 1},
		"a fault that begins again in 10 s":    {fmt.Sprintf(begins, 5) + fmt.Sprintf(begins, 15), 0},
	} {
		t.Run(name, func(t *testing.T) {
			if found := repeatedComplaints(c.log); len(found) != c.want {
				t.Errorf("%d complaints, want %d: %s", len(found), c.want, found)
			}
		})
	}
}
