package torture

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"example.org/bridge/tests/world"
)

// reusedFaults have ids of a table belong to other rows.
var reusedFaults = []fault{
	{
		name: "ids-reused-without-checkpoint", family: "tables", repeats: true, prepare: withReceipts,
		what: "while bridge is killed and its checkpoint lost, the newest rows of a third stream, of facts, become others under their ids; then all of them do: " +
			"the stream stops, and a person types the command that it names",
		inject: func(tr *trial) {
			r := tr.third.(*reused)
			for _, survivor := range []int{receiptRows / 3, 0} {
				tr.kill()
				tr.removeCheckpoint()
				r.replace(survivor)
				tr.Start()
				want := fmt.Sprintf("checkpoint set %s %[1]s %d", receipts, survivor)
				reason := tr.shardStops(receipts, "uses ids again", "bridge "+want)
				tr.goesOn(facts)
				r.arrived(r.of[:len(r.of)-receiptRows+survivor])
				if typed := setCommand.FindString(reason); typed != want {
					tr.T.Fatalf("the command is %q, want %q", typed, want)
				}
				tr.terminate()
				if status, _, stderr := world.Command(tr.T, tr.Env, strings.Fields(want)...); status != 0 {
					tr.T.Fatalf("bridge %s: %d, %s", want, status, stderr)
				}
				tr.Start()
				r.arrived(r.of)
				tr.flows()
			}
		},
	},
}

// receipts is a third stream of a trial, with a table of its name and so many rows.
const (
	receipts    = "receipts"
	receiptRows = 60
)

var setCommand = regexp.MustCompile(`checkpoint set \w+ \w+ \d+`)

// reused are the rows of a table whose ids were used again.
type reused struct {
	*trial
	// of are the tokens of all rows that there were, in the order of their commits.
	of []string
	// written counts the times that the table was filled.
	written int
}

// withReceipts makes the table, and has the program publish it.
func withReceipts(tr *trial) {
	tr.T.Helper()
	tr.World.Exec(`CREATE TABLE ` + receipts + ` (
		id bigint unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY, token varchar(40) NOT NULL, created datetime(6) NOT NULL) ENGINE=InnoDB`)
	r := &reused{trial: tr}
	r.replace(0)
	tr.third = r
	tr.addStream(receipts, world.Env{"TABLE": receipts, "KIND": "release"})
}

// replace has all rows above an id be others.
func (r *reused) replace(survivor int) {
	r.T.Helper()
	if survivor == 0 {
		r.World.Exec("TRUNCATE " + receipts)
	} else {
		r.World.Exec(fmt.Sprintf("DELETE FROM %s WHERE id > %d", receipts, survivor))
		r.World.Exec(fmt.Sprintf("ALTER TABLE %s AUTO_INCREMENT = %d", receipts, survivor+1))
	}
	r.written++
	// As old as the rows before, but for the minutes between them.
	created := time.Now().UTC().Add(time.Duration(r.written-100) * time.Minute).Format("2006-01-02 15:04:05.000000")
	for id := survivor + 1; id <= receiptRows; id++ {
		token := fmt.Sprintf("%d-%d", r.written, id)
		r.World.Exec("INSERT INTO "+receipts+" (token, created) VALUES (?, ?)", token, created)
		r.of = append(r.of, token)
	}
}

// events returns the ids of the events of each token.
func (r *reused) events() map[string][]string {
	r.T.Helper()
	of := make(map[string][]string)
	for _, m := range r.Bus.ReadAll(r.T, r.Destination(receipts)) {
		e, err := world.DecodeEvent(m)
		r.check(err)
		var token string
		r.check(json.Unmarshal(e.Data["token"], &token))
		of[token] = append(of[token], e.ID)
	}
	return of
}

// arrived waits until the bus has each of some rows.
func (r *reused) arrived(tokens []string) {
	r.T.Helper()
	world.Eventually(r.T, time.Minute, "the receipts arrive", func() bool {
		events := r.events()
		return !slices.ContainsFunc(tokens, func(token string) bool { return len(events[token]) == 0 })
	})
}

// end asks the program's own judge, which has to find the events of rows whose ids belong to others
// now, and nothing else. It has nothing more to say of that stream.
func (r *reused) end() {
	r.T.Helper()
	found := world.Verify(r.T, streamsOf(r.Env, receipts)).Faults()
	if former := len(r.of) - receiptRows; len(found) != 1 || found["extra"] != former {
		r.score.find("bridge verify finds %v of %s, want %d extra", found, receipts, former)
	}
	r.Env = streamsOf(r.Env, bothStreams...)
}

// streamsOf returns an environment with some of its streams alone.
func streamsOf(e world.Env, streams ...string) world.Env {
	e = e.With(world.Env{"BRIDGE_STREAMS": strings.Join(streams, ",")})
	for name := range e {
		of, _, _ := strings.Cut(strings.TrimPrefix(name, "BRIDGE_STREAM_"), "_")
		if strings.HasPrefix(name, "BRIDGE_STREAM_") && !slices.Contains(streams, strings.ToLower(of)) {
			delete(e, name)
		}
	}
	return e
}

// judge counts what is wrong with the events: one of each row that there was, and no other.
func (r *reused) judge(f *world.Figures) {
	r.T.Helper()
	events, ids := r.events(), make(map[string]string)
	for _, token := range r.of {
		if len(events[token]) == 0 {
			f.Lost++
			f.Find("%s: row %s never came", receipts, token)
		}
	}
	for token, of := range events {
		if !slices.Contains(r.of, token) {
			f.RolledBack++
			f.Find("%s: there was no row %s", receipts, token)
		}
		for i, id := range of {
			switch was, again := ids[id]; {
			case again && was == token:
				f.Repeated++
			case again, i > 0:
				f.OtherID++
				f.Find("%s: row %s has the events %v, %q has one of them", receipts, token, of, was)
			default:
				f.Events++
				ids[id] = token
			}
		}
	}
}
