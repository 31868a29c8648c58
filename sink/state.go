package sink

import (
	"encoding/base64"
	"encoding/hex"
	"strconv"
)

// The headers that recovery reads, beside those that each message has (decision 17, "The headers").
const (
	// HeaderDomain holds the event domain. With stream and shard it names the writer of a message
	// (rule 12).
	HeaderDomain = "bridge-domain"
	// HeaderState holds a [State] as AppendState writes it.
	HeaderState = "bridge-state"
)

// stateForm is the first field of the header. A reader refuses a higher one.
const stateForm = 1

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
	// Hash is that of kind, key columns and scope of the entity (rule 12).
	Hash uint32
	// Event is the meta.id of the refused event in a dead letter (rule 19). Zero: none.
	Event [16]byte
	// Key is the key of the message where the bus has no key of its own, and the whole key of a
	// refused event. It holds no control characters, and at most 32,000 bytes. Empty: the key is
	// that of the stored message.
	Key string
}

// digestText is strict: each digest has one text.
var digestText = base64.RawURLEncoding.Strict()

// AppendState appends the text of s to dst. It allocates nothing where dst has room.
func AppendState(dst []byte, s *State) []byte {
	dst = strconv.AppendUint(dst, stateForm, 16)
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
	return strconv.AppendUint(append(dst, separator), n, 16)
}
