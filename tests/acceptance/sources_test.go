package acceptance

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"example.org/bridge/tests/testall"
	"example.org/bridge/tests/testenv"
	"example.org/bridge/tests/workload"
	"example.org/bridge/tests/world"
)

// TestSeveralServers: the tables of a release stream and of one with a KEY are on two servers,
// between which entities move. One server is killed and stands still while rows come to the other,
// whose tables go on, also over kills of the program.
func TestSeveralServers(t *testing.T) {
	testall.Beside(t)
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
	parts   parts
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
	moved := s.parts.move()
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
		s.worlds[i] = w
		begin := sourceNames[i] + "/" + w.Name + "."
		orders, parts = append(orders, begin+"orders"), append(parts, begin+"parts")
		env["BRIDGE_SOURCE_"+strings.ToUpper(sourceNames[i])+"_URL"] = w.URL
	}
	s.parts = newParts(s.worlds)
	s.Publisher = s.worlds[0].Publish(b, world.Publishing{Env: env, Path: world.Binary(t, world.RaceDetector), Streams: []world.Stream{
		{Name: "orders", Table: strings.Join(orders, ","), Kind: "release", Env: world.Env{"KEY": "entity", "CREATED": "created"}},
		{Name: "parts", Table: strings.Join(parts, ","), Kind: "capability", Env: world.Env{"KEY": "name", "MODIFIED": "modified"}},
	}})
	return s
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
	repeated := s.parts.compare(s.Publisher)
	if s.Bus.Once() && v.Repeated+repeated > 0 {
		s.T.Errorf("%d rows and %d states are on the bus twice", v.Repeated, repeated)
	}
	// Rows that were purged it does not judge.
	if r := world.Verify(s.T, s.Env); !r.Good {
		s.T.Errorf("bridge verify: %+v", r)
	}
}

// parts are entities that move between tables of two databases.
type parts struct{ worlds [2]*world.World }

func newParts(worlds [2]*world.World) parts {
	for _, w := range worlds {
		w.Exec("CREATE TABLE parts (id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, name VARCHAR(40) CHARACTER SET ascii COLLATE ascii_bin NOT NULL UNIQUE, " +
			"state INT NOT NULL, modified DATETIME(6) NOT NULL, KEY (modified))")
	}
	return parts{worlds}
}

// move changes entities and moves them between the databases, each change when its server answers,
// until stop is called.
func (p parts) move() (stop func()) {
	var stops []func()
	for mover := range 4 {
		random, at, state := rand.New(rand.NewPCG(uint64(mover), 7)), make(map[string]int), 0
		exec := func(source int, statement string, args ...any) {
			w := p.worlds[source]
			for _, err := w.DB.Exec(statement, args...); err != nil && !w.T.Failed(); _, err = w.DB.Exec(statement, args...) {
				world.Pause(100 * time.Millisecond)
			}
		}
		stops = append(stops, every(60*time.Millisecond, func() {
			state++
			name := fmt.Sprintf("part-%d-%d", mover, random.IntN(12))
			from, there := at[name]
			to := random.IntN(2)
			if there && random.IntN(5) == 0 {
				exec(from, "DELETE FROM parts WHERE name = ?", name)
				delete(at, name)
				return
			}
			exec(to, "INSERT INTO parts (name, state, modified) VALUES (?, ?, now(6)) ON DUPLICATE KEY UPDATE state = VALUES(state), modified = VALUES(modified)", name, state)
			if there && from != to {
				exec(from, "DELETE FROM parts WHERE name = ?", name)
			}
			at[name] = to
		}))
	}
	return func() {
		for _, stop := range stops {
			stop()
		}
	}
}

// compare fails the test unless the bus ends as the tables, and returns how many events are there
// twice.
func (p parts) compare(of *world.Publisher) (repeated int) {
	of.T.Helper()
	want := make(map[string]string)
	for _, w := range p.worlds {
		maps.Copy(want, w.Pairs("SELECT name, state FROM parts"))
	}
	got, repeated := fold(of.T, of.Bus, of.Destination("parts"), func(e world.Event) (string, string) { return member(e, "name"), member(e, "state") })
	if !maps.Equal(got, want) {
		of.T.Errorf("parts: the bus ends with %v, the tables have %v", got, want)
	}
	of.T.Logf("%d parts, %d events of them repeated", len(got), repeated)
	return repeated
}

// numbers returns how often each row is there, by its column v. Events of two rows have two ids.
func numbers(t testing.TB, b *world.Bus, destination string) map[int]int {
	t.Helper()
	times, ids := make(map[int]int), make(map[string]int)
	b.Read(t, destination, func(m world.Message) {
		e := decode(t, m)
		v, err := strconv.Atoi(member(e, "v"))
		check(t, err)
		if before, known := ids[e.ID]; known && before != v {
			t.Errorf("the event %s is of the rows %d and %d", e.ID, before, v)
		}
		ids[e.ID] = v
		times[v]++
	})
	return times
}
