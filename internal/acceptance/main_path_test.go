package acceptance

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"bridge/event"
	"bridge/internal/testenv"
)

// The sizes of the tests. The writer of the second part runs while the program does.
const (
	backlogRows = 164_000
	liveRows    = 40_000
	liveRate    = 4_000
)

// eachBus runs test on real Kafka and on real JetStream.
func eachBus(t *testing.T, test func(t *testing.T, b bus)) {
	t.Run("kafka", func(t *testing.T) { test(t, kafkaBus{testenv.Kafka(t)}) })
	t.Run("nats", func(t *testing.T) { test(t, natsBus{testenv.NATS(t)}) })
}

// scene is a table that two streams tail, on their way to one bus.
type scene struct {
	t     *testing.T
	table *revisions
	bus   bus
	env   env
}

// capability and release are the two streams: the same rows as states of revisions and as facts about applications.
const (
	capability = "revisions"
	release    = "facts"
)

func newScene(t *testing.T, server *testenv.MariaDBServer, b bus) *scene {
	t.Helper()
	s := &scene{t: t, table: newRevisions(t, server), bus: b}
	s.env = b.env().with(env{
		"BRIDGE_SOURCE_URL":  s.table.sourceURL(),
		"BRIDGE_STREAMS":     capability + "," + release,
		"BRIDGE_BATCH_ROWS":  "1000",
		"BRIDGE_NATS_STREAM": "",

		"BRIDGE_STREAM_REVISIONS_TABLE":       "app_revision",
		"BRIDGE_STREAM_REVISIONS_KIND":        "capability",
		"BRIDGE_STREAM_REVISIONS_KEY":         "data_center,revision",
		"BRIDGE_STREAM_REVISIONS_CREATED":     "gmt_create",
		"BRIDGE_STREAM_REVISIONS_MODIFIED":    "gmt_modified",
		"BRIDGE_STREAM_REVISIONS_DELETED":     "deleted",
		"BRIDGE_STREAM_REVISIONS_DESTINATION": b.open(t, s.destination(capability)),

		// Without a time of its own a row has that of its read, which has to be the same in a repeat.
		"BRIDGE_STREAM_FACTS_TABLE":            "app_revision",
		"BRIDGE_STREAM_FACTS_KIND":             "release",
		"BRIDGE_STREAM_FACTS_KEY":              "app_name",
		"BRIDGE_STREAM_FACTS_STABILITY_WINDOW": "0s",
		"BRIDGE_STREAM_FACTS_DESTINATION":      b.open(t, s.destination(release)),
	})
	return s
}

func (s *scene) destination(stream string) string {
	return strings.ReplaceAll(s.table.name, "-", "_") + "_" + stream
}

// write starts the live writer; wait returns when it is done.
func (s *scene) write() (wait func()) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var writer sync.WaitGroup
	var err error
	writer.Go(func() { err = s.table.write(ctx, liveRows, liveRate) })
	s.t.Cleanup(func() { cancel(); writer.Wait() })
	return func() {
		s.t.Helper()
		writer.Wait()
		if err != nil {
			s.t.Fatal(err)
		}
	}
}

// drained waits until both streams have saved the table's last row.
func (s *scene) drained(d *daemon) {
	s.t.Helper()
	last := s.table.maxID()
	for _, stream := range []string{capability, release} {
		eventually(s.t, 3*time.Minute, fmt.Sprintf("%s drained to %d, is at %d", stream, last, d.position(stream)),
			func() bool { return d.position(stream) >= last })
	}
}

// judge checks both destinations against the table.
func (s *scene) judge() map[string]verdict {
	s.t.Helper()
	must := s.table.ids()
	verdicts := map[string]verdict{
		capability: newJudge(s.t, event.Capability, "dataCenter", "revision").check(s.bus.read(s.t, s.destination(capability)), must),
		release:    newJudge(s.t, event.Release, "appName").check(s.bus.read(s.t, s.destination(release)), must),
	}
	for stream, v := range verdicts {
		s.t.Logf("%s: %d rows in the table, %d arrived, %d repeated", stream, len(must), v.rows, v.repeats)
	}
	return verdicts
}

func noRepeats(t testing.TB, verdicts map[string]verdict) {
	t.Helper()
	for stream, v := range verdicts {
		if v.repeats > 0 {
			t.Errorf("%s: %d messages were repeated", stream, v.repeats)
		}
	}
}

func TestBacklogAndLiveRowsArriveComplete(t *testing.T) {
	eachBus(t, func(t *testing.T, b bus) {
		s := newScene(t, testenv.MariaDB(t), b)
		s.table.fill(backlogRows)
		d := newDaemon(t, binary(t, false), s.env)
		d.start()
		s.write()()
		s.drained(d)
		if code, body := d.get("/readyz"); code != 200 {
			t.Errorf("/readyz %d: %s", code, body)
		}
		if status, took := d.term(); status != 0 || took > 10*time.Second {
			t.Errorf("exit status %d after %s, want 0 within 10s", status, took)
		}
		noRepeats(t, s.judge())
	})
}

func TestKillsAtRandomMomentsLoseNothing(t *testing.T) {
	eachBus(t, func(t *testing.T, b bus) {
		s := newScene(t, testenv.MariaDB(t), b)
		s.table.fill(backlogRows)
		// Small batches spread the backlog over all the kills.
		d := newDaemon(t, binary(t, false), s.env.with(env{"BRIDGE_BATCH_ROWS": "250"}))
		wait := s.write()
		for range 20 {
			d.env["BRIDGE_BATCH_ROWS"] = fmt.Sprint(100 + rand.IntN(400))
			d.start()
			pause(rangeOf(50*time.Millisecond, 700*time.Millisecond))
			d.kill()
		}
		d.start()
		wait()
		s.drained(d)
		if status, _ := d.term(); status != 0 {
			t.Errorf("exit status %d", status)
		}
		s.judge()
	})
}

func TestTerminationInMidStreamRepeatsNothing(t *testing.T) {
	eachBus(t, func(t *testing.T, b bus) {
		s := newScene(t, testenv.MariaDB(t), b)
		s.table.fill(backlogRows)
		d := newDaemon(t, binary(t, false), s.env.with(env{"BRIDGE_BATCH_ROWS": "250"}))
		for range 6 {
			d.start()
			pause(rangeOf(100*time.Millisecond, 500*time.Millisecond))
			if status, took := d.term(); status != 0 || took > 10*time.Second {
				t.Fatalf("exit status %d after %s, want 0 within 10s", status, took)
			}
		}
		d.start()
		s.drained(d)
		if status, _ := d.term(); status != 0 {
			t.Errorf("exit status %d", status)
		}
		noRepeats(t, s.judge())
	})
}

func rangeOf(low, high time.Duration) time.Duration { return low + rand.N(high-low) }
