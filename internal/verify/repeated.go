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
	// repeats are those that exactly-once rules out, but for what a person may have sent again.
	repeats map[repeatID]*repeated
}

type repeated struct {
	Repetition
	// events counts the repeats of each event, of at most mostEvents.
	events map[[16]byte]uint64
}

// mostEvents bounds the repeated events whose ids are kept.
const mostEvents = 1 << 16

type repeatID struct {
	epoch uint64
	kind  Repeat
}

func newDeliveries() *deliveries {
	return &deliveries{once: make(map[uint64]bool), repeats: make(map[repeatID]*repeated)}
}

// repeat takes in an event that was there.
func (d *deliveries) repeat(kind Repeat, epoch uint64, event [16]byte, most int, example func() Example) {
	id := repeatID{epoch, kind}
	found := d.repeats[id]
	if found == nil {
		found = &repeated{Repetition: Repetition{Repeat: kind}, events: make(map[[16]byte]uint64)}
		d.repeats[id] = found
	}
	if found.Count++; len(found.Examples) < most {
		found.Examples = append(found.Examples, example())
	}
	if _, known := found.events[event]; known || d.once[epoch] && len(found.events) < mostEvents {
		found.events[event]++
	}
}

// finish reports the repeats; refused tells the events that are dead letters. What a run with
// at-least-once had in flight when it was killed may be stored behind the start of the next one:
// that one may publish it again. A dead letter is published as often as a person resends it.
func (d *deliveries) finish(t *tally, refused func(event [16]byte) bool) {
	before := true
	for _, epoch := range slices.Sorted(maps.Keys(d.once)) {
		for _, kind := range RepeatKinds {
			found, once := d.repeats[repeatID{epoch, kind}], d.once[epoch]
			if found == nil {
				continue
			}
			resent := uint64(0)
			for event, n := range found.events {
				if kind == Again && refused(event) {
					resent += n
				}
			}
			switch {
			case once && (before || kind == Copy) && found.Count > resent:
				t.faults(Repeated, found.Count-resent, found.Examples)
			default:
				resent = found.Count
			}
			if resent > 0 {
				t.repeated(kind, resent, found.Examples)
			}
		}
		before = d.once[epoch]
	}
}
