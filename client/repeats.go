package client

// repeats has the ids that were handled last, so many as it has room for. It serves one goroutine
// at a time.
type repeats struct {
	ids  map[[16]byte]struct{}
	ring [][16]byte
	next int
}

// repeatWindow is how many ids of a TP are remembered: some 50 bytes each.
const repeatWindow = 1 << 14

func newRepeats(room int) *repeats {
	return &repeats{ids: make(map[[16]byte]struct{}), ring: make([][16]byte, 0, room)}
}

func (r *repeats) has(id [16]byte) bool {
	_, ok := r.ids[id]
	return ok
}

// add remembers an id in place of the oldest one.
func (r *repeats) add(id [16]byte) {
	switch {
	case r.has(id):
		return
	case len(r.ring) < cap(r.ring):
		r.ring = append(r.ring, id)
	default:
		delete(r.ids, r.ring[r.next])
		r.ring[r.next] = id
		r.next = (r.next + 1) % len(r.ring)
	}
	r.ids[id] = struct{}{}
}
