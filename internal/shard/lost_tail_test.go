package shard_test

import (
	"testing"
	"time"

	"bridge/checkpoint/store"
	"bridge/internal/progress"
	"bridge/internal/shard"
)

// The bus loses what a release stream with START=latest has published: the decision about START is
// kept.
func TestLostTailWithStartLatest(t *testing.T) {
	b := newBench(t)
	b.opts.Start = shard.Start{Latest: true}
	b.insert(100)
	_, stop := b.run(t)
	eventually(t, "begun", func() bool { return b.position(t) == 100 })
	b.insert(3)
	eventually(t, "saved", func() bool { return b.position(t) == 103 })
	stop()
	expectRun(t, b.ids(topic), 101, 103)
	before := b.progress(t)
	b.bus.Lose(topic, 3)
	_, stop = b.run(t)
	eventually(t, "published again", func() bool { return b.count(topic) >= 3 })
	b.polls(t, 20)
	stop()
	t.Logf("before %+v\nafter %+v", before, b.progress(t))
	expectRun(t, b.ids(topic), 101, 103)
}

// Checkpoint set forward, then a lost tail.
func TestLostTailAfterSet(t *testing.T) {
	b := newBench(t)
	b.insert(100)
	_, stop := b.run(t)
	eventually(t, "saved", func() bool { return b.position(t) == 100 })
	stop()
	b.insert(50)
	b.set(t, 150)
	b.bus.Lose(topic, 1)
	_, stop = b.run(t)
	eventually(t, "on", func() bool { return b.position(t) == 150 })
	b.polls(t, 100)
	stop()
	t.Logf("after %+v, %d messages", b.progress(t), b.count(topic))
	if n := b.count(topic); n > 100 {
		t.Errorf("%d messages: what set has left out was published", n)
	}
}

// Rebuild of a release shard that was set before.
func TestRebuildAfterSet(t *testing.T) {
	b := newBench(t)
	b.insert(100)
	_, stop := b.run(t)
	eventually(t, "saved", func() bool { return b.position(t) == 100 })
	stop()
	b.set(t, 90)
	_, stop = b.run(t)
	eventually(t, "again", func() bool { return b.count(topic) == 110 && b.position(t) == 100 })
	b.insert(5)
	eventually(t, "more", func() bool { return b.count(topic) == 115 && b.position(t) == 105 })
	stop()
	b.apply(t, rebuildOf)
	_, stop = b.run(t)
	eventually(t, "on", func() bool { return b.position(t) == 105 })
	b.polls(t, 100)
	stop()
	if n := b.count(topic); n != 115 {
		t.Errorf("%d messages, want 115: a rebuild has published rows again that the bus has", n)
	}
}

// rebuildOf is what `bridge checkpoint rebuild` does.
func rebuildOf(image *store.Image) *store.Batch { return progress.Rebuild(image, "items", time.Now()) }
