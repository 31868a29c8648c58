package acceptance

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"bridge/tests/testall"
	"bridge/tests/testenv"
	"bridge/tests/world"
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

// tidyLog judges the form of a log: bridge's own lines alone, and what a fault's lines must say.
func tidyLog(t *testing.T, log string) {
	t.Helper()
	// An outage that returns within seconds has a second line when it has ended for good.
	begun, lasts := make(map[string]bool), make(map[string]bool)
	for line := range strings.Lines(log) {
		if !strings.HasPrefix(line, "time=") && !strings.HasPrefix(line, world.StartLine) {
			t.Errorf("a line of another's: %s", line)
		}
		name := ""
		if found := dependency.FindStringSubmatch(line); found != nil {
			name = found[1]
		}
		if strings.Contains(line, `msg="outage begins`) {
			if lasts[name] {
				t.Errorf("an outage begins that has not ended: %s", line)
			}
			begun[name], lasts[name] = true, true
		}
		if strings.Contains(line, `msg="outage ended"`) {
			if !begun[name] {
				t.Errorf("an outage ends that has not begun: %s", line)
			}
			lasts[name] = false
			if !strings.Contains(line, "after=") || !strings.Contains(line, "failures=") {
				t.Errorf("an end without duration and count: %s", line)
			}
		}
	}
	for name, last := range lasts {
		if last {
			t.Errorf("the outage of %s does not end:\n%s", name, log)
		}
	}
}

// dependency matches whose outage a line is about, without what follows the first '/'.
var dependency = regexp.MustCompile(`dependency="?([^ /"]+)`)

func TestOutagesInMidStreamLoseNothing(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	world.EachOwnBus(t, func(t *testing.T, b *world.Bus) {
		server := testenv.StartMariaDB(t)
		p := publishTwice(t, server, b, backlogRows/3, world.Binary(t, true), world.Env{"BRIDGE_BATCH_ROWS": "250"})
		p.Start()
		wait, _ := p.World.Write()
		for range 2 {
			for _, s := range []world.Server{b.Server(), server} {
				world.Pause(world.Between(300*time.Millisecond, 1500*time.Millisecond))
				s.Kill()
				world.AwaitUnready(t, p.Daemon)
				s.Start(t)
			}
		}
		wait()
		p.Drained()
		world.AwaitReady(t, p.Daemon)
		if status, _ := p.Term(); status != 0 {
			t.Errorf("exit status %d", status)
		}
		mustMatchBoth(p)
		if log := p.Log.String(); strings.Contains(log, "DATA RACE") {
			t.Errorf("data race:\n%s", log)
		}
	})
}

func TestAllAbsentAtStartIsWaitedFor(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	world.EachOwnBus(t, func(t *testing.T, b *world.Bus) {
		server := testenv.StartMariaDB(t)
		p := publishTwice(t, server, b, 20_000, "", nil)
		server.Kill()
		b.Server().Kill()

		p.Start()
		world.AwaitUnready(t, p.Daemon)
		world.Pause(10 * time.Second)
		if code, body := p.Get("/livez"); code != 200 {
			t.Errorf("/livez %d: %s", code, body)
		}
		if n := p.Log.Lines(); n > 30 {
			t.Errorf("%d lines of log in 10 s of waiting:\n%s", n, p.Log)
		}
		if !strings.Contains(p.Log.String(), "outage begins") {
			t.Errorf("the log does not say what is waited for:\n%s", p.Log)
		}
		server.Start(t)
		world.Pause(time.Second)
		world.AwaitUnready(t, p.Daemon)
		b.Server().Start(t)
		p.Drained()
		world.AwaitReady(t, p.Daemon)
		if status, _ := p.Term(); status != 0 {
			t.Errorf("exit status %d", status)
		}
		mustNotRepeat(p)
	})
}
