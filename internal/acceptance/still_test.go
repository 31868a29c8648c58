package acceptance

import (
	"strings"
	"testing"
	"time"

	"bridge/internal/testenv"
)

// pausable is a server that can be made to stand still: its connections stay open, and nothing answers.
type pausable interface {
	Pause()
	Resume()
}

func TestReadinessFollowsWhatStandsStill(t *testing.T) {
	for name, start := range map[string]func(t *testing.T) (bus, pausable){
		"kafka": func(t *testing.T) (bus, pausable) {
			s := testenv.StartKafka(t, testenv.KafkaOptions{})
			return kafkaBus{s}, s
		},
		"nats": func(t *testing.T) (bus, pausable) { s := testenv.StartNATS(t); return natsBus{s}, s },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := testenv.StartMariaDB(t)
			b, stands := start(t)
			s := newScene(t, server, b)
			s.table.fill(2000)
			d := newDaemon(t, binary(t, false), s.env)
			d.start()
			s.drained(d)
			becomesReady(t, d)
			standsStill(t, d, "source", server)
			standsStill(t, d, "sink", stands)
			if status, _ := d.term(); status != 0 {
				t.Errorf("exit status %d", status)
			}
			s.judge()
			tidyLog(t, d.log.String())
		})
	}
}

// standsStill judges what bridge says of a quiet server that stands still, asked ten times a second until 2 s after it has noticed.
func standsStill(t *testing.T, d *daemon, what string, server pausable) {
	t.Helper()
	before := d.metric("go_goroutines")
	server.Pause()
	begun, noticed := time.Now(), time.Duration(0)
	for time.Since(begun) < 12*time.Second && (noticed == 0 || time.Since(begun) < noticed+2*time.Second) {
		asked := time.Now()
		code, body := d.get("/readyz")
		if took := time.Since(asked); took > 6*time.Second || code == 0 {
			t.Errorf("%s: /readyz answers %d after %s", what, code, took)
		}
		if noticed == 0 && code == 503 {
			noticed = time.Since(begun)
			t.Logf("%s: noticed after %s: %s", what, noticed, body)
		}
		if noticed > 0 && code != 503 {
			t.Errorf("%s: /readyz says %d %s after it has noticed", what, code, time.Since(begun))
		}
		pause(100 * time.Millisecond)
	}
	if noticed == 0 || noticed > 10*time.Second {
		t.Errorf("%s: noticed after %s", what, noticed)
	}
	if code, body := d.get("/livez"); code != 200 {
		t.Errorf("%s: /livez %d: %s", what, code, body)
	}
	if after := d.metric("go_goroutines"); after > before+60 {
		t.Errorf("%s: %v goroutines before, %v while it stands still", what, before, after)
	}
	server.Resume()
	resumed := time.Now()
	becomesReady(t, d)
	t.Logf("%s: ready %s after it goes on", what, time.Since(resumed))
}

// tidyLog judges the form of a log: bridge's own lines alone, and what a fault's lines must say.
func tidyLog(t *testing.T, log string) {
	t.Helper()
	begins, ends := 0, 0
	for line := range strings.Lines(log) {
		if !strings.HasPrefix(line, "time=") && !strings.HasPrefix(line, startMark) {
			t.Errorf("a line of another's: %s", line)
		}
		if strings.Contains(line, `msg="fault begins`) {
			begins++
		}
		if strings.Contains(line, `msg="fault ended"`) {
			ends++
			if !strings.Contains(line, "after=") || !strings.Contains(line, "failures=") {
				t.Errorf("an end without duration and count: %s", line)
			}
		}
	}
	if begins != ends {
		t.Errorf("%d faults begin, %d end:\n%s", begins, ends, log)
	}
}
