package published_test

import (
	"cmp"
	"slices"
	"testing"

	"example.org/bridge/internal/published"
)

// world is a table whose rows were published, and what has become of it.
type world struct {
	release, moved bool
	// identified says that rows have an identity.
	identified bool
	rows       map[uint64]published.Row
}

func (w *world) row(id, writer uint64) published.Row {
	r := published.Row{ID: id, Content: 1000*writer + id}
	if w.identified {
		r.Identity = 77_000*writer + id
	}
	return r
}

// update changes rows in place, delete removes them, write has another writer use their ids.
func (w *world) update(ids ...uint64) {
	for _, id := range ids {
		r := w.rows[id]
		r.Content += 500_000
		w.rows[id] = r
	}
}

func (w *world) delete(first, last uint64) {
	for id := first; id <= last; id++ {
		delete(w.rows, id)
	}
}

func (w *world) write(first, last uint64) {
	for id := first; id <= last; id++ {
		w.rows[id] = w.row(id, 2)
	}
}

// duplicate has another writer's row have the content of the one that was published.
func (w *world) duplicate(id uint64) {
	r := w.rows[id]
	r.Content = w.row(id, 1).Content
	w.rows[id] = r
}

func (w *world) compare(rows []published.Row) *published.Check {
	c := &published.Check{Release: w.release, Moved: w.moved}
	_ = c.Compare(rows, func(logged []published.Row) (found []published.Row, err error) {
		for _, r := range logged {
			if is, there := w.rows[r.ID]; there {
				found = append(found, is)
			}
		}
		return found, nil
	})
	return c
}

// TestOutcomes: rows 1 to 137 were published. What happens to a table is told from ids that are
// used again.
func TestOutcomes(t *testing.T) {
	const (
		intact   = published.Intact
		doubtful = published.Doubtful
		reused   = published.Reused
	)
	for _, c := range []struct {
		name   string
		happen func(*world)
		// The outcomes of a release stream, and of a capability stream, whose rows have an identity
		// and have none.
		release, releaseBare, capability, capabilityBare published.Outcome
		// survivor is the survivor of a release stream with an identity.
		survivor uint64
	}{
		{"nothing", func(*world) {}, intact, intact, intact, intact, 137},
		{"only another server", func(w *world) { w.moved = true }, intact, intact, intact, intact, 137},
		{"a purge from below", func(w *world) { w.delete(1, 100) }, intact, intact, intact, intact, 137},
		{"a purge of everything", func(w *world) { w.delete(1, 137) }, intact, intact, intact, intact, 0},
		{"a purge of everything, and another server", func(w *world) { w.moved = true; w.delete(1, 137) }, intact, intact, intact, intact, 0},
		{"a delete of the newest row", func(w *world) { w.delete(137, 137) }, intact, intact, intact, intact, 136},
		{"an update in place in the middle", func(w *world) { w.update(50, 51) }, intact, intact, intact, intact, 137},
		{"an update in place of the newest rows", func(w *world) { w.update(136, 137) }, intact, doubtful, intact, doubtful, 137},
		{"an update of all rows", func(w *world) { all(w) }, intact, doubtful, intact, doubtful, 137},
		{"an update of all rows, and another server", func(w *world) { w.moved = true; all(w) }, intact, doubtful, intact, doubtful, 137},
		{"an update of all rows but the newest, and another server", func(w *world) {
			w.moved = true
			all(w)
			w.rows[137] = w.row(137, 1)
		}, intact, doubtful, intact, doubtful, 137},
		{"a failover behind, nothing written since", func(w *world) { w.moved = true; w.delete(128, 137) }, intact, intact, intact, intact, 127},
		{"a failover behind, the ids used again", func(w *world) { w.moved = true; w.write(128, 137) }, reused, reused, reused, doubtful, 127},
		{"a failover behind, some of the ids used again", func(w *world) { w.moved = true; w.delete(128, 137); w.write(129, 130) },
			reused, reused, reused, doubtful, 127},
		{"a failover behind, older rows updated and purged besides", func(w *world) {
			w.moved = true
			w.write(128, 137)
			w.delete(1, 20)
			w.update(60, 61)
		}, reused, reused, reused, doubtful, 127},
		{"a failover behind, and one of the other rows looks like the one it was", func(w *world) {
			w.moved = true
			w.write(128, 137)
			w.duplicate(134)
		}, reused, reused, reused, doubtful, 127},
		{"a failover behind, and many of the other rows look like those they were", func(w *world) {
			w.moved = true
			w.write(100, 137)
			for id := uint64(110); id < 110+15; id++ {
				w.duplicate(id)
			}
		}, reused, reused, reused, doubtful, 99},
		{"a failover that lost all that is logged", func(w *world) { w.moved = true; w.write(1, 137) }, reused, doubtful, doubtful, doubtful, 0},
		{"a restore in place, the ids used again", func(w *world) { w.write(101, 137) }, reused, doubtful, doubtful, doubtful, 100},
		{"a truncated table that was filled again", func(w *world) { w.write(1, 137) }, reused, doubtful, doubtful, doubtful, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, v := range []struct {
				release, identified bool
				want                published.Outcome
			}{{true, true, c.release}, {true, false, c.releaseBare}, {false, true, c.capability}, {false, false, c.capabilityBare}} {
				w := &world{release: v.release, identified: v.identified, rows: make(map[uint64]published.Row)}
				var rows []published.Row
				for id := uint64(1); id <= 137; id++ {
					w.rows[id] = w.row(id, 1)
					rows = append(rows, w.rows[id])
				}
				c.happen(w)
				got := w.compare(rows)
				if got.Outcome() != v.want {
					t.Errorf("release %t, identified %t: outcome %d, want %d: %+v", v.release, v.identified, got.Outcome(), v.want, got)
				}
				if v.release && v.identified && got.Survivor() != c.survivor {
					t.Errorf("the survivor is %d, want %d", got.Survivor(), c.survivor)
				}
			}
		})
	}
}

func all(w *world) {
	for id := range w.rows {
		w.update(id)
	}
}

// TestARunProvesASurvivor: one row of the same content may be there by chance, sixteen in a row are
// those that were published.
func TestARunProvesASurvivor(t *testing.T) {
	const rows = 40
	for _, c := range []struct {
		name string
		// become says what has become of a row: '=' the same content, '!' another one, '-' gone.
		become        func(id uint64) byte
		done          bool
		survivor      uint64
		outcome       published.Outcome
		doubted, gone int
	}{
		{"all are alike", func(uint64) byte { return '=' }, true, 40, published.Intact, 0, 0},
		{"the newest is alike, the next one is not", func(id uint64) byte { return "=!"[one(id == 39)] }, true, 38, published.Reused, 2, 0},
		{"fifteen are alike", func(id uint64) byte { return "=!"[one(id == 25)] }, true, 24, published.Reused, 16, 0},
		{"sixteen are alike", func(id uint64) byte { return "=!"[one(id == 24)] }, true, 40, published.Intact, 0, 0},
		{"some of a run were deleted", func(id uint64) byte { return "=-"[one(id%3 == 0)] }, true, 40, published.Intact, 0, 0},
		{"the newest were deleted, too", func(id uint64) byte { return "=-"[one(id%3 == 0 || id > 37)] }, true, 37, published.Intact, 0, 3},
		{"the log ends within the run", func(id uint64) byte { return "=!"[one(id > 6)] }, false, 6, published.Reused, 34, 0},
		{"none is alike", func(uint64) byte { return '!' }, false, 0, published.Doubtful, 40, 0},
		{"every other one is alike", func(id uint64) byte { return "=!"[one(id%2 == 1)] }, false, 0, published.Doubtful, 40, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var logged, found []published.Row
			for id := uint64(1); id <= rows; id++ {
				row := published.Row{ID: id, Content: id}
				logged = append(logged, row)
				switch c.become(id) {
				case '-':
					continue
				case '!':
					row.Content += rows
				}
				found = append(found, row)
			}
			check := published.Check{Release: true, Moved: true}
			done := check.Add(logged[rows/2:], found)
			done = done || check.Add(logged[:rows/2], found)
			if done != c.done || check.Survivor() != c.survivor || check.Outcome() != c.outcome || len(check.Doubted) != c.doubted || len(check.Gone) != c.gone {
				t.Errorf("done %t, survivor %d, outcome %d, doubted %v, gone %v", done, check.Survivor(), check.Outcome(), check.Doubted, check.Gone)
			}
			first := uint64(0)
			if n := len(check.Doubted); n > 0 {
				first = check.Doubted[n-1]
			}
			if check.First() != first || check.Lost() != (c.gone > 0) {
				t.Errorf("the first is %d of %v, lost %t", check.First(), check.Doubted, check.Lost())
			}
			if !slices.IsSortedFunc(check.Doubted, func(a, b uint64) int { return cmp.Compare(b, a) }) {
				t.Errorf("not newest first: %v", check.Doubted)
			}
		})
	}
}

func one(of bool) int {
	if of {
		return 1
	}
	return 0
}

// TestWhatTellsARowFromAnother under its id, one row at a time.
func TestWhatTellsARowFromAnother(t *testing.T) {
	const release, capability = true, false
	a, b := published.IdentityOf(4, nil), published.IdentityOf(6, nil)
	for name, c := range map[string]struct {
		release  bool
		was, is  published.Row
		outcome  published.Outcome
		survivor uint64
	}{
		"a fact with another identity": {release, published.Row{Content: 1, Identity: 2}, published.Row{Content: 1, Identity: 3}, published.Reused, 0},
		// REPLACE writes a row again: another CREATED, the same state.
		"a state that is the same": {capability, published.Row{Content: 1, Identity: 2}, published.Row{Content: 1, Identity: 3}, published.Intact, 7},
		// Catch-up knows of no identity, and the row has changed since the list was saved.
		"a state that is as it was published last": {capability, published.Row{Content: 1}, published.Row{Content: 3, Identity: 4, Current: true}, published.Intact, 7},
		"a state that is another one":              {capability, published.Row{Content: 1}, published.Row{Content: 3, Identity: 4}, published.Doubtful, 0},
		// Two rows may share a CREATED in seconds.
		"another CREATED":                    {release, published.Row{Content: 1, Identity: a}, published.Row{Content: 1, Identity: b}, published.Reused, 0},
		"the same CREATED, other content":    {release, published.Row{Content: 1, Identity: a}, published.Row{Content: 2, Identity: a}, published.Doubtful, 0},
		"the same CREATED, the same content": {release, published.Row{Content: 1, Identity: a}, published.Row{Content: 1, Identity: a}, published.Intact, 7},
	} {
		c.was.ID, c.is.ID = 7, 7
		check := published.Check{Release: c.release}
		if check.Add([]published.Row{c.was}, []published.Row{c.is}); check.Outcome() != c.outcome || check.Survivor() != c.survivor || (check.First() == 7) != (c.outcome != published.Intact) {
			t.Errorf("%s: %v, survivor %d, first %d", name, check.Outcome(), check.Survivor(), check.First())
		}
	}
}

// TestColumnsDecideWhatIsUnsure: a row that is the same after all ends what is above and below.
func TestColumnsDecideWhatIsUnsure(t *testing.T) {
	for name, c := range map[string]struct {
		rows     map[uint64]bool
		outcome  published.Outcome
		survivor uint64
	}{
		"others":                      {map[uint64]bool{8: false, 9: false}, published.Reused, 0},
		"the same":                    {map[uint64]bool{8: true, 9: true}, published.Intact, 9},
		"others above one that stays": {map[uint64]bool{8: true, 9: false}, published.Reused, 8},
		"nothing that tells":          {nil, published.Doubtful, 0},
	} {
		check := published.Check{Release: true, Moved: true}
		check.Add([]published.Row{{ID: 8, Content: 1}, {ID: 9, Content: 1}}, []published.Row{{ID: 8, Content: 2}, {ID: 9, Content: 2}})
		if got := check.Unsure(); !slices.Equal(got, []uint64{9, 8}) {
			t.Errorf("%s: unsure are %v", name, got)
		}
		if check.Resolve(c.rows); check.Outcome() != c.outcome || check.Survivor() != c.survivor {
			t.Errorf("%s: %v, survivor %d, %+v", name, check.Outcome(), check.Survivor(), check)
		}
	}
	// Above a run of rows that are alike: its CREATED was changed, its columns were not.
	var was, is []published.Row
	for id := uint64(1); id <= 20; id++ {
		was = append(was, published.Row{ID: id, Content: id, Identity: published.IdentityOf(4, nil)})
		is = append(is, was[id-1])
	}
	is[19].Identity = published.IdentityOf(6, nil)
	check := published.Check{Release: true}
	if done := check.Add(was, is); !done || check.Outcome() != published.Reused {
		t.Fatalf("done %v, %v, want an outcome that the columns overrule", done, check.Outcome())
	}
	if check.Resolve(map[uint64]bool{20: true}); check.Outcome() != published.Intact || check.Survivor() != 20 {
		t.Errorf("%v, survivor %d, want 20 as it was published", check.Outcome(), check.Survivor())
	}
}
