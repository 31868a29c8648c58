package acceptance

import (
	"strings"
	"testing"
	"time"

	"example.org/bridge/tests/testall"
	"example.org/bridge/tests/testenv"
	"example.org/bridge/tests/world"
)

// TestReadinessFollowsWhatStandsStill starts bridge while bus and database are away, and has each
// of them stand still later: /readyz says so, /livez does not, and the log is quiet.
func TestReadinessFollowsWhatStandsStill(t *testing.T) {
	testall.Beside(t)
	world.EachOwnBus(t, func(t *testing.T, b *world.Bus) {
		server := testenv.StartMariaDB(t)
		p := publishTwice(t, server, b, 2000)
		server.Kill()
		b.Server().Kill()
		p.Start()
		world.AwaitUnready(t, p.Daemon)
		world.Pause(5 * time.Second)
		if code, body := p.Get("/livez"); code != 200 {
			t.Errorf("/livez %d: %s", code, body)
		}
		if n := p.Log.Lines(); n > 30 || !strings.Contains(p.Log.String(), "outage begins") {
			t.Errorf("%d lines of log in 5 s of waiting:\n%s", n, p.Log)
		}
		server.Start(t)
		world.Pause(time.Second)
		world.AwaitUnready(t, p.Daemon)
		b.Server().Start(t)
		p.Drained()
		world.AwaitReady(t, p.Daemon)
		standsStill(t, p.Daemon, "source", server)
		standsStill(t, p.Daemon, "sink", b.Server())
		p.Ends()
		mustNotRepeat(p)
	})
}

// A quiet machine takes half of these, or less. Without what notices a server that stands still it
// would be the time that a statement may take, 30 s, or for ever.
const (
	answerWithin = 15 * time.Second
	noticeWithin = 25 * time.Second
)

// standsStill judges what bridge says of a quiet server that stands still, asked ten times a second
// until 2 s after it has noticed.
func standsStill(t *testing.T, d *world.Daemon, what string, server world.Server) {
	t.Helper()
	before := d.Metric("go_goroutines")
	server.Pause()
	begun, noticed := time.Now(), time.Duration(0)
	for time.Since(begun) < noticeWithin+2*time.Second && (noticed == 0 || time.Since(begun) < noticed+2*time.Second) {
		asked := time.Now()
		code, body := d.Get("/readyz")
		if took := time.Since(asked); took > answerWithin || code == 0 {
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
	if noticed == 0 || noticed > noticeWithin {
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
