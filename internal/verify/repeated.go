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
	// rows counts the repeats of each row, of at most mostRows.
	rows map[rowID]uint64
}

type rowID struct {
	shard *shard
	row   uint64
}

// mostRows bounds the rows whose repeats are counted.
const mostRows = 1 << 16

type repeatID struct {
	epoch uint64
	kind  Repeat
}

func newDeliveries() *deliveries {
	return &deliveries{once: make(map[uint64]bool), repeats: make(map[repeatID]*repeated)}
}

// repeat takes in an event that was there.
func (d *deliveries) repeat(kind Repeat, epoch uint64, row rowID, most int, example func() Example) {
	id := repeatID{epoch, kind}
	found := d.repeats[id]
	if found == nil {
		found = &repeated{Repetition: Repetition{Repeat: kind}, rows: make(map[rowID]uint64)}
		d.repeats[id] = found
	}
	if found.Count++; len(found.Examples) < most {
		found.Examples = append(found.Examples, example())
	}
	if _, known := found.rows[row]; known || d.once[epoch] && len(found.rows) < mostRows {
		found.rows[row]++
	}
}

// finish reports the repeats. What a run with at-least-once had in flight when it was killed may be
// stored behind the start of the next one: that one may publish it again. What is true of a row
// with a dead letter is published as often as a person resends it.
func (d *deliveries) finish(t *tally) {
	before := true
	for _, epoch := range slices.Sorted(maps.Keys(d.once)) {
		for _, kind := range RepeatKinds {
			found, once := d.repeats[repeatID{epoch, kind}], d.once[epoch]
			if found == nil {
				continue
			}
			resent := uint64(0)
			for row, n := range found.rows {
				if _, refused := row.shard.rejected[row.row]; refused && kind == Again {
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
