package shard_test

import (
	"log/slog"
	"testing"
)

// TestAStartIsLogged: where a shard begins or resumes, and when it has caught up, once each.
func TestAStartIsLogged(t *testing.T) {
	log := new(lines)
	b := newBench(t)
	b.opts.Logger = slog.New(slog.NewTextHandler(log, nil))
	b.insert(3)
	_, stop := b.run(t)
	eventually(t, "caught up", func() bool { return log.count(`msg="caught up" published=3 position=3 after=`) == 1 })
	b.insert(2)
	eventually(t, "two more are published", func() bool { return b.position(t) == 5 })
	b.polls(t, 3)
	stop()
	if log.count(`msg="stream begins" position=0`) != 1 || log.count("caught up") != 1 || log.count("resumes") != 0 {
		t.Errorf("the first start logs %s", log.b.String())
	}
	b.run(t)
	eventually(t, "caught up again", func() bool { return log.count(`msg="caught up" published=0 position=5 after=`) == 1 })
	if log.count(`msg="stream resumes" position=5`) != 1 || log.count("stream begins") != 1 {
		t.Errorf("the second start logs %s", log.b.String())
	}
}
