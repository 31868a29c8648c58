package verify_test

import (
	"testing"
	"testing/synctest"
	"time"

	"bridge/event"
	"bridge/internal/verify"
	"bridge/sink"
	"bridge/source"
)

// log publishes eight rows of two keys in turn: a b a b …
func log(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, event.Release)
	for i := range 8 {
		w.insert([]string{"a", "b"}[i%2], "x")
	}
	return w
}

func TestRelease(t *testing.T) {
	for _, c := range []struct {
		name    string
		tamper  func(t *testing.T, w *world)
		finding string
	}{
		{"a clean bus is good", func(*testing.T, *world) {}, ""},
		{"the first message is removed", func(_ *testing.T, w *world) { w.bus.cut(0) }, "missing 1"},
		{"the last one is removed", func(_ *testing.T, w *world) { w.bus.cut(7) }, "missing 1"},
		{"the first message is altered", func(t *testing.T, w *world) { w.bus.edit(t, 0, `"x"`, `"y"`) }, "altered 1"},
		{"the last one has another time of its row", func(t *testing.T, w *world) { w.bus.edit(t, 7, "10:20:30.123", "10:20:30.124") }, "altered 1"},
		{"one has another id", func(t *testing.T, w *world) {
			w.bus.edit(t, 3, `"id":"`+w.bus.messages[3].Header[sink.HeaderID][:1], `"id":"_`)
		}, "missing 1, altered 1"},
		{"one has another header", func(_ *testing.T, w *world) {
			w.bus.messages[3].Header[sink.HeaderRowID] = "77"
		}, "altered 1"},
		{"one has another key", func(_ *testing.T, w *world) {
			w.bus.messages[3].Key = []byte("a")
		}, "altered 1"},
		{"the first two of a key are swapped", func(_ *testing.T, w *world) { w.bus.swap(0, 2) }, "outOfOrder 1"},
		{"the last two of a key are swapped", func(_ *testing.T, w *world) { w.bus.swap(5, 7) }, "outOfOrder 1"},
		{"two of different keys are swapped", func(_ *testing.T, w *world) { w.bus.swap(2, 3) }, ""},
		{"one that came late is in order", func(_ *testing.T, w *world) {
			w.bus.messages[2].Header[sink.HeaderOrigin] = string(sink.FromLate)
			w.bus.swap(2, 4)
		}, ""},
		{"an event of a row that never was is added", func(_ *testing.T, w *world) {
			w.insert("a", "x")
			w.table.Truncate()
			for range 8 {
				w.table.Skip(1)
			}
		}, "extra 1 | purged 8"},
		{"a second event of a row is added", func(_ *testing.T, w *world) {
			w.table.Delete(8)
			w.table.InsertAt(8, "b", "y", "1.50", "2026-03-01 10:20:30.123")
			w.publish(8)
		}, "extra 1"},
		{"rows are purged", func(_ *testing.T, w *world) {
			w.table.Delete(2)
			w.table.Delete(8)
		}, " | purged 2"},
		{"a row is changed after its event", func(_ *testing.T, w *world) {
			w.table.Delete(4)
			w.table.InsertAt(4, "b", "other", "1.50", "2026-03-01 10:20:30.123")
		}, " | changed 1"},
		{"the id of a row belongs to another one now, as after a failover", func(_ *testing.T, w *world) {
			w.table.Delete(4)
			w.table.InsertAt(4, "b", "other", "1.50", "2026-03-01 10:20:31.123")
		}, "altered 1"},
		{"ids are used again after a failover", func(_ *testing.T, w *world) {
			w.table.Lose(5)
			for range 5 {
				w.table.Insert("z", "new", "1.50", "2026-03-01 10:20:31.123")
			}
		}, "missing 2, altered 3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := log(t)
			c.tamper(t, w)
			want(t, w.check(), c.finding)
		})
	}
}

func TestWhatCannotBeJudged(t *testing.T) {
	t.Run("rows older than the head of a bus that has expired", func(t *testing.T) {
		w := log(t)
		w.bus.messages = w.bus.messages[3:]
		w.bus.partition.Expired = true
		want(t, w.check(), " | expired 3")
	})
	t.Run("a row behind that head is missing all the same", func(t *testing.T) {
		w := log(t)
		w.bus.messages = w.bus.messages[3:]
		w.bus.cut(2)
		w.bus.partition.Expired = true
		want(t, w.check(), "missing 1 | expired 3")
	})
	t.Run("links that lead behind that head", func(t *testing.T) {
		w := histories(t)
		w.bus.messages = w.bus.messages[2:]
		w.bus.partition.Expired = true
		want(t, w.check(), " | expired 2")
	})
	t.Run("rows before START=latest, and before the id of START", func(t *testing.T) {
		w := log(t)
		w.bus.messages = w.bus.messages[3:]
		want(t, w.check(func(o *verify.Options) { o.Shards[0].Latest = true }), " | notFromBeginning 3")
		w.bus.read = 0
		want(t, w.check(func(o *verify.Options) { o.Shards[0].After = 3 }), " | notFromBeginning 3")
		w.bus.read = 0
		want(t, w.check(func(o *verify.Options) { o.Shards[0].After = 2 }), "missing 1 | notFromBeginning 2")
	})
	t.Run("a row that is younger than the stability window", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := log(t)
			w.table.Insert("a", "x", "1.50", time.Now().UTC().Format("2006-01-02 15:04:05.000"))
			want(t, w.check(func(o *verify.Options) { o.Shards[0].Window = time.Hour }), " | young 1")
		})
	})
	t.Run("but an older row without a time of its own is waited for", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, event.Release)
			for range 3 {
				w.publish(w.table.Insert("a", "x", "1.50"))
			}
			w.bus.cut(2)
			want(t, w.check(func(o *verify.Options) { o.Shards[0].Window = 40 * time.Second }), "missing 1")
		})
	})
	t.Run("what has been removed by a limit per subject", func(t *testing.T) {
		w := log(t)
		w.bus.cut(3)
		w.bus.partition.Thinned = true
		want(t, w.check(), " | thinned 1")
	})
	t.Run("histories that begin again after rows were published again", func(t *testing.T) {
		w := histories(t)
		clear(w.last)
		w.publish(7)
		w.publish(4)
		want(t, w.check(), " | anew 1")
	})
}

func TestARunningBridgeIsWaitedFor(t *testing.T) {
	t.Run("a row that is published during the check is not missing", func(t *testing.T) {
		w := log(t)
		reads := 0
		w.table.Insert("a", "x", "1.50", "2026-03-01 10:20:30.123")
		w.bus.before = func() {
			if reads++; reads == 3 {
				w.publish(9)
			}
		}
		want(t, w.check(), "")
	})
	t.Run("a row that is replaced during the check is neither stale nor extra", func(t *testing.T) {
		w := histories(t)
		reads := 0
		w.bus.before = func() {
			switch reads++; reads {
			case 2:
				w.table.Delete(4)
				w.table.Insert("c", "second", "1.50", "2026-03-01 10:20:30.123")
			case 3:
				w.publish(9)
			}
		}
		// Something that does not fit has it look again.
		w.table.Insert("d", "first", "1.50", "2026-03-01 10:20:30.123")
		want(t, w.check(), "missing 1")
	})
	t.Run("a row that comes at the very end is not judged", func(t *testing.T) {
		w := log(t)
		reads := 0
		w.table.Insert("a", "x", "1.50", "2026-03-01 10:20:30.123")
		w.bus.before = func() {
			if reads++; reads == 4 {
				w.publish(9)
				w.table.Insert("a", "x", "1.50", "2026-03-01 10:20:30.123")
			}
		}
		want(t, w.check(), " | young 1")
	})
}

// TestARepeatOfARowWithoutATime was read at another time.
func TestARepeatOfARowWithoutATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := withColumns(t, event.Release, source.Column{Name: "value", Kind: source.Text})
		id := w.table.Insert("a", "x")
		w.publish(id)
		time.Sleep(time.Minute)
		w.publish(id)
		want(t, w.check(), "")
	})
}
