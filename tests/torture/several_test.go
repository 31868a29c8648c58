package torture

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"example.org/bridge/tests/testenv"
	"example.org/bridge/tests/world"
)

// severalFaults harm one of two database servers.
var severalFaults = []fault{
	{
		name: "one-of-two-databases-away", family: "database", prepare: withSecondServer,
		what: "a third stream is on a server of its own, which is killed and away for 5 s, then stands still for as long, twice: " +
			"the other streams go on",
		inject: func(tr *trial) {
			e := tr.third.(*elsewhere)
			harm := func(begin, end func()) {
				e.insert(50)
				begin()
				for _, stream := range bothStreams {
					tr.goesOn(stream)
				}
				tr.outage(5 * time.Second)
				end()
				e.insert(50)
				e.end()
			}
			for range tr.times(2) {
				harm(e.server.Kill, func() { e.server.Start(tr.T) })
				harm(e.server.Pause, e.server.Resume)
			}
		},
	},
}

// elsewhereStream is a third stream of a trial: facts in a table of another server.
const elsewhereStream = "elsewhere"

type elsewhere struct {
	*trial
	server *testenv.DatabaseServer
	world  *world.World
	rows   int
}

// withSecondServer makes the table, and has the program publish it.
func withSecondServer(tr *trial) {
	tr.T.Helper()
	e := &elsewhere{trial: tr, server: testenv.StartMariaDB(tr.T)}
	e.world = world.Empty(tr.T, e.server)
	e.world.Exec("CREATE TABLE facts (id bigint unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY, token varchar(64) NOT NULL, " +
		"created datetime(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6)) ENGINE=InnoDB")
	tr.Env["BRIDGE_SOURCES"], tr.Env["BRIDGE_SOURCE_B_URL"] = "b", e.world.URL
	tr.addStream(elsewhereStream, world.Env{"TABLE": "b/" + e.world.Name + ".facts", "KIND": "release"})
	tr.third = e
}

// insert commits rows.
func (e *elsewhere) insert(n int) {
	e.T.Helper()
	values := make([]string, n)
	for i := range values {
		e.rows++
		values[i] = fmt.Sprintf("('t%d')", e.rows)
	}
	e.world.Exec("INSERT INTO facts (token) VALUES " + strings.Join(values, ", "))
}

// end waits until all rows are published.
func (e *elsewhere) end() {
	e.T.Helper()
	last := e.world.Highest("facts")
	world.Eventually(e.T, 2*time.Minute, "the rows of the other server are published", func() bool {
		return e.Position(elsewhereStream) >= last
	})
}

// judge counts the rows that are not published, and those that are so twice.
func (e *elsewhere) judge(f *world.Figures) {
	e.T.Helper()
	ids := make(map[string]string)
	for _, m := range e.Bus.ReadAll(e.T, e.Destination(elsewhereStream)) {
		one, err := world.DecodeEvent(m)
		token := ""
		if err == nil {
			err = json.Unmarshal(one.Data["token"], &token)
		}
		e.check(err)
		switch was, again := ids[token]; {
		case !again:
			f.Events++
		case was == one.ID:
			f.Repeated++
		default:
			f.OtherID++
			f.Find("%s: %s has two events", elsewhereStream, token)
		}
		ids[token] = one.ID
	}
	if f.Lost += e.rows - len(ids); e.rows != len(ids) {
		f.Find("%s: %d rows, %d are published", elsewhereStream, e.rows, len(ids))
	}
}
