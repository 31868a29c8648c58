package bus

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"math/bits"
	"strings"
)

// stateForm is the first field of the header, stateNumber its number. A reader refuses a higher
// one.
const (
	stateForm   = '1'
	stateNumber = stateForm - '0'
)

// StateKind says what a message says of its entity.
type StateKind uint8

// The kinds of a state: the row with a digest, a row that is deleted by a column, and a row that is
// gone.
const (
	StateLive StateKind = iota
	StateTombstone
	StateAbsent
)

// State is the value of HeaderState: what catch-up and `bridge verify` need of a message beyond the
// other headers. It is about 60 bytes of text plus the key. The rules are those of decision 17.
type State struct {
	// Epoch and Seq are the stamp of the message: the run of the program, in ms of Unix time or
	// above, and a number that this run used once (rule 1).
	Epoch, Seq uint64
	// Term, Acked and Index count the messages of a shard: in this term the bus had acknowledged
	// Acked of them before this batch, and this one is number Index of the batch, from 0.
	Term, Acked, Index uint32
	// Kind says whether Digest holds the digest of the row; it is zero for the other kinds.
	Kind   StateKind
	Digest [16]byte
	// Floor is the row id below which the shard records rows and does not publish them (rule 16),
	// Since the epoch below which messages do not count for its progress (rule 28), Low the row id
	// below which a release shard has nothing left to publish (rule 27). Zero: none.
	Floor, Since, Low uint64
	// Hash is the hash of kind, key columns and scope of the entity (rule 12).
	Hash uint32
	// Event is the meta.id of the refused event in a dead letter (rule 19). Zero: none.
	Event [16]byte
	// Key is the whole key of a refused event in a dead letter, and on a bus without keys that of
	// every message. It holds no control characters, and at most 32,000 bytes. Empty: the key is
	// that of the stored message.
	Key string
}

// digestText is strict: each digest has one text.
var digestText = base64.RawURLEncoding.Strict()

// AppendState appends the text of s to dst. It allocates nothing where dst has room.
func AppendState(dst []byte, s *State) []byte {
	dst = append(dst, stateForm)
	dst = appendHex(dst, ' ', s.Epoch)
	dst = appendHex(dst, ' ', s.Seq)
	dst = appendHex(dst, ' ', uint64(s.Term))
	dst = appendHex(dst, '.', uint64(s.Acked))
	dst = appendHex(dst, '.', uint64(s.Index))
	dst = append(dst, ' ')
	switch s.Kind {
	case StateTombstone:
		dst = append(dst, 't')
	case StateAbsent:
		dst = append(dst, 'x')
	default:
		dst = digestText.AppendEncode(dst, s.Digest[:])
	}
	dst = appendHex(dst, ' ', s.Floor)
	if s.Since != 0 {
		dst = appendHex(dst, '@', s.Since)
	}
	dst = appendHex(dst, ' ', uint64(s.Hash))
	if s.Low != 0 {
		dst = appendHex(append(dst, " l"...), '=', s.Low)
	}
	if s.Event != [16]byte{} {
		dst = hex.AppendEncode(append(dst, " e="...), s.Event[:])
	}
	if s.Key != "" {
		dst = append(append(append(dst, " k="...), s.Key...), '.')
	}
	return dst
}

// appendHex appends n in lower-case hexadecimal without leading zeros, behind a separator.
func appendHex(dst []byte, separator byte, n uint64) []byte {
	const digits = "0123456789abcdef"
	count := (bits.Len64(n|1) + 3) / 4
	start := len(dst) + 1
	// As much as the highest number takes, so that the compiler sees one copy.
	dst = append(dst, separator, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)[:start+count]
	for i := len(dst) - 1; i >= start; i-- {
		dst[i] = digits[n&15]
		n >>= 4
	}
	return dst
}

// ErrNewerForm is returned when the header bridge-state has a form that a newer bridge wrote. Such
// a message stops its stream (rule 12 of decision 17).
var ErrNewerForm = errors.New("the header " + HeaderState + " has a newer form than this bridge reads")

// ParseState reads the text of a state. It accepts what AppendState writes and nothing else, so
// each state has one text. Key is a part of text. It allocates nothing but an error, which shares
// no memory with text and wraps ErrNewerForm where that is why.
func ParseState(text string) (State, error) {
	p := stateParser{text: text}
	switch form := p.number("form", 32); {
	case p.err == nil && form > stateNumber:
		return State{}, fmt.Errorf("%w: form %d, this one reads %d", ErrNewerForm, form, stateNumber)
	case form < stateNumber:
		p.fail("form", 0, "form 1")
	}
	var s State
	s.Epoch = p.next("epoch", ' ', 64)
	s.Seq = p.next("seq", ' ', 64)
	s.Term = uint32(p.next("term", ' ', 32))
	s.Acked = uint32(p.next("acked", '.', 32))
	s.Index = uint32(p.next("index", '.', 32))
	s.Kind = p.digest(&s.Digest)
	s.Floor = p.next("floor", ' ', 64)
	if p.has("@") {
		s.Since = p.set("since", p.number("since", 64))
	}
	s.Hash = uint32(p.next("hash", ' ', 32))
	if p.has(" l=") {
		s.Low = p.set("l", p.number("l", 64))
	}
	if p.has(" e=") {
		p.event(&s.Event)
	}
	if p.has(" k=") {
		s.Key = p.key()
	}
	if p.at < len(text) {
		p.fail("end", p.at, "the end, or one blank and l=, e= or k= in this order")
	}
	if p.err != nil {
		return State{}, p.err
	}
	return s, nil
}

// stateParser reads a text once, from its beginning. After a failure it reads on without effect.
type stateParser struct {
	text string
	at   int
	// err is the first failure.
	err error
}

// fail notes that a field, named as in decision 17, is wrong at an offset of the text.
func (p *stateParser) fail(field string, at int, want string) {
	if p.err == nil {
		p.err = fmt.Errorf("read the header %s: %s at byte %d of %.200q: want %s", HeaderState, field, at, p.text, want)
	}
}

// has skips prefix where it is next.
func (p *stateParser) has(prefix string) bool {
	ok := strings.HasPrefix(p.text[p.at:], prefix)
	if ok {
		p.at += len(prefix)
	}
	return ok
}

// next reads a separator and the number behind it.
func (p *stateParser) next(field string, separator byte, bits int) uint64 {
	if p.at == len(p.text) || p.text[p.at] != separator {
		want := "a dot and a number"
		if separator == ' ' {
			want = "one blank and a number"
		}
		p.fail(field, p.at, want)
		return 0
	}
	p.at++
	return p.number(field, bits)
}

// number reads digits up to the first other byte.
func (p *stateParser) number(field string, bits int) uint64 {
	const want = "a number in lower-case hexadecimal without leading zeros"
	n, start := uint64(0), p.at
	for ; p.at < len(p.text); p.at++ {
		digit := lowerHex(p.text[p.at])
		if digit > 15 {
			break
		}
		if n>>(bits-4) != 0 {
			p.fail(field, start, "a smaller number: at most 8 or 16 digits")
		}
		n = n<<4 | uint64(digit)
	}
	if p.at == start || p.text[start] == '0' && p.at > start+1 {
		p.fail(field, start, want)
	}
	return n
}

// set refuses the zero of an optional field: that is to be left out.
func (p *stateParser) set(field string, n uint64) uint64 {
	if n == 0 {
		p.fail(field, p.at, "a number above 0, or no such field")
	}
	return n
}

// digest reads a blank and the digest, t or x.
func (p *stateParser) digest(dst *[16]byte) StateKind {
	const want = "one blank and t, x or 22 characters of base64url"
	if !p.has(" ") {
		p.fail("digest", p.at, want)
		return StateLive
	}
	word := p.text[p.at:]
	if i := strings.IndexByte(word, ' '); i >= 0 {
		word = word[:i]
	}
	p.at += len(word)
	switch word {
	case "t":
		return StateTombstone
	case "x":
		return StateAbsent
	}
	var text [22]byte
	if len(word) == len(text) {
		copy(text[:], word)
		// The decoder skips line breaks, which leaves fewer bytes.
		if n, err := digestText.Decode(dst[:], text[:]); err == nil && n == len(dst) {
			return StateLive
		}
	}
	p.fail("digest", p.at-len(word), want)
	return StateLive
}

// event reads 32 digits that are not all 0.
func (p *stateParser) event(dst *[16]byte) {
	const digits = 2 * len(dst)
	start := p.at
	for ; p.at < min(start+digits, len(p.text)); p.at++ {
		digit := lowerHex(p.text[p.at])
		if digit > 15 {
			break
		}
		i := (p.at - start) / 2
		dst[i] = dst[i]<<4 | digit
	}
	if p.at != start+digits || *dst == [16]byte{} {
		p.fail("e", start, "32 digits in lower-case hexadecimal, not all 0")
	}
}

// key reads the rest without its final dot.
func (p *stateParser) key() string {
	rest := p.text[p.at:]
	if len(rest) < 2 || rest[len(rest)-1] != '.' {
		p.fail("k", p.at, "a key and a dot at the end, or no such field")
		return ""
	}
	p.at = len(p.text)
	return rest[:len(rest)-1]
}

// lowerHex returns the value of a hexadecimal digit in lower case, 16 for another byte.
func lowerHex(b byte) byte {
	switch {
	case b >= '0' && b <= '9':
		return b - '0'
	case b >= 'a' && b <= 'f':
		return b - 'a' + 10
	}
	return 16
}
