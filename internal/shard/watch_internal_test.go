package shard

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"bridge/source"
)

func TestWatch(t *testing.T) {
	ids := func(list []source.Cursor) (ids []uint64) {
		for _, at := range list {
			ids = append(ids, at.ID)
		}
		slices.Sort(ids)
		return ids
	}
	t.Run("shows one row of each moment, and then others", func(t *testing.T) {
		w := newWatch(1000)
		for id := range uint64(300) {
			w.add(source.Cursor{Modified: fmt.Sprint("m", id%3), ID: id})
		}
		shown := make(map[string]bool)
		for _, at := range w.sample(3) {
			shown[at.Modified] = true
		}
		if len(shown) != 3 {
			t.Errorf("moments %v", shown)
		}
		if got := ids(w.sample(50)); len(got) != 50 || len(slices.Compact(got)) != 50 {
			t.Errorf("%d rows: %v", len(got), got)
		}
		if got := ids(w.beside(map[string]bool{"m1": true}, 1000)); len(got) != 100 || got[0] != 1 || got[99] != 298 {
			t.Errorf("beside: %v", got)
		}
	})
	t.Run("every row is shown in the end", func(t *testing.T) {
		w := newWatch(1000)
		for id := range uint64(200) {
			w.add(source.Cursor{Modified: "m", ID: id})
		}
		missing := make(map[uint64]bool)
		for id := range uint64(200) {
			missing[id] = true
		}
		for range 10_000 {
			for _, at := range w.sample(20) {
				delete(missing, at.ID)
			}
		}
		if len(missing) > 0 {
			t.Errorf("%d rows were never shown", len(missing))
		}
	})
	t.Run("a row has one moment, and none without rows is kept", func(t *testing.T) {
		w := newWatch(10)
		w.add(source.Cursor{Modified: "a", ID: 1})
		w.add(source.Cursor{Modified: "b", ID: 1})
		if len(w.moments) != 1 || w.rows[1].modified != "b" {
			t.Errorf("moments %v", w.moments)
		}
		w.remove(1)
		w.remove(1)
		if len(w.moments)+len(w.rows) != 0 {
			t.Errorf("left %v, %v", w.moments, w.rows)
		}
	})
	t.Run("what there is no room for is read from its oldest on until there is", func(t *testing.T) {
		w := newWatch(2)
		for id, modified := range []string{"d", "e", "c", "b", "f"} {
			w.add(source.Cursor{Modified: modified, ID: uint64(id)})
		}
		if w.low != "b" || !w.full() {
			t.Errorf("from %q on", w.low)
		}
		w.remove(0)
		w.begin()
		w.add(source.Cursor{Modified: "b", ID: 3})
		w.add(source.Cursor{Modified: "c", ID: 2})
		if w.end(); w.low != "c" {
			t.Errorf("after a pass from %q on", w.low)
		}
		w.remove(1)
		w.begin()
		w.add(source.Cursor{Modified: "c", ID: 2})
		if w.end(); w.low != "" {
			t.Errorf("with room for all from %q on", w.low)
		}
	})
}

func TestRecent(t *testing.T) {
	start := time.Unix(1_000_000, 0)
	r := newRecent(100, 10*time.Minute)
	if !r.from(start).Equal(start.Add(-10 * time.Minute)) {
		t.Errorf("before the first change it reaches to %s", r.from(start))
	}
	text := func(at time.Time) string { return at.UTC().Format(time.RFC3339Nano) }
	for i := range 10_000 {
		now := start.Add(time.Duration(i) * 100 * time.Millisecond)
		r.add(uint64(i), text(now), now)
		if n := len(r.young) + len(r.old); n > 100 {
			t.Fatalf("%d changes are kept", n)
		}
		from := r.from(now)
		for j := i; j >= 0 && !start.Add(time.Duration(j)*100*time.Millisecond).Before(from); j-- {
			if at := start.Add(time.Duration(j) * 100 * time.Millisecond); i%97 == 0 && i > 100 && !r.has(uint64(j), text(at)) {
				t.Fatalf("change %d of %s is forgotten at %s, it reaches to %s", j, at, now, from)
			}
		}
	}
	if r.has(9999, "another") || r.has(20_000, text(start)) {
		t.Error("it has what was not noted")
	}
}
