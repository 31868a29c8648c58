package verify

import (
	"maps"
	"slices"
)

// deliveries tell repeats that exactly-once rules out from those that at-least-once may make: by
// the run of the program that has published them.
type deliveries struct {
	// once says of each epoch of the stream whether it published with exactly-once.
	once map[uint64]bool
	// repeats are those that exactly-once rules out.
	repeats map[repeatID]*Repetition
}

type repeatID struct {
	epoch uint64
	kind  Repeat
}

func newDeliveries() *deliveries {
	return &deliveries{once: make(map[uint64]bool), repeats: make(map[repeatID]*Repetition)}
}

// repeat takes in an event that was there.
func (d *deliveries) repeat(kind Repeat, epoch uint64, most int, example func() Example) {
	id := repeatID{epoch, kind}
	found := d.repeats[id]
	if found == nil {
		found = &Repetition{Repeat: kind}
		d.repeats[id] = found
	}
	if found.Count++; len(found.Examples) < most {
		found.Examples = append(found.Examples, example())
	}
}

// finish reports the repeats. What a run with at-least-once had in flight when it was killed may be
// stored behind the start of the next one: that one may publish it again.
func (d *deliveries) finish(t *tally) {
	before := true
	for _, epoch := range slices.Sorted(maps.Keys(d.once)) {
		for _, kind := range RepeatKinds {
			found, once := d.repeats[repeatID{epoch, kind}], d.once[epoch]
			switch {
			case found == nil:
			case once && (before || kind == Copy):
				t.faults(Repeated, found.Count, found.Examples)
			default:
				t.repeated(kind, found.Count, found.Examples)
			}
		}
		before = d.once[epoch]
	}
}
