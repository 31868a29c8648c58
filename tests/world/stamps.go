package world

import "hash/maphash"

// digest is a hash of 64 bits, the same for the same text within one process. Among 20 million
// texts two differ and have the same one with a chance of 1 in 100,000.
type digest uint64

var digestSeed = maphash.MakeSeed()

func digestOf(text string) digest { return digest(maphash.String(digestSeed, text)) }

func digestOfBytes(b []byte) digest { return digest(maphash.Bytes(digestSeed, b)) }

// stamps holds 32 bits of the event id of each stamp: the numbers of a run are dense.
type stamps map[stampPage]*[stampsInPage]uint32

type stampPage struct{ epoch, page uint64 }

const stampsInPage = 256

// use notes that an event has a stamp, and reports whether another event had it before.
func (s stamps) use(epoch, seq uint64, id string) (twice bool) {
	at := stampPage{epoch, seq / stampsInPage}
	page := s[at]
	if page == nil {
		page = new([stampsInPage]uint32)
		s[at] = page
	}
	was := &page[seq%stampsInPage]
	now := uint32(digestOf(id)) | 1 // 0 is unused
	twice = *was != 0 && *was != now
	*was = now
	return twice
}
