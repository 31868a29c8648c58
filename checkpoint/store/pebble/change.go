package pebble

import (
	"bytes"
	"cmp"
	"errors"
	"slices"

	"bridge/checkpoint/store"
)

// target is a change of an entry, with the numbers of its names.
type target struct {
	*store.Change
	stream, shard uint32
	hash          uint64
	// at is where the entry lies from now on, unless it is removed.
	at location
	// replaced says that a later change of the batch is about the same entity, there that its entry
	// lies at its location already.
	replaced, there bool
}

func (t *target) removes() bool { return t.Entry.State == store.Unknown }

// views changes entries, and the locations of their hashes. The hashes are written first, in their
// order, and then the entries in that of the batch, which mostly is that of their rows: so both
// are written, and former locations found, fastest.
func (w *writer) views(b *store.Batch) {
	all := w.targets(b.Views)
	if len(all) == 0 || w.err != nil {
		return
	}
	groups := grouped(all)
	former, err := w.store.newFinder()
	if err != nil {
		w.err = err
		return
	}
	for i := range all {
		if t := &all[i]; !t.replaced && !t.removes() && w.mayHave(t) {
			t.there = former.entry(t.at, t.stream, t.Entity)
		}
	}
	for _, group := range groups {
		w.hash(former, group)
	}
	w.err = errors.Join(w.err, former.end())
	for i := range all {
		w.entry(&all[i])
	}
}

// mayHave reports whether an entity with the hash of a change may have an entry.
func (w *writer) mayHave(t *target) bool {
	return !w.fresh.lacks(t.stream, t.hash) && !w.forgotten[t.stream]
}

// grouped returns changes by their hashes, in the order of these, and notes which are replaced.
func grouped(all []target) (groups [][]*target) {
	order := make([]*target, len(all))
	for i := range all {
		order[i] = &all[i]
	}
	// Stable: of changes of one entity the last one holds.
	slices.SortStableFunc(order, func(a, b *target) int {
		return cmp.Or(cmp.Compare(a.stream, b.stream), cmp.Compare(a.hash, b.hash))
	})
	for len(order) > 0 {
		n := 1
		for n < len(order) && order[n].hash == order[0].hash && order[n].stream == order[0].stream {
			n++
		}
		for i, t := range order[:n] {
			t.replaced = slices.ContainsFunc(order[i+1:n], func(later *target) bool { return bytes.Equal(later.Entity, t.Entity) })
		}
		groups = append(groups, order[:n])
		order = order[n:]
	}
	return groups
}

// targets returns the changes of views.
func (w *writer) targets(views []store.ViewChange) []target {
	count := 0
	for i := range views {
		count += len(views[i].Changes)
	}
	all := make([]target, 0, count)
	for i := range views {
		stream := w.names.number(name{streamName, views[i].Stream, ""})
		var shard name
		var number uint32
		for j := range views[i].Changes {
			t := target{Change: &views[i].Changes[j], stream: stream}
			t.hash = w.store.hash(t.Entity)
			if !t.removes() {
				if of := (name{shardName, t.Entry.Shard, views[i].Stream}); of != shard {
					shard, number = of, w.names.number(of)
				}
				t.shard, t.at = number, locationOf(number, &t.Entry)
			}
			all = append(all, t)
		}
	}
	return all
}

// hash changes the locations of a hash: each of its entities has one. group are the changes of
// entities with the hash, in their order.
func (w *writer) hash(former *finder, group []*target) {
	stream, hash := group[0].stream, group[0].hash
	unchanged := func(t *target) bool { return t.replaced || t.there }
	if !slices.ContainsFunc(group, func(t *target) bool { return !unchanged(t) }) {
		return
	}
	w.locations = w.locations[:0]
	if w.mayHave(group[0]) {
		var err error
		w.locations, err = former.locations(stream, hash, w.locations)
		w.err = errors.Join(w.err, err)
	}
	changed := false
	for _, t := range group {
		if unchanged(t) {
			continue
		}
		changed = w.leave(former, t) || changed
		if !t.removes() {
			w.locations, changed = append(w.locations, t.at), true
		}
	}
	w.key = appendHashKey(w.key[:0], stream, hash)
	switch {
	case !changed:
		return
	case len(w.locations) == 0:
		w.delete(w.key)
		return
	}
	w.value = appendLocations(w.value[:0], w.locations)
	w.set(w.key, w.value)
	if w.fresh.add(stream, hash) {
		w.fresh = nil
		w.store.fresh.Store(nil)
	}
}

// leave removes the entry of an entity from where it lies, and reports whether there was one.
func (w *writer) leave(former *finder, t *target) bool {
	for i, at := range w.locations {
		if (at != t.at || t.removes()) && former.entry(at, t.stream, t.Entity) {
			w.delete(former.key)
			w.locations = slices.Delete(w.locations, i, i+1)
			return true
		}
	}
	return false
}

// entry writes the entry of a change.
func (w *writer) entry(t *target) {
	if t.replaced || t.removes() {
		return
	}
	w.key = append(t.at.appendPrefix(w.key[:0], t.stream), t.Entity...)
	w.value = appendEntry(w.value[:0], t.shard, &t.Entry)
	w.set(w.key, w.value)
}
