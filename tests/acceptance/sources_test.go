package acceptance

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"example.org/bridge/event"
	"example.org/bridge/tests/testall"
	"example.org/bridge/tests/testenv"
	"example.org/bridge/tests/workload"
	"example.org/bridge/tests/world"
)

// TestSeveralServers: the tables of a release stream and of one with a KEY are on two servers,
// between which entities move. One server is killed and stands still while rows come to the other,
// whose tables go on, also over kills of the program.
func TestSeveralServers(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	world.EachOwnBus(t, func(t *testing.T, b *world.Bus) {
		servers := [2]*testenv.DatabaseServer{testenv.StartMariaDB(t), testenv.StartMariaDB(t)}
		t.Run("at least once", func(t *testing.T) { severalServers(t, b, servers) })
		t.Run("exactly once", func(t *testing.T) { severalServers(t, b.ExactlyOnce("servers"), servers) })
	})
}

// twoServers is a world on each of two servers, and a program that publishes both.
type twoServers struct {
	*world.Publisher
	worlds  [2]*world.World
	servers [2]*testenv.DatabaseServer
}

// sourceNames are the names of the servers.
var sourceNames = [2]string{"a", "b"}

func severalServers(t *testing.T, b *world.Bus, servers [2]*testenv.DatabaseServer) {
	s := newTwoServers(t, b, servers)
	s.Start()
	var stops []func()
	for _, w := range s.worlds {
		_, stop := w.Write()
		stops = append(stops, stop)
	}
	moved := s.moveEntities()
	s.caughtUp()

	s.servers[1].Kill()
	s.goesOn("while b is away")
	s.showsThatBIsAway()
	s.Kill()
	s.Start()
	s.goesOn("after a start while b is away")
	s.Kill()
	s.servers[1].Start(t)
	s.Start()
	s.caughtUp()

	s.servers[1].Pause()
	s.goesOn("while b stands still")
	s.servers[1].Resume()
	s.caughtUp()
	s.Kill()
	s.Start()
	s.caughtUp()

	moved()
	for _, stop := range stops {
		stop()
	}
	s.caughtUp()
	s.Reconcile("parts")
	s.compare()
}

func newTwoServers(t *testing.T, b *world.Bus, servers [2]*testenv.DatabaseServer) *twoServers {
	s := &twoServers{servers: servers}
	var orders, parts []string
	env := world.Env{"BRIDGE_SOURCE_URL": "", "BRIDGE_SOURCES": strings.Join(sourceNames[:], ","), "BRIDGE_RECONCILE_MAX_DELETES": "100%", "BRIDGE_BATCH_ROWS": "50"}
	for i, server := range servers {
		rows, _ := world.Load(uint64(1+i), 0)
		rows.Rate, rows.Writers = 50, 4
		w := world.New(t, world.Options{Database: server, Rows: &rows})
		w.Exec("CREATE TABLE parts (id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, name VARCHAR(40) CHARACTER SET ascii COLLATE ascii_bin NOT NULL UNIQUE, " +
			"state INT NOT NULL, modified DATETIME(6) NOT NULL, KEY (modified))")
		s.worlds[i] = w
		begin := sourceNames[i] + "/" + w.Name + "."
		orders, parts = append(orders, begin+"orders"), append(parts, begin+"parts")
		env["BRIDGE_SOURCE_"+strings.ToUpper(sourceNames[i])+"_URL"] = w.URL
	}
	s.Publisher = s.worlds[0].Publish(b, world.Publishing{Env: env, Path: world.Binary(t, world.RaceDetector), Streams: []world.Stream{
		{Name: "orders", Table: strings.Join(orders, ","), Kind: "release", Env: world.Env{"KEY": "entity", "CREATED": "created"}},
		{Name: "parts", Table: strings.Join(parts, ","), Kind: "capability", Env: world.Env{"KEY": "name", "MODIFIED": "modified"}},
	}})
	return s
}

// moveEntities changes entities and moves them between the servers, each change when its servers
// answer, until the function that it returns is called.
func (s *twoServers) moveEntities() (stop func()) {
	end := make(chan struct{})
	var movers sync.WaitGroup
	for mover := range 4 {
		movers.Go(func() {
			random := rand.New(rand.NewPCG(uint64(mover), 7))
			exec := func(db *sql.DB, statement string, args ...any) {
				for {
					if _, err := db.Exec(statement, args...); err == nil {
						return
					}
					world.Pause(100 * time.Millisecond)
				}
			}
			at := make(map[string]int)
			for state := 1; ; state++ {
				select {
				case <-end:
					return
				default:
				}
				name := fmt.Sprintf("part-%d-%d", mover, random.IntN(12))
				from, there := at[name]
				to := random.IntN(2)
				switch {
				case there && random.IntN(5) == 0:
					exec(s.worlds[from].DB, "DELETE FROM parts WHERE name = ?", name)
					delete(at, name)
				default:
					exec(s.worlds[to].DB, "INSERT INTO parts (name, state, modified) VALUES (?, ?, now(6)) ON DUPLICATE KEY UPDATE state = VALUES(state), modified = VALUES(modified)", name, state)
					if there && from != to {
						exec(s.worlds[from].DB, "DELETE FROM parts WHERE name = ?", name)
					}
					at[name] = to
				}
				world.Pause(time.Duration(random.IntN(60)) * time.Millisecond)
			}
		})
	}
	return sync.OnceFunc(func() { close(end); movers.Wait() })
}

// position returns that of a table of orders.
func (s *twoServers) position(source int) uint64 {
	for _, shard := range s.Shards("orders") {
		if strings.HasPrefix(shard.Shard, sourceNames[source]+"/") {
			return shard.Position
		}
	}
	return 0
}

// goesOn waits until rows are published of the first server that are committed from now on.
func (s *twoServers) goesOn(when string) {
	s.T.Helper()
	from := s.worlds[0].Highest("orders")
	world.Eventually(s.T, time.Minute, "rows of a arrive "+when, func() bool { return s.position(0) > from+20 })
}

// caughtUp waits until all rows of the moment are published, and the program is ready.
func (s *twoServers) caughtUp() {
	s.T.Helper()
	var last [2]uint64
	for i, w := range s.worlds {
		last[i] = w.Highest("orders")
	}
	world.Eventually(s.T, 2*time.Minute, "the rows of both servers arrive", func() bool {
		code, _ := s.Get("/readyz")
		return code == 200 && s.position(0) >= last[0] && s.position(1) >= last[1]
	})
}

func (s *twoServers) showsThatBIsAway() {
	s.T.Helper()
	var status struct {
		Source  struct{ Answers *bool }
		Sources []struct {
			Name    string
			Answers *bool
			Error   *string
		}
	}
	world.Eventually(s.T, 30*time.Second, "the status says that b is away, and that a is not", func() bool {
		_, body := s.Get("/api/v1/status")
		if err := json.Unmarshal([]byte(body), &status); err != nil || len(status.Sources) != 2 {
			s.T.Fatalf("%v: %.500s", err, body)
		}
		a, b := status.Sources[0], status.Sources[1]
		return a.Name == "a" && a.Answers != nil && *a.Answers && b.Name == "b" && b.Answers != nil && !*b.Answers && b.Error != nil && !*status.Source.Answers
	})
	for _, shard := range s.Shards("orders") {
		if strings.HasPrefix(shard.Shard, "a/") && shard.State != "running" {
			s.T.Errorf("a table of a is %s while b is away: %s", shard.State, shard.LastError)
		}
	}
	if code, body := s.Get("/readyz"); code != 503 || !strings.Contains(body, "source b:") || strings.Contains(body, "source a:") {
		s.T.Errorf("readiness %d: %s", code, body)
	}
	if a, b := s.Metric(`bridge_dependency_up{dependency="source a"}`), s.Metric(`bridge_dependency_up{dependency="source b"}`); a != 1 || b != 0 {
		s.T.Errorf("a is up: %v, b: %v", a, b)
	}
	if !strings.Contains(s.Log.String(), `dependency="source b"`) || strings.Contains(s.Log.String(), `dependency="source a"`) {
		s.T.Error("the log does not say that b alone is away")
	}
}

// compare compares what the bus has with the record of the writers, with the tables, and with what
// `bridge verify` finds.
func (s *twoServers) compare() {
	s.T.Helper()
	var rows []workload.Row
	for _, w := range s.worlds {
		rows = append(rows, w.AllRows()...)
	}
	messages := s.Bus.ReadAll(s.T, s.Destination("orders"))
	v := world.NewRowJudge(s.T, rows, world.Expect{}).Messages(messages)
	s.T.Logf("orders: %s", v)
	if wrong := v.Wrong(); wrong != "" {
		s.T.Error(wrong)
	}
	var fold, want map[string]string
	fold, repeated := s.foldParts()
	want = make(map[string]string)
	for _, w := range s.worlds {
		var name, state string
		w.Each("SELECT name, state FROM parts", []any{&name, &state}, func() { want[name] = state })
	}
	if fmt.Sprint(fold) != fmt.Sprint(want) {
		s.T.Errorf("the bus ends with %v, the tables have %v", fold, want)
	}
	if s.Bus.Once() && v.Repeated+repeated > 0 {
		s.T.Errorf("%d rows and %d states are on the bus twice", v.Repeated, repeated)
	}
	// Rows that were purged it does not judge.
	if r := world.Verify(s.T, s.Env); !r.Good {
		s.T.Errorf("bridge verify: %+v", r)
	}
}

// foldParts returns the states of the parts as the bus has them, and how many events it has twice.
func (s *twoServers) foldParts() (fold map[string]string, repeated int) {
	fold = make(map[string]string)
	seen := make(map[string]bool)
	for _, m := range s.Bus.ReadAll(s.T, s.Destination("parts")) {
		e, err := world.DecodeEvent(m)
		var name string
		if err == nil {
			err = json.Unmarshal(e.Data["name"], &name)
		}
		if err != nil {
			s.T.Fatalf("%v: %.300s", err, m.Value)
		}
		if seen[e.ID] {
			repeated++
		}
		seen[e.ID] = true
		if e.Op == event.Deleted {
			delete(fold, name)
		} else {
			fold[name] = string(e.Data["state"])
		}
	}
	s.T.Logf("parts: %d events, %d entities, %d repeated", len(seen), len(fold), repeated)
	return fold, repeated
}
