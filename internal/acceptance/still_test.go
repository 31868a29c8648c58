package acceptance

import (
	"strings"
	"testing"
	"time"

	"bridge/tests/world"

	"bridge/internal/testall"
	"bridge/internal/testenv"
)

func TestReadinessFollowsWhatStandsStill(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	world.EachOwnBus(t, func(t *testing.T, b *world.Bus) {
		server := testenv.StartMariaDB(t)
		p := publishTwice(t, server, b, 2000, "", nil)
		p.Start()
		p.Drained()
		world.AwaitReady(t, p.Daemon)
		standsStill(t, p.Daemon, "source", server)
		standsStill(t, p.Daemon, "sink", b.Server())
		if status, _ := p.Term(); status != 0 {
			t.Errorf("exit status %d", status)
		}
		mustMatchBoth(p)
		tidyLog(t, p.Log.String())
	})
}

// standsStill judges what bridge says of a quiet server that stands still, asked ten times a second
// until 2 s after it has noticed.
func standsStill(t *testing.T, d *world.Daemon, what string, server world.Server) {
	t.Helper()
	before := d.Metric("go_goroutines")
	server.Pause()
	begun, noticed := time.Now(), time.Duration(0)
	for time.Since(begun) < 12*time.Second && (noticed == 0 || time.Since(begun) < noticed+2*time.Second) {
		asked := time.Now()
		code, body := d.Get("/readyz")
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
		world.Pause(100 * time.Millisecond)
	}
	if noticed == 0 || noticed > 10*time.Second {
		t.Errorf("%s: noticed after %s", what, noticed)
	}
	if code, body := d.Get("/livez"); code != 200 {
		t.Errorf("%s: /livez %d: %s", what, code, body)
	}
	if after := d.Metric("go_goroutines"); after > before+60 {
		t.Errorf("%s: %v goroutines before, %v while it stands still", what, before, after)
	}
	server.Resume()
	resumed := time.Now()
	world.AwaitReady(t, d)
	t.Logf("%s: ready %s after it goes on", what, time.Since(resumed))
}

// tidyLog judges the form of a log: bridge's own lines alone, and what a fault's lines must say.
func tidyLog(t *testing.T, log string) {
	t.Helper()
	begins, ends := 0, 0
	for line := range strings.Lines(log) {
		if !strings.HasPrefix(line, "time=") && !strings.HasPrefix(line, world.StartLine) {
			t.Errorf("a line of another's: %s", line)
		}
		if strings.Contains(line, `msg="outage begins`) {
			begins++
		}
		if strings.Contains(line, `msg="outage ended"`) {
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
