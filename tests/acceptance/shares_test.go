package acceptance

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"example.org/bridge/tests/faulty/failpoint"
	"example.org/bridge/tests/testall"
	"example.org/bridge/tests/testenv"
	"example.org/bridge/tests/world"
)

// TestShares divides the tables of two databases between processes, whose number changes while rows
// come: none, two, three, none. Processes are killed, stand still and lose their folders; one of a
// former number wakes up when another one is in force. Each row is there, the states are those of
// the tables, and with exactly-once nothing is there twice.
func TestShares(t *testing.T) {
	testall.Beside(t)
	eachDelivery(t, func(t *testing.T, b *world.Bus) { newShared(t, b).run() })
}

// shared is one configuration that several processes share.
type shared struct {
	*world.Publisher
	t      *testing.T
	worlds [2]*world.World
	parts  parts

	mu   sync.Mutex
	logs []string
	// rows is how many rows of logs there are, each with a number of its own.
	rows int
}

const logsEach, itemsEach = 4, 3

func newShared(t *testing.T, b *world.Bus) *shared {
	s := &shared{t: t}
	server := testenv.MariaDB(t)
	for i := range s.worlds {
		s.worlds[i] = world.Empty(t, server)
		for n := range logsEach {
			s.createLog(i, n)
		}
		for n := range itemsEach {
			s.worlds[i].Exec(fmt.Sprintf("CREATE TABLE item_%d (id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, state INT NOT NULL, modified DATETIME(6) NOT NULL, KEY (modified))", n))
		}
	}
	s.parts = newParts(s.worlds)
	first, second := s.worlds[0].Name, s.worlds[1].Name
	reader, _, _ := strings.Cut(strings.TrimPrefix(s.worlds[0].URL, "mysql://"), ":")
	s.worlds[0].Exec(fmt.Sprintf("GRANT SELECT ON `%s`.* TO '%s'@'%%'", second, reader))
	both := func(tables string) string { return first + "." + tables + "," + second + "." + tables }
	s.Publisher = s.worlds[0].Publish(b, world.Publishing{
		Path: world.Faulty(t),
		Env: progressOnBus(t, b).With(world.Env{
			"BRIDGE_RECONCILE_MAX_DELETES": "100%", "BRIDGE_DOMAIN_ID": strings.ReplaceAll(first, "_", "-"),
			"BRIDGE_BATCH_ROWS": "50", "BRIDGE_POLL_INTERVAL": "50ms",
			// Else a process that is killed is waited for for 45 s when the number changes.
			failpoint.SilenceVariable: "12s",
		}),
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
	s.StartShares(0)
	s.harm(2)

	// Without signs of life nobody is waited for.
	s.Shares[0].Kill()
	s.StartShares(2)
	s.placed()
	s.harm(4)
	name := s.createLog(1, logsEach)
	world.Eventually(s.t, 2*time.Minute, "the new table "+name+" is published", func() bool { return slices.Contains(s.tables(), name) })

	// One stands still until another number is in force, and is shut out or ends.
	still := s.Shares[1]
	still.Signal(syscall.SIGSTOP)
	s.Shares[0].Term()
	s.StartShares(3)
	still.Signal(syscall.SIGCONT)
	s.placed()
	s.harm(4)
	if still.Wait(); still.Cmd.ProcessState.ExitCode() != 1 {
		s.t.Errorf("the process of a former number has ended with status %d", still.Cmd.ProcessState.ExitCode())
	}
	s.placed()

	for _, d := range s.Shares {
		d.Kill()
	}
	s.StartShares(0)
	s.harm(1)
	s.former()
	stop()
	s.arrive()
	for _, stream := range []string{"items", "parts"} {
		s.Shares[0].Reconcile(stream)
	}
	s.compare()
}

// tables returns those that the processes have, of the stream of logs those that run.
func (s *shared) tables() (all []string) {
	for _, d := range s.Shares {
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
	for _, d := range s.Shares {
		if n := len(d.Shards("logs")); n == want {
			s.t.Errorf("one of %d processes has all tables", len(s.Shares))
		}
	}
}

// harm kills processes, has them stand still and removes their folders, at random.
func (s *shared) harm(times int) {
	s.t.Helper()
	for range times {
		world.Pause(world.Between(500*time.Millisecond, 2*time.Second))
		d := s.Shares[rand.IntN(len(s.Shares))]
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
			d.LoseCheckpoint()
			d.Start()
		}
	}
	s.Ready()
}

// former starts processes of a number that is not in force: they wait, and say for what.
func (s *shared) former() {
	s.t.Helper()
	for _, index := range []int{0, 1} {
		d := s.NewShare(index, 3)
		d.Env["BRIDGE_CHECKPOINT_URL"] = "bus://" + filepath.Join(s.t.TempDir(), "former")
		d.Start()
		world.AwaitUnready(s.t, d, "no shares are in force")
		d.Term()
	}
}

// write changes tables until stop is called.
func (s *shared) write() (stop func()) {
	const most = 20 * time.Millisecond
	state := 0
	stops := []func(){s.parts.move(), every(most, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.rows++
		s.worlds[0].Exec("INSERT INTO "+s.logs[rand.IntN(len(s.logs))]+" (v) VALUES (?)", s.rows)
	}), every(most, func() {
		state++
		table, db := fmt.Sprintf("item_%d", rand.IntN(itemsEach)), s.worlds[rand.IntN(2)]
		switch id := 1 + rand.IntN(40); rand.IntN(6) {
		case 0:
			db.Exec("DELETE FROM "+table+" WHERE id = ?", id)
		case 1, 2:
			db.Exec("UPDATE "+table+" SET state = ?, modified = now(6) WHERE id = ?", state, id)
		default:
			db.Exec("INSERT INTO "+table+" (state, modified) VALUES (?, now(6))", state)
		}
	})}
	return func() {
		for _, stop := range stops {
			stop()
		}
	}
}

// published returns how often each row of the logs is there.
func (s *shared) published() map[int]int { return numbers(s.t, s.Bus, s.Destination("logs")) }

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
	repeated += s.parts.compare(s.Publisher)
	items := make(map[string]string)
	for _, w := range s.worlds {
		for n := range itemsEach {
			maps.Copy(items, w.Pairs(fmt.Sprintf("SELECT CONCAT('%s.item_%d/', id), state FROM item_%[2]d", w.Name, n)))
		}
	}
	got, again := fold(s.t, s.Bus, s.Destination("items"), func(e world.Event) (string, string) {
		return e.Headers["bridge-shard"] + "/" + e.Headers["bridge-row-id"], member(e, "state")
	})
	if repeated += again; !maps.Equal(got, items) {
		s.t.Errorf("items: the bus ends with %v, the tables have %v", got, items)
	}
	s.t.Logf("%d rows, %d items, %d messages repeated", s.rows, len(items), repeated)
	if s.Bus.Once() && repeated > 0 {
		s.t.Errorf("%d messages are there twice", repeated)
	}
	if r := world.Verify(s.t, s.Shares[0].Env); !r.Good {
		s.t.Errorf("bridge verify: %+v", r)
	}
}
