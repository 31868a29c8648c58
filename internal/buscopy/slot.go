package buscopy

import (
	"maps"
	"slices"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/internal/share"
)

// Slot is whose copies these are: a share, in a generation of the number of shares. The zero value
// is all tables, before there were shares.
type Slot struct {
	Generation uint64 `json:"generation"`
	share.Share
}

// Placed says where a shard of a stream is, as the store names it.
type Placed struct {
	// Table is the name by which it is in a share; empty where the stream is in one as a whole.
	Table string
	// All says that each share that has tables of the stream has a shard of this name.
	All bool
	// Any says the same of one that a command to any of the processes changes: of several the one
	// with the latest Since holds.
	Any bool
}

func (s *Stream) placed(shard string) Placed {
	if s.Placed == nil {
		return Placed{Table: shard}
	}
	return s.Placed(shard)
}

// owner returns the copy of who had a shard last, before or as the slot that asks: nil where there
// is none. Of several generations the last one that has a copy knows best; it is never one behind
// that of the slot that asks.
func (h *held) owner(stream string, at Placed, asks Slot) (by Slot, c *Copy) {
	for slot, one := range h.newest {
		later := c == nil || slot.Generation > by.Generation
		if later && slot.Generation <= asks.Generation && slot.Has(stream, at.Table) {
			by, c = slot, one
		}
	}
	return by, c
}

// of returns what a process of a slot goes on from, of copies of all slots: of each of its tables
// what the one has that had it last. found is false where nobody had any.
func (h *held) of(s *Stream, mine Slot) (c Copy, found bool) {
	if own := h.newest[mine]; own != nil {
		return *own, true
	}
	from := make(map[Slot]*Copy)
	names := make(map[string]*Shard)
	for _, one := range h.newest {
		maps.Copy(names, one.byName)
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		at := s.placed(name)
		if one := h.latest(name, mine); at.Any && one != nil {
			c.Shards = append(c.Shards, *one)
		}
		if at.All || at.Any || !mine.Has(s.Name, at.Table) {
			continue
		}
		if by, owner := h.owner(s.Name, at, mine); owner != nil {
			if from[by] = owner; owner.byName[name] != nil {
				c.Shards = append(c.Shards, *owner.byName[name])
			}
		}
	}
	for name := range names {
		if one := h.ofAll(name, mine); s.placed(name).All && one != nil {
			c.Shards = append(c.Shards, *one)
		}
	}
	for _, one := range from {
		c.Epoch, c.Number = max(c.Epoch, one.Epoch), max(c.Number, one.Number)
		if one.Written.After(c.Written) {
			c.Written = one.Written
		}
	}
	c.Registrations = merged(slices.Collect(maps.Values(from)))
	c.Lacks = func(name string) bool {
		_, owner := h.owner(s.Name, s.placed(name), mine)
		return owner != nil && owner.byName[name] == nil
	}
	return c, len(from)+len(c.Shards) > 0
}

// ofAll returns a shard that each share has, if all have it that may have been the last to have a
// table of the slot that asks: those of a generation of which all have a copy, and later ones.
func (h *held) ofAll(name string, asks Slot) (found *Shard) {
	for generation := asks.Generation + 1; generation > 0; {
		generation--
		number, copies := 1, 0
		for slot, c := range h.newest {
			if slot.Generation != generation {
				continue
			}
			if found = c.byName[name]; found == nil {
				return nil
			}
			number, copies = max(1, slot.Number), copies+1
		}
		if copies == number {
			return found
		}
	}
	return nil
}

// latest returns the shard of a name with the latest Since, nil where no copy has one.
func (h *held) latest(name string, asks Slot) (latest *Shard) {
	for slot, c := range h.newest {
		one := c.byName[name]
		if one != nil && slot.Generation <= asks.Generation && (latest == nil || one.Progress.Since > latest.Progress.Since) {
			latest = one
		}
	}
	return latest
}

// merged returns registrations below which all copies have applied everything of theirs. A TP that
// one of them does not know is read from its beginning. High is that of all: what the bus has lost
// of any of them shows (rule 21).
func merged(copies []*Copy) (list []store.Registration) {
	knows := make(map[string][]store.Registration)
	for _, c := range copies {
		for i := range c.Registrations {
			r := c.Registrations[i]
			r.High = r.High.Later(r.Last)
			knows[r.TP] = append(knows[r.TP], r)
		}
	}
	for _, tp := range slices.Sorted(maps.Keys(knows)) {
		all := knows[tp]
		r := all[0]
		for i := range all[1:] {
			r = both(r, all[1+i])
		}
		if len(all) < len(copies) {
			r.Next, r.Last = 0, store.Anchor{}
		}
		list = append(list, r)
	}
	return list
}

// both merges two registrations of a TP. Where they are of different ones, which is there is not
// known, and the other one has lost everything: the incarnation becomes one that no TP has.
func both(a, b store.Registration) store.Registration {
	if b.Next < a.Next {
		a, b = b, a
	}
	a.High, a.Epoch, a.Late = a.High.Later(b.High), max(a.Epoch, b.Epoch), a.Late || b.Late
	switch {
	case a.Incarnation == "":
		a.Incarnation = b.Incarnation
	case b.Incarnation != "" && a.Incarnation != b.Incarnation:
		a.Incarnation += " or " + b.Incarnation
	}
	return a
}

// former returns the keys that nobody needs once a slot has a copy: those of its former processes,
// and of slots of former generations whose tables are all in a later copy. What another share of
// its generation, or one of a later one, has written stays. So does what each share has, until all
// of the generation have a copy.
func (h *held) former(s *Stream, mine Slot) (keys []string) {
	for slot, list := range h.keys {
		if slot == mine || slot.Generation < mine.Generation && !h.needed(s, slot, mine) {
			keys = append(keys, list...)
		}
	}
	return keys
}

func (h *held) needed(s *Stream, slot, mine Slot) bool {
	c := h.newest[slot]
	if c == nil {
		return false
	}
	copies := 1
	for other := range h.newest {
		if other.Generation == mine.Generation && other != mine {
			copies++
		}
	}
	return slices.ContainsFunc(c.Shards, func(one Shard) bool {
		at := s.placed(one.Name)
		if at.All || at.Any {
			return copies < mine.Number
		}
		by, _ := h.owner(s.Name, at, mine)
		return by == slot && !mine.Has(s.Name, at.Table)
	})
}
