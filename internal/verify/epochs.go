package verify

// epochs packs stamps into eight bytes: the number of the epoch, from 1 in the order in which they
// were met, and the seq.
type epochs struct {
	list   []uint64
	number map[uint64]uint64
	last   uint64
}

const (
	seqBits   = 44
	mostSeqs  = 1 << seqBits
	mostEpoch = 1 << (64 - seqBits)
)

func newEpochs() epochs { return epochs{number: make(map[uint64]uint64)} }

// pack returns a stamp in eight bytes, 0 for none and for one of a seq or a number of epochs that
// no program reaches.
func (l *epochs) pack(epoch, seq uint64) uint64 {
	if epoch == 0 || seq >= mostSeqs {
		return 0
	}
	if l.last == 0 || l.list[l.last-1] != epoch {
		n := l.number[epoch]
		if n == 0 {
			if len(l.list) == mostEpoch-1 {
				return 0
			}
			l.list = append(l.list, epoch)
			n = uint64(len(l.list))
			l.number[epoch] = n
		}
		l.last = n
	}
	return l.last<<seqBits | seq
}

// unpack is the inverse of pack.
func (l *epochs) unpack(stamp uint64) (epoch, seq uint64) {
	if stamp == 0 {
		return 0, 0
	}
	return l.list[stamp>>seqBits-1], stamp % mostSeqs
}
