package workload_test

import (
	"context"
	"database/sql"
	"fmt"
	"testing"
	"time"

	"bridge/internal/backoff"
	"bridge/internal/processlist"
	"bridge/tests/testenv"
	"bridge/tests/workload"
)

// agreeStates compares what the histories end with and what the table holds.
func agreeStates(t *testing.T, w *workload.Capabilities, db *sql.DB) (versions int) {
	t.Helper()
	there := readStates(t, db, "capabilities")
	for _, h := range w.Histories() {
		entity, last := h.App+"/"+h.Name, workload.Version{Condition: workload.Absent}
		if len(h.Versions) > 0 {
			last = h.Versions[len(h.Versions)-1]
		}
		is, ok := there[entity]
		delete(there, entity)
		versions += len(h.Versions)
		if ok != (last.Condition != workload.Absent) || ok && (is.Condition != last.Condition || is.State != last.State) {
			t.Errorf("%s: the table has %+v (%v), the history ends with %+v", entity, is, ok, last)
		}
		for i := 1; i < len(h.Versions); i++ {
			if h.Versions[i].CommitBegun.Before(h.Versions[i-1].CommitBegun) {
				t.Errorf("%s: version %d was begun before the one before it: %+v", entity, i, h.Versions)
			}
		}
	}
	for entity := range there {
		t.Errorf("%s has a row and no history", entity)
	}
	return versions
}

func TestStatesGoOnOverACrashOfTheDatabase(t *testing.T) {
	t.Parallel()
	server := testenv.StartMariaDB(t)
	db := openMariaDB(t, server, 16)
	w := newCapabilities(t, workload.CapabilityOptions{DB: db, Entities: 500, Writers: 16, Changes: 5000, Rate: 1500, Seed: 7})
	done := make(chan error, 1)
	go func() { done <- w.Run(t.Context()) }()
	for kills := 1; kills <= 2; kills++ {
		until(t, func() bool { return made(w) >= kills*1500 })
		server.Restart(t)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	versions, met := agreeStates(t, w, db), w.Interruptions()
	t.Logf("%d versions, %+v", versions, met)
	if met.Retries == 0 || met.Found+met.Doubtful == 0 {
		t.Errorf("%+v: no commit went without its answer", met)
	}
}

func made(w *workload.Capabilities) (sum int) {
	for _, n := range w.Sums() {
		sum += n
	}
	return sum
}

// twoRuns are a workload of releases and one of states that run in one database.
type twoRuns struct {
	db       *sql.DB
	releases *workload.Workload
	states   *workload.Capabilities
	cancel   context.CancelFunc
	done     chan error
}

// patient is a grace in which every statement ends on a machine that is busy with other things: an
// agreement needs the answer of every COMMIT.
const patient = time.Minute

func runBoth(t *testing.T, server *testenv.DatabaseServer, database string, grace time.Duration) *twoRuns {
	t.Helper()
	db := server.Admin(t, database)
	db.SetMaxIdleConns(8)
	ctx, cancel := context.WithCancel(t.Context())
	c := &twoRuns{db: db, cancel: cancel, done: make(chan error, 2)}
	c.releases = newWorkload(t, workload.Options{DB: db, Writers: 4, Rate: 300, Grace: grace, Mix: mix, Hold: workload.Hold{Short: 5 * time.Millisecond}})
	c.states = newCapabilities(t, workload.CapabilityOptions{DB: db, Entities: 100, Writers: 4, Rate: 300, Grace: grace, Seed: 9})
	t.Cleanup(cancel)
	go func() { c.done <- c.releases.Run(ctx) }()
	go func() { c.done <- c.states.Run(ctx) }()
	return c
}

// progress waits until both have made so many commits more.
func (c *twoRuns) progress(t *testing.T, commits int) {
	t.Helper()
	released, changed := c.releases.Record().Sums().Commits+commits, made(c.states)+commits
	until(t, func() bool {
		if len(c.done) > 0 {
			t.Fatal(<-c.done)
		}
		return c.releases.Record().Sums().Commits >= released && made(c.states) >= changed
	})
}

func (c *twoRuns) ended(t *testing.T) {
	t.Helper()
	limit := time.After(2 * patient)
	for range 2 {
		select {
		case err := <-c.done:
			if err != nil {
				t.Error(err)
			}
		case <-limit:
			t.Fatal("not ended within two minutes")
		}
	}
}

// TestWritersWaitOutWhatPasses kills connections of the shared server: no other test runs beside
// it.
func TestWritersWaitOutWhatPasses(t *testing.T) {
	for what, fault := range map[string]func(t *testing.T, root *sql.DB, db string){
		"a table that is away for a time":   renameAway,
		"killed connections and statements": killSessions,
		"columns that come and go":          changeColumns,
	} {
		t.Run(what, func(t *testing.T) {
			server := testenv.MariaDB(t)
			name := server.NewDatabase(t)
			c := runBoth(t, server, name, patient)
			c.progress(t, 50)
			fault(t, server.Root(t), name)
			c.progress(t, 100)
			c.cancel()
			c.ended(t)
			agree(t, c.releases, c.db)
			agreeStates(t, c.states, c.db)
			t.Logf("%+v, %+v", c.releases.Record().Sums(), c.states.Interruptions())
		})
	}
}

func renameAway(t *testing.T, root *sql.DB, db string) {
	for _, table := range []string{"orders", "capabilities"} {
		run(t, root, fmt.Sprintf("RENAME TABLE %[1]s.%[2]s TO %[1]s.gone", db, table))
		pass(t, 700*time.Millisecond)
		run(t, root, fmt.Sprintf("RENAME TABLE %[1]s.gone TO %[1]s.%[2]s", db, table))
	}
}

func changeColumns(t *testing.T, root *sql.DB, db string) {
	for _, table := range []string{"orders", "capabilities"} {
		for _, change := range []string{"ADD COLUMN extra int", "CHANGE extra other int", "DROP COLUMN other, ADD COLUMN front int FIRST"} {
			run(t, root, "ALTER TABLE "+db+"."+table+" "+change)
		}
	}
}

// killSessions kills all that runs in a database for a while, one time the connections, one time
// what they do.
func killSessions(t *testing.T, root *sql.DB, db string) {
	for round := range 60 {
		how := []string{"CONNECTION", "QUERY"}[round%2]
		all, err := processlist.Read(t.Context(), root)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range all {
			if p.Database == db {
				_, _ = root.Exec(fmt.Sprintf("KILL %s %d", how, p.ID)) // it may be gone already
			}
		}
		pass(t, 20*time.Millisecond)
	}
}

func run(t *testing.T, db *sql.DB, statement string) {
	t.Helper()
	if _, err := db.Exec(statement); err != nil {
		t.Fatal(err)
	}
}

// pass lets a fault last.
func pass(t *testing.T, d time.Duration) {
	t.Helper()
	if err := backoff.Pause(t.Context(), d); err != nil {
		t.Fatal(err)
	}
}

func TestAServerThatStandsStill(t *testing.T) {
	t.Parallel()
	server := testenv.StartMariaDB(t)
	for what, scene := range map[string]struct {
		grace time.Duration
		play  func(t *testing.T, c *twoRuns)
	}{
		"is waited for": {patient, func(t *testing.T, c *twoRuns) {
			server.Pause()
			pass(t, time.Second)
			server.Resume()
			c.progress(t, 50)
			c.cancel()
			c.ended(t)
			agree(t, c.releases, c.db)
			agreeStates(t, c.states, c.db)
		}},
		"does not keep a run from ending": {time.Second, func(t *testing.T, c *twoRuns) {
			server.Pause()
			defer server.Resume()
			until(t, func() bool { return c.db.Stats().InUse >= 8 }) // of eight writers
			c.cancel()
			c.ended(t)
			if met := c.states.Interruptions(); met.Doubtful == 0 {
				t.Errorf("%+v: what nobody could look for is not doubted", met)
			}
		}},
	} {
		t.Run(what, func(t *testing.T) {
			c := runBoth(t, server, server.NewDatabase(t), scene.grace)
			c.progress(t, 50)
			scene.play(t, c)
		})
	}
}
