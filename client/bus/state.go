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

// MaxEpoch is the highest epoch of a state: no clock comes near, and what is above it is left over.
const MaxEpoch = 1<<62 - 1

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
	p := stateParser{rest: text}
	form := p.number("form", "", 32)
	if !p.failed && form > stateNumber {
		return State{}, fmt.Errorf("%w: form %d, this one reads %d", ErrNewerForm, form, stateNumber)
	}
	p.check("form", form == stateNumber)
	s := State{Epoch: p.number("epoch", " ", 62), Seq: p.number("seq", " ", 64)}
	s.Term = uint32(p.number("term", " ", 32))
	s.Acked = uint32(p.number("acked", ".", 32))
	s.Index = uint32(p.number("index", ".", 32))
	s.Kind = p.digest(&s.Digest)
	s.Floor = p.number("floor", " ", 64)
	s.Since = p.optional("since", "@", 62)
	s.Hash = uint32(p.number("hash", " ", 32))
	s.Low = p.optional("l", " l=", 64)
	if id, ok := strings.CutPrefix(p.rest, " e="); ok {
		p.event(&s.Event, id)
	}
	if key, ok := strings.CutPrefix(p.rest, " k="); ok && len(key) > 1 && key[len(key)-1] == '.' {
		s.Key, p.rest = key[:len(key)-1], ""
	}
	if p.check("end", p.rest == ""); p.failed {
		return State{}, fmt.Errorf("read the header %s: %s at byte %d of %.200q is none that bridge writes", HeaderState, p.field, len(text)-p.left, text)
	}
	return s, nil
}

// stateParser reads a text once, from its beginning. After a failure it reads on without effect.
type stateParser struct {
	rest   string
	failed bool
	// field is where the first failure is, named as in decision 17, left the length of rest there.
	field string
	left  int
}

// check notes that a field is wrong where the rest begins.
func (p *stateParser) check(field string, ok bool) {
	if !ok && !p.failed {
		p.failed, p.field, p.left = true, field, len(p.rest)
	}
}

// number reads what is before a number, and digits: hexadecimal in lower case, no leading zeros.
func (p *stateParser) number(field, before string, bits int) (n uint64) {
	rest, ok := strings.CutPrefix(p.rest, before)
	p.rest = rest
	i := 0
	for ; i < len(rest); i++ {
		digit := rest[i] - '0'
		if digit > 9 {
			if digit = rest[i] - 'a' + 10; digit < 10 || digit > 15 {
				break
			}
		}
		n = n<<4 | uint64(digit)
	}
	p.check(field, ok && i > 0 && i <= 16 && n>>bits == 0 && (i == 1 || rest[0] != '0'))
	p.rest = rest[i:]
	return n
}

// optional reads a number that is above zero, or not there.
func (p *stateParser) optional(field, before string, bits int) (n uint64) {
	if strings.HasPrefix(p.rest, before) {
		n = p.number(field, before, bits)
		p.check(field, n > 0)
	}
	return n
}

// digest reads a blank and the digest, t or x.
func (p *stateParser) digest(dst *[16]byte) (kind StateKind) {
	rest, ok := strings.CutPrefix(p.rest, " ")
	p.rest = rest
	word, _, _ := strings.Cut(rest, " ")
	switch {
	case word == "t":
		kind = StateTombstone
	case word == "x":
		kind = StateAbsent
	case len(word) == digestText.EncodedLen(len(dst)):
		// The decoder skips line breaks, which leaves fewer bytes.
		n, err := digestText.Decode(dst[:], []byte(word))
		ok = ok && err == nil && n == len(dst)
	default:
		ok = false
	}
	p.check("digest", ok)
	p.rest = rest[len(word):]
	return kind
}

// event reads digits that are not all 0 and in lower case.
func (p *stateParser) event(dst *[16]byte, text string) {
	var again [2 * len(dst)]byte
	digits := text[:min(len(text), len(again))]
	// What does not decode is not written again.
	_, _ = hex.Decode(dst[:], []byte(digits))
	p.check("e", string(hex.AppendEncode(again[:0], dst[:])) == digits && *dst != [16]byte{})
	p.rest = text[len(digits):]
}
