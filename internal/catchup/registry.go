package catchup

import (
	"slices"

	"bridge/checkpoint/store"
)

// registry has the registrations of the store. It has no lock: it belongs to the Committer.
type registry struct {
	byNumber map[uint32]store.Registration
	// inForce has the number that is in force for a stream and a TP, byTP those of all streams.
	inForce map[streamTP]uint32
	byTP    map[string][]uint32
	last    uint32
}

type streamTP struct{ stream, tp string }

func newRegistry(list []store.Registration) registry {
	g := registry{byNumber: make(map[uint32]store.Registration), inForce: make(map[streamTP]uint32), byTP: make(map[string][]uint32)}
	for _, r := range list {
		g.put(r)
	}
	return g
}

// put adds or replaces the registration with the number of r.
func (g *registry) put(r store.Registration) {
	key := streamTP{r.Stream, r.TP}
	g.byNumber[r.Number], g.last = r, max(g.last, r.Number)
	others := slices.DeleteFunc(g.byTP[r.TP], func(n uint32) bool { return n == r.Number })
	switch {
	case !r.Retired:
		g.inForce[key] = r.Number
		others = append(others, r.Number)
	case g.inForce[key] == r.Number:
		delete(g.inForce, key)
	}
	g.byTP[r.TP] = others
}

// forget drops the registrations of a stream, and returns their numbers.
func (g *registry) forget(stream string) (gone []uint32) {
	for n, r := range g.byNumber {
		if r.Stream == stream {
			r.Retired = true
			g.put(r)
			delete(g.byNumber, n)
			gone = append(gone, n)
		}
	}
	return gone
}

// current returns the number in force where n was registered, 0 where n is not known.
func (g *registry) current(n uint32) uint32 {
	r, ok := g.byNumber[n]
	if !ok || !r.Retired {
		return r.Number
	}
	return g.inForce[streamTP{r.Stream, r.TP}]
}

// highest returns the highest epoch that was met in any TP.
func (g *registry) highest() (epoch uint64) {
	for _, r := range g.byNumber {
		epoch = max(epoch, r.Epoch)
	}
	return epoch
}
