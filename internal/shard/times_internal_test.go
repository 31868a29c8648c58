package shard

import (
	"testing"
	"time"

	"bridge/source"
)

func TestHotTime(t *testing.T) {
	for _, c := range []struct {
		name          string
		set, lockWait time.Duration
		hot           time.Duration
	}{
		{name: "is a minute where the server does not tell", hot: time.Minute},
		{name: "is a minute where statements wait for less", lockWait: 5 * time.Second, hot: time.Minute},
		{name: "outlasts a statement that waits for a lock", lockWait: 10 * time.Minute, hot: 12 * time.Minute},
		{name: "is what the options say", set: time.Second, lockWait: 10 * time.Minute, hot: time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := &gaps{opts: &Options{HotFor: c.set}, server: &server{traits: source.Traits{LockWait: c.lockWait}}}
			if got := g.options().HotFor; got != c.hot {
				t.Errorf("hot for %s, want %s", got, c.hot)
			}
		})
	}
}
