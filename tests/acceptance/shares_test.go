package acceptance

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"example.org/bridge/event"
	"example.org/bridge/tests/testall"
	"example.org/bridge/tests/testenv"
	"example.org/bridge/tests/world"
)

// TestShares divides the tables of two databases between processes, whose number changes while rows
// come: none, two, three, none. Processes are killed, stand still and lose their folders; one of a
// former number wakes up when another one is in force. Each row is there, the states are those of
// the tables, and with exactly-once nothing is there twice.
func TestShares(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	world.EachBus(t, func(t *testing.T, b *world.Bus) {
		t.Run("at-least-once", func(t *testing.T) { t.Parallel(); newShared(t, b, false).run() })
		t.Run("exactly-once", func(t *testing.T) { t.Parallel(); newShared(t, b.ExactlyOnce(t.Name()), true).run() })
	})
}

// shared is one configuration that several processes share.
type shared struct {
	*world.Publisher
	t      *testing.T
	once   bool
	worlds [2]*world.World
	folder string
	// number is that of shares, members are their processes.
	number  int
	members []*world.Daemon

	mu   sync.Mutex
	logs []string
	// rows is how many rows of logs there are, each with a number of its own.
	rows int
}

const logsEach, itemsEach = 4, 3

func newShared(t *testing.T, b *world.Bus, once bool) *shared {
	s := &shared{t: t, once: once, folder: filepath.Join(t.TempDir(), "folder")}
	server := testenv.MariaDB(t)
	for i := range s.worlds {
		s.worlds[i] = world.Empty(t, server)
		for n := range logsEach {
			s.createLog(i, n)
		}
		for n := range itemsEach {
			s.worlds[i].Exec(fmt.Sprintf("CREATE TABLE item_%d (id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, state INT NOT NULL, modified DATETIME(6) NOT NULL, KEY (modified))", n))
		}
		s.worlds[i].Exec("CREATE TABLE parts (id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, name VARCHAR(40) CHARACTER SET ascii COLLATE ascii_bin NOT NULL UNIQUE, " +
			"state INT NOT NULL, modified DATETIME(6) NOT NULL, KEY (modified))")
	}
	first, second := s.worlds[0].Name, s.worlds[1].Name
	reader, _, _ := strings.Cut(strings.TrimPrefix(s.worlds[0].URL, "mysql://"), ":")
	s.worlds[0].Exec(fmt.Sprintf("GRANT SELECT ON `%s`.* TO '%s'@'%%'", second, reader))
	progress := strings.NewReplacer(".", "_").Replace(first) + "_progress"
	if b.Kafka != nil {
		policy := "compact"
		b.Kafka.CreateTopic(t, progress, 1, map[string]*string{"cleanup.policy": &policy})
	}
	both := func(tables string) string { return first + "." + tables + "," + second + "." + tables }
	s.Publisher = s.worlds[0].Publish(b, world.Publishing{
		Path: world.Binary(t, world.RaceDetector),
		Env: world.Env{
			"BRIDGE_CHECKPOINT_URL": "bus://" + s.folder, "BRIDGE_CHECKPOINT_TOPIC": progress, "BRIDGE_RECONCILE_MAX_DELETES": "100%",
			"BRIDGE_DOMAIN_ID":  strings.ReplaceAll(first, "_", "-"),
			"BRIDGE_BATCH_ROWS": "50", "BRIDGE_POLL_INTERVAL": "50ms",
		},
		Streams: []world.Stream{
			{Name: "logs", Table: first + ".log_{0.." + strconv.Itoa(logsEach-1) + "}," + second + ".log_*", Kind: "release"},
			{Name: "items", Table: both(fmt.Sprintf("item_{0..%d}", itemsEach-1)), Kind: "capability", Env: world.Env{"MODIFIED": "modified"}},
			{Name: "parts", Table: both("parts"), Kind: "capability", Env: world.Env{"KEY": "name", "MODIFIED": "modified"}},
		},
	})
	return s
}

func (s *shared) createLog(source, n int) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := fmt.Sprintf("%s.log_%d", s.worlds[source].Name, n)
	s.worlds[source].Exec("CREATE TABLE " + name + " (id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, v INT NOT NULL)")
	s.logs = append(s.logs, name)
	return name
}

func (s *shared) run() {
	stop := s.write()
	s.t.Cleanup(stop)
	s.begin(0)
	s.harm(2)

	// Without signs of life nobody is waited for.
	s.members[0].Kill()
	s.begin(2)
	s.placed()
	s.harm(4)
	name := s.createLog(1, logsEach)
	world.Eventually(s.t, 2*time.Minute, "the new table "+name+" is published", func() bool { return slices.Contains(s.tables(), name) })

	// One stands still until another number is in force, and is shut out or ends.
	still := s.members[1]
	still.Signal(syscall.SIGSTOP)
	s.members[0].Term()
	s.begin(3)
	still.Signal(syscall.SIGCONT)
	s.placed()
	s.harm(4)
	if still.Wait(); still.Cmd.ProcessState.ExitCode() != 1 {
		s.t.Errorf("the process of a former number has ended with status %d", still.Cmd.ProcessState.ExitCode())
	}
	s.placed()

	for _, d := range s.members {
		d.Kill()
	}
	s.begin(0)
	s.harm(1)
	s.former()
	stop()
	s.arrive()
	for _, stream := range []string{"items", "parts"} {
		s.members[0].Reconcile(stream)
	}
	s.compare()
}

// begin starts the processes of a number of shares, in any order, and waits until they are ready.
func (s *shared) begin(number int) {
	s.t.Helper()
	s.number, s.members = number, nil
	for i := range max(1, number) {
		s.members = append(s.members, s.process(i, number))
	}
	for _, i := range rand.Perm(len(s.members)) {
		s.members[i].Start()
	}
	s.ready()
}

// process makes that of a share; of all tables, where the number is 0.
func (s *shared) process(index, number int) *world.Daemon {
	env := s.Env.WithoutOwn().With(world.Env{"BRIDGE_CHECKPOINT_URL": "bus://" + s.folder})
	if number > 0 {
		env["BRIDGE_SHARE"] = fmt.Sprintf("%d/%d", index, number)
	}
	return world.NewDaemon(s.t, s.Path, env)
}

func (s *shared) ready() {
	s.t.Helper()
	for _, d := range s.members {
		world.Eventually(s.t, 2*time.Minute, d.Env["BRIDGE_SHARE"]+" is ready", func() bool {
			code, _ := d.Get("/readyz")
			return code == http.StatusOK
		})
	}
}

// tables returns those that the processes have, of the stream of logs those that run.
func (s *shared) tables() (all []string) {
	for _, d := range s.members {
		for _, stream := range []string{"logs", "items", "parts"} {
			for _, shard := range d.Shards(stream) {
				if shard.State == "running" {
					all = append(all, shard.Shard)
				}
			}
		}
	}
	slices.Sort(all)
	return all
}

// placed expects each table in one process, and more than one process with tables.
func (s *shared) placed() {
	s.t.Helper()
	want := len(s.logs) + 2*itemsEach + 2
	var all []string
	world.Eventually(s.t, 2*time.Minute, fmt.Sprintf("%d tables are running", want), func() bool { all = s.tables(); return len(all) == want })
	if len(slices.Compact(all)) != want {
		s.t.Errorf("the tables are %v", all)
	}
	for _, d := range s.members {
		if n := len(d.Shards("logs")); n == want {
			s.t.Errorf("one of %d processes has all tables", s.number)
		}
	}
}

// harm kills processes, has them stand still and removes their folders, at random.
func (s *shared) harm(times int) {
	s.t.Helper()
	for range times {
		world.Pause(world.Between(500*time.Millisecond, 2*time.Second))
		i := rand.IntN(len(s.members))
		d := s.members[i]
		switch rand.IntN(3) {
		case 0:
			d.Signal(syscall.SIGSTOP)
			world.Pause(world.Between(time.Second, 3*time.Second))
			d.Signal(syscall.SIGCONT)
		case 1:
			d.Kill()
			d.Start()
		case 2:
			d.Kill()
			folder := s.folder
			if s.number > 0 {
				folder = filepath.Join(folder, fmt.Sprintf("%d-of-%d", i, s.number))
			}
			if err := os.RemoveAll(folder); err != nil {
				s.t.Fatal(err)
			}
			d.Start()
		}
	}
	s.ready()
}

// former starts processes of a number that is not in force: they wait, and say for what.
func (s *shared) former() {
	s.t.Helper()
	for _, index := range []int{0, 1} {
		d := s.process(index, 3)
		d.Env["BRIDGE_CHECKPOINT_URL"] = "bus://" + filepath.Join(s.t.TempDir(), "former")
		d.Start()
		world.Eventually(s.t, time.Minute, "a process of a former number waits", func() bool {
			code, body := d.Get("/readyz")
			return code == http.StatusServiceUnavailable && strings.Contains(body, "no shares are in force")
		})
		d.Term()
	}
}

// write changes tables until stop is called.
func (s *shared) write() (stop func()) {
	end := make(chan struct{})
	var writers sync.WaitGroup
	each := func(do func(r *rand.Rand)) {
		writers.Go(func() {
			r := rand.New(rand.NewPCG(rand.Uint64(), 1))
			for {
				select {
				case <-end:
					return
				case <-time.After(time.Duration(r.IntN(20)) * time.Millisecond):
				}
				do(r)
			}
		})
	}
	each(func(r *rand.Rand) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.rows++
		s.worlds[0].Exec("INSERT INTO "+s.logs[r.IntN(len(s.logs))]+" (v) VALUES (?)", s.rows)
	})
	state := 0
	each(func(r *rand.Rand) {
		state++
		table, db := fmt.Sprintf("item_%d", r.IntN(itemsEach)), s.worlds[r.IntN(2)]
		switch id := 1 + r.IntN(40); r.IntN(6) {
		case 0:
			db.Exec("DELETE FROM "+table+" WHERE id = ?", id)
		case 1, 2:
			db.Exec("UPDATE "+table+" SET state = ?, modified = now(6) WHERE id = ?", state, id)
		default:
			db.Exec("INSERT INTO "+table+" (state, modified) VALUES (?, now(6))", state)
		}
	})
	at := make(map[string]int)
	moves := 0
	each(func(r *rand.Rand) {
		moves++
		name := fmt.Sprintf("part-%d", r.IntN(30))
		from, there := at[name]
		to := r.IntN(2)
		if there && r.IntN(6) == 0 {
			s.worlds[from].Exec("DELETE FROM parts WHERE name = ?", name)
			delete(at, name)
			return
		}
		s.worlds[to].Exec("INSERT INTO parts (name, state, modified) VALUES (?, ?, now(6)) ON DUPLICATE KEY UPDATE state = VALUES(state), modified = VALUES(modified)", name, moves)
		if there && from != to {
			s.worlds[from].Exec("DELETE FROM parts WHERE name = ?", name)
		}
		at[name] = to
	})
	return sync.OnceFunc(func() { close(end); writers.Wait() })
}

// published returns how often each row of the logs is there.
func (s *shared) published() map[int]int {
	times := make(map[int]int)
	s.Bus.Read(s.t, s.Destination("logs"), func(m world.Message) {
		e, err := world.DecodeEvent(m)
		var v int
		if err == nil {
			v, err = strconv.Atoi(string(e.Data["v"]))
		}
		if err != nil {
			s.t.Fatal(err)
		}
		times[v]++
	})
	return times
}

// arrive waits until all rows are there.
func (s *shared) arrive() {
	s.t.Helper()
	world.Eventually(s.t, 2*time.Minute, fmt.Sprintf("%d rows arrive", s.rows), func() bool { return len(s.published()) == s.rows })
}

// compare compares what the bus has with the record of the writers and the tables.
func (s *shared) compare() {
	s.t.Helper()
	repeated := 0
	for v, n := range s.published() {
		if v < 1 || v > s.rows {
			s.t.Errorf("nobody has written the row %d", v)
		}
		repeated += n - 1
	}
	items := make(map[string]string)
	parts := make(map[string]string)
	for _, w := range s.worlds {
		var name, state string
		for n := range itemsEach {
			w.Each(fmt.Sprintf("SELECT CONCAT('%s.item_%d/', id), state FROM item_%d", w.Name, n, n), []any{&name, &state}, func() { items[name] = state })
		}
		w.Each("SELECT name, state FROM parts", []any{&name, &state}, func() { parts[name] = state })
	}
	for stream, want := range map[string]map[string]string{"items": items, "parts": parts} {
		got, again := s.fold(stream)
		repeated += again
		if fmt.Sprint(got) != fmt.Sprint(want) {
			s.t.Errorf("%s: the bus ends with %v, the tables have %v", stream, got, want)
		}
	}
	s.t.Logf("%d rows, %d items, %d parts, %d messages repeated", s.rows, len(items), len(parts), repeated)
	if s.once && repeated > 0 {
		s.t.Errorf("%d messages are there twice", repeated)
	}
	if r := world.Verify(s.t, s.members[0].Env); !r.Good {
		s.t.Errorf("bridge verify: %+v", r)
	}
}

// fold returns the states of a stream as the bus has them, and how many events it has twice.
func (s *shared) fold(stream string) (states map[string]string, repeated int) {
	states = make(map[string]string)
	seen := make(map[string]bool)
	for _, m := range s.Bus.ReadAll(s.t, s.Destination(stream)) {
		e, err := world.DecodeEvent(m)
		if err != nil {
			s.t.Fatal(err)
		}
		if seen[e.ID] {
			repeated++
		}
		seen[e.ID] = true
		name := m.Headers["bridge-shard"] + "/" + m.Headers["bridge-row-id"]
		if stream == "parts" {
			if err := json.Unmarshal(e.Data["name"], &name); err != nil {
				s.t.Fatal(err)
			}
		}
		if e.Op == event.Deleted {
			delete(states, name)
		} else {
			states[name] = string(e.Data["state"])
		}
	}
	return states, repeated
}
