package progress

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// ErrDamaged is returned when a part of the progress is damaged. Test with errors.Is.
var ErrDamaged = errors.New("progress is damaged")

const (
	headVersion = 1
	headSum     = 4
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// head is the part 0 of the ids that are ahead: what is kept beside store.Progress.
type head struct {
	// rebuild says that the progress is made from the bus and that the shard has not run since:
	// of the ids that were not seen only the highest are polled (rule 15).
	rebuild bool
	// trust says that messages do not count because of since, which only a message told: lows are
	// to be believed, as where messages have expired (rules 27 and 28).
	trust bool
	// epoch and seq are the stamp of the message whose floor holds.
	epoch, seq uint64
}

const (
	rebuildBit = 1 << iota
	trustBit
)

// appendTo appends the form of h: version (1 byte), bits (1 byte), epoch and seq (varints), and the
// CRC-32C over all before (4 bytes, little endian).
func (h head) appendTo(dst []byte) []byte {
	bits := byte(0)
	if h.rebuild {
		bits |= rebuildBit
	}
	if h.trust {
		bits |= trustBit
	}
	start := len(dst)
	dst = append(dst, headVersion, bits)
	dst = binary.AppendUvarint(dst, h.epoch)
	dst = binary.AppendUvarint(dst, h.seq)
	return binary.LittleEndian.AppendUint32(dst, crc32.Checksum(dst[start:], castagnoli))
}

// parseHead reads what appendTo wrote, and nothing else. The error wraps ErrDamaged.
func parseHead(b []byte) (head, error) {
	if len(b) < 2+headSum {
		return head{}, fmt.Errorf("%w: a head of %d bytes", ErrDamaged, len(b))
	}
	body := b[:len(b)-headSum]
	if binary.LittleEndian.Uint32(b[len(body):]) != crc32.Checksum(body, castagnoli) {
		return head{}, fmt.Errorf("%w: the checksum of its head is wrong", ErrDamaged)
	}
	if body[0] != headVersion || body[1] > rebuildBit|trustBit {
		return head{}, fmt.Errorf("%w: its head has the version %d and the bits %#x", ErrDamaged, body[0], body[1])
	}
	h := head{rebuild: body[1]&rebuildBit != 0, trust: body[1]&trustBit != 0}
	var n, m int
	h.epoch, n = binary.Uvarint(body[2:])
	if n > 0 {
		h.seq, m = binary.Uvarint(body[2+n:])
	}
	if m <= 0 || 2+n+m != len(body) || string(h.appendTo(nil)) != string(b) {
		return head{}, fmt.Errorf("%w: the numbers of its head", ErrDamaged)
	}
	return h, nil
}
