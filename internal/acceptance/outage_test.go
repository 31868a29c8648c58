package acceptance

import (
	"strings"
	"testing"
	"time"

	"bridge/internal/testenv"
)

// eachOwnBus runs test on a Kafka and a NATS that it may kill.
func eachOwnBus(t *testing.T, test func(t *testing.T, b bus)) {
	t.Run("kafka", func(t *testing.T) { test(t, kafkaBus{testenv.StartKafka(t, testenv.KafkaOptions{})}) })
	t.Run("nats", func(t *testing.T) { test(t, natsBus{testenv.StartNATS(t)}) })
}

func TestOutagesInMidStreamLoseNothing(t *testing.T) {
	eachOwnBus(t, func(t *testing.T, b bus) {
		server := testenv.StartMariaDB(t)
		s := newScene(t, server, b)
		s.table.fill(backlogRows / 2)
		d := newDaemon(t, binary(t, true), s.env.with(env{"BRIDGE_BATCH_ROWS": "250"}))
		d.start()
		wait := s.write()
		for range 2 {
			pause(rangeOf(300*time.Millisecond, 1500*time.Millisecond))
			b.kill()
			unready(t, d)
			b.start(t)
			pause(rangeOf(300*time.Millisecond, 1500*time.Millisecond))
			server.Kill()
			unready(t, d)
			server.Start(t)
		}
		wait()
		s.drained(d)
		becomesReady(t, d)
		if status, _ := d.term(); status != 0 {
			t.Errorf("exit status %d", status)
		}
		s.judge()
		if log := d.log.String(); strings.Contains(log, "DATA RACE") {
			t.Errorf("data race:\n%s", log)
		}
	})
}

func TestAllAbsentAtStartIsWaitedFor(t *testing.T) {
	eachOwnBus(t, func(t *testing.T, b bus) {
		server := testenv.StartMariaDB(t)
		s := newScene(t, server, b)
		s.table.fill(20_000)
		server.Kill()
		b.kill()

		d := newDaemon(t, binary(t, false), s.env)
		d.start()
		unready(t, d)
		pause(10 * time.Second)
		if code, body := d.get("/livez"); code != 200 {
			t.Errorf("/livez %d: %s", code, body)
		}
		if lines := strings.Count(d.log.String(), "\n"); lines > 30 {
			t.Errorf("%d lines of log in 10 s of waiting:\n%s", lines, d.log)
		}
		if !strings.Contains(d.log.String(), "fault begins") {
			t.Errorf("the log does not say what is waited for:\n%s", d.log)
		}
		server.Start(t)
		pause(time.Second)
		unready(t, d)
		b.start(t)
		s.drained(d)
		becomesReady(t, d)
		if status, _ := d.term(); status != 0 {
			t.Errorf("exit status %d", status)
		}
		noRepeats(t, s.judge())
	})
}

// unready waits until /readyz says 503 with a reason.
func unready(t testing.TB, d *daemon) {
	t.Helper()
	eventually(t, 20*time.Second, "/readyz 503 with a reason", func() bool {
		code, body := d.get("/readyz")
		return code == 503 && strings.Contains(body, "reason")
	})
}

func becomesReady(t testing.TB, d *daemon) {
	t.Helper()
	eventually(t, 30*time.Second, "/readyz 200", func() bool {
		code, _ := d.get("/readyz")
		return code == 200
	})
}
