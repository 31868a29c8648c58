package bus

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"math/bits"
	"strconv"
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
	plain, key, keyed := strings.Cut(text, " k=")
	p := stateParser{rest: plain}
	switch form := p.number(" ", 32); {
	case !p.failed && form > stateNumber:
		return State{}, fmt.Errorf("%w: form %d, this one reads %d", ErrNewerForm, form, stateNumber)
	case form < stateNumber:
		p.failed = true
	}
	s := State{Epoch: p.number(" ", 64), Seq: p.number(" ", 64)}
	s.Term, s.Acked, s.Index = uint32(p.number(".", 32)), uint32(p.number(".", 32)), uint32(p.number(" ", 32))
	switch digest := p.word(" "); {
	case digest == "t":
		s.Kind = StateTombstone
	case digest == "x":
		s.Kind = StateAbsent
	case len(digest) == digestText.EncodedLen(len(s.Digest)):
		// What does not decode is not written again.
		_, _ = digestText.Decode(s.Digest[:], []byte(digest))
	}
	floor := stateParser{rest: p.word(" ")}
	if s.Floor = floor.number("@", 64); floor.rest != "" {
		s.Since = floor.number(" ", 64)
	}
	s.Hash = uint32(p.number(" ", 32))
	for p.rest != "" {
		switch p.word("=") {
		case "l":
			s.Low = p.number(" ", 64)
		case "e":
			if id := p.word(" "); len(id) == hex.EncodedLen(len(s.Event)) {
				_, _ = hex.Decode(s.Event[:], []byte(id))
			}
		default:
			p.failed = true
		}
	}
	var memory [256]byte
	if p.failed || floor.failed || string(AppendState(memory[:0], &s)) != plain || keyed && (len(key) < 2 || key[len(key)-1] != '.') {
		return State{}, fmt.Errorf("read the header %s: %.200q is not a state that bridge writes", HeaderState, text)
	}
	s.Key = strings.TrimSuffix(key, ".")
	return s, nil
}

// stateParser reads a text once, from its beginning. After a failure it reads on without effect.
type stateParser struct {
	rest   string
	failed bool
}

// word returns what comes before a separator, or the rest.
func (p *stateParser) word(separator string) (word string) {
	word, p.rest, _ = strings.Cut(p.rest, separator)
	return word
}

// number reads hexadecimal digits before a separator.
func (p *stateParser) number(separator string, bits int) uint64 {
	n, err := strconv.ParseUint(p.word(separator), 16, bits)
	p.failed = p.failed || err != nil
	return n
}
