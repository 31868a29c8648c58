package store_test

import (
	"testing"

	"bridge/checkpoint/store"
)

func TestNewer(t *testing.T) {
	entry := func(tp string, offset int64, epoch, seq uint64) store.Entry {
		return store.Entry{Fate: store.Live, Shard: "a", TP: tp, Offset: offset, Epoch: epoch, Seq: seq}
	}
	for _, c := range []struct {
		name   string
		e, old store.Entry
		newer  bool
	}{
		{"any entry is newer than none", entry("", 0, 0, 0), store.Entry{}, true},
		{"none is not newer than none", store.Entry{}, store.Entry{}, false},
		{"the higher offset of a topic-partition", entry("t/0", 5, 1, 1), entry("t/0", 4, 2, 9), true},
		{"the lower offset of a topic-partition", entry("t/0", 4, 2, 9), entry("t/0", 5, 1, 1), false},
		{"the same message", entry("t/0", 4, 2, 9), entry("t/0", 4, 2, 9), false},
		{"a higher epoch elsewhere", entry("t/1", 1, 3, 1), entry("t/0", 9, 2, 9), true},
		{"a lower epoch elsewhere", entry("t/1", 99, 1, 99), entry("t/0", 9, 2, 9), false},
		{"a higher seq elsewhere", entry("t/1", 1, 2, 10), entry("t/0", 9, 2, 9), true},
		{"the same seq elsewhere", entry("t/1", 10, 2, 9), entry("t/0", 9, 2, 9), false},
		{"a published one after a recorded one", entry("t/1", 0, 2, 1), entry("", 0, 0, 0), true},
		{"two recorded ones of one epoch", entry("", 0, 2, 2), entry("", 0, 2, 1), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.e.Newer(&c.old); got != c.newer {
				t.Errorf("newer: %v", got)
			}
		})
	}
}
