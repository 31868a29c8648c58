package event

import (
	"bytes"
	"crypto/sha1"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/google/uuid"

	"example.org/bridge/internal/texts"
	"example.org/bridge/source"
)

// keyTexts writes and reads the texts of keys. It reuses its memory and serves one goroutine.
type keyTexts struct{ text []byte }

// append writes byte strings in base64, bits as a number, all other values as they are.
func (t *keyTexts) append(dst []byte, columns *source.Columns, row [][]byte) []byte {
	for n, i := range columns.Key {
		if n > 0 {
			dst = append(dst, keySeparator)
		}
		dst = t.appendValue(dst, columns.List[i].Kind, row[i])
	}
	return dst
}

func (t *keyTexts) appendValue(dst []byte, kind source.Kind, v []byte) []byte {
	switch {
	case v == nil:
	case kind == source.Binary:
		// The byte in front keeps an empty text from being nil, which is NULL.
		t.text = base64.StdEncoding.AppendEncode(append(t.text[:0], 0), v)
		v = t.text[1:]
	case kind == source.Bit:
		if bits, ok := appendBits(append(t.text[:0], 0), v); ok {
			t.text, v = bits, bits[1:]
		}
	}
	return AppendKeyText(dst, v)
}

// KeyValues appends the values of the key columns in key, which is as Event.Key has it, to dst: in
// the order of the key, in the normal form of their columns, nil for NULL; bits have no zero bytes
// in front, for a key does not tell the width of their column. They may lie in key. It fails, with
// dst as long as it was, when key is not exactly what Append writes for a key of as many columns as
// the bound shape has. Where Append writes it for columns of other kinds, it fails as well, but the
// values come, with NULL for those.
func (e *Encoder) KeyValues(key []byte, dst [][]byte) ([][]byte, error) {
	if e.plan == nil {
		return dst, errUnbound
	}
	columns := e.plan.columns.Key
	if bytes.Count(key, []byte{keySeparator}) != len(columns)-1 {
		return dst, keyFault(key, e)
	}
	out, rest, err := dst, key, error(nil)
	for _, i := range columns {
		var part []byte
		part, rest, _ = bytes.Cut(rest, []byte{keySeparator})
		v, ok := parseKeyText(part)
		if !ok {
			return dst, keyFault(key, e)
		}
		if v, ok = e.texts.value(e.plan.columns.List[i].Kind, v); !ok {
			v, err = nil, keyFault(key, e)
		}
		out = append(out, v)
	}
	return out, err
}

// KeysOf returns the values of the key columns of each of keys, for source.Query. They have NULL,
// and so find no row, where no row of the table can have the key: it is of another table, or from
// before a key column got another type.
func KeysOf(e *Encoder, keys [][]byte) ([][][]byte, error) {
	if e.plan == nil {
		return nil, errUnbound
	}
	all := make([][][]byte, len(keys))
	for i, key := range keys {
		if all[i], _ = e.KeyValues(key, nil); all[i] == nil {
			all[i] = make([][]byte, len(e.plan.columns.Key))
		}
	}
	return all, nil
}

func keyFault(key []byte, e *Encoder) error {
	return fmt.Errorf("read the key %.80q: it does not hold the values of %d key columns of table %s", key, len(e.plan.columns.Key), e.options.Table)
}

// value is the inverse of appendValue, and refuses what that does not write.
func (t *keyTexts) value(kind source.Kind, text []byte) (v []byte, ok bool) {
	switch {
	case text == nil:
		return nil, true
	case kind == source.Binary:
		v, err := base64.StdEncoding.AppendDecode([]byte{}, text)
		t.text = base64.StdEncoding.AppendEncode(t.text[:0], v)
		// Other texts decode, too: with line breaks, or with bits that are left over.
		return v, err == nil && bytes.Equal(t.text, text)
	case kind == source.Bit:
		return t.bits(text)
	}
	return text, true
}

// bits returns the bits with a text. More than 64 of them are their own text.
func (t *keyTexts) bits(text []byte) (v []byte, ok bool) {
	if n, err := strconv.ParseUint(string(text), 10, 64); err == nil {
		v = binary.BigEndian.AppendUint64(nil, n)
		v = append([]byte{}, v[min(7, len(v)-len(bytes.TrimLeft(v, "\x00"))):]...)
		if t.text = strconv.AppendUint(t.text[:0], n, 10); bytes.Equal(t.text, text) {
			return v, true
		}
	}
	_, short := appendBits(t.text[:0], text)
	return text, !short
}

// The text of a key is the texts of its values, joined by '+'. Inside a value, '+', '%' and what
// does not print become %XX, one for each byte, in upper case; NULL is a '%' alone. So no two keys
// of as many columns have the same text, and [Encoder.KeyValues] reads it back.
const (
	keySeparator = '+'
	keyEscape    = '%'
	upperHex     = "0123456789ABCDEF"
)

// AppendKeyText appends the text of one value of a key to dst; a nil value is NULL. Between values
// stands a '+'.
func AppendKeyText(dst, value []byte) []byte {
	if value == nil {
		return append(dst, keyEscape)
	}
	for len(value) > 0 {
		n := plainKeyBytes(value)
		dst = append(dst, value[:n]...)
		if value = value[n:]; len(value) == 0 {
			break
		}
		_, n = utf8.DecodeRune(value)
		for _, b := range value[:n] {
			dst = append(dst, keyEscape, upperHex[b>>4], upperHex[b&15])
		}
		value = value[n:]
	}
	return dst
}

// plainKeyBytes returns how many bytes at the beginning of value stand for themselves.
func plainKeyBytes(value []byte) int {
	for i := 0; i < len(value); {
		if b := value[i]; b < utf8.RuneSelf {
			if b < ' ' || b == 0x7f || b == keySeparator || b == keyEscape {
				return i
			}
			i++
			continue
		}
		r, n := utf8.DecodeRune(value[i:])
		if r == utf8.RuneError && n == 1 || unprintable(r) {
			return i
		}
		i += n
	}
	return len(value)
}

// unprintable runes beyond ASCII show nothing, or change how neighbours show. The list is fixed:
// the tables of package unicode grow, and a new version of Go would give entities other keys.
func unprintable(r rune) bool {
	switch {
	case r < 0xa0: // C1 controls
	case r >= 0x200b && r <= 0x200f: // zero width, direction
	case r >= 0x2028 && r <= 0x202e: // separators of lines, embeddings
	case r >= 0x2060 && r <= 0x206f: // joiners, isolates
	case r == 0xfeff, r >= 0xfff9 && r <= 0xfffb: // byte order mark, annotations
	case r&0xfffe == 0xfffe: // no characters
	default:
		return false
	}
	return true
}

// parseKeyText is the inverse of AppendKeyText. The value may lie in part.
func parseKeyText(part []byte) (value []byte, ok bool) {
	switch {
	case len(part) == 0:
		return []byte{}, true
	case string(part) == string(rune(keyEscape)):
		return nil, true
	case plainKeyBytes(part) == len(part):
		return part[:len(part):len(part)], true
	}
	value = make([]byte, 0, len(part))
	for i := 0; i < len(part); i++ {
		if part[i] != keyEscape {
			value = append(value, part[i])
			continue
		}
		if len(part)-i < len("%XX") {
			return nil, false
		}
		b, err := strconv.ParseUint(string(part[i+1:i+3]), 16, 8)
		if err != nil {
			return nil, false
		}
		value = append(value, byte(b))
		i += 2
	}
	return value, bytes.Equal(AppendKeyText(nil, value), part)
}

const uuidLen = 36

// namespace is the UUID under which every meta.id is made (RFC 9562, section 5.5):
// 387ab998-0f04-4ea2-9706-851a3360596f. It must never change: every event would get another id.
var namespace = [16]byte{0x38, 0x7a, 0xb9, 0x98, 0x0f, 0x04, 0x4e, 0xa2, 0x97, 0x06, 0x85, 0x1a, 0x33, 0x60, 0x59, 0x6f}

// keepName is how many bytes of memory are kept for the next id.
const keepName = 1 << 20

// identity makes the ids of one shard's events. It reuses its memory and serves one goroutine.
type identity struct {
	name []byte
	// fixed is how much of name is the same for every event.
	fixed  int
	entity []byte
	texts  texts.Texts
}

func newIdentity(stream, shard string) *identity {
	name := append([]byte(nil), namespace[:]...)
	name = appendSized(name, stream)
	name = appendSized(name, shard)
	return &identity{name: name, fixed: len(name)}
}

// id returns the UUID of version 5 of a fact, whose key has the values of these columns.
//
// Invariant 4: every part is either of fixed size or led by its length, so that two different facts
// never hash the same bytes, and nothing that differs between two reads of the same fact is a part.
func (s *identity) id(columns []int, f *finding) [16]byte {
	// The values of the key, each led by 0 for NULL, else by its length plus one.
	s.entity = s.entity[:0]
	for _, i := range columns {
		if v := f.row.Values[i]; v == nil {
			s.entity = append(s.entity, 0)
		} else {
			s.entity = append(binary.AppendUvarint(s.entity, uint64(len(v))+1), v...)
		}
	}
	name := appendSized(s.name[:s.fixed], s.entity)
	if cap(s.entity) > keepName {
		s.entity = nil
	}
	op := f.kind.op
	if op == Deleted && f.reason == filtered {
		// The state of a row does not tell it from a tombstone.
		op = filtered
	}
	name = binary.BigEndian.AppendUint64(name, f.row.ID)
	name = appendSized(name, op)
	name = append(name, f.state[:]...)
	name = appendSized(name, f.row.Predecessor)
	// uuid.NewSHA1 returns the same and allocates three times an event.
	sum := sha1.Sum(name)
	if s.name = name[:s.fixed]; cap(name) > keepName {
		s.name = append([]byte(nil), s.name...)
	}
	id := [16]byte(sum[:16])
	id[6] = id[6]&0x0f | 0x50
	id[8] = id[8]&0x3f | 0x80
	return id
}

func appendSized[T []byte | string | Op](dst []byte, text T) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(text)))
	return append(dst, text...)
}

func appendUUID(dst []byte, id [16]byte) []byte {
	dst = hex.AppendEncode(dst, id[:4])
	for _, part := range [...][]byte{id[4:6], id[6:8], id[8:10], id[10:]} {
		dst = hex.AppendEncode(append(dst, '-'), part)
	}
	return dst
}

// FormatID returns the text of a meta.id, empty for zero, which stands for none.
func FormatID(id [16]byte) string {
	if id == ([16]byte{}) {
		return ""
	}
	return string(appendUUID(make([]byte, 0, uuidLen), id))
}

// ParseID is the inverse of FormatID: it takes a UUID in lower case, as meta.id is, and the empty
// text as zero.
func ParseID(text string) ([16]byte, error) {
	if text == "" {
		return [16]byte{}, nil
	}
	id, err := uuid.Parse(text)
	var form [uuidLen]byte
	switch {
	case err != nil || string(appendUUID(form[:0], id)) != text:
		return [16]byte{}, fmt.Errorf("%.40q is not a meta.id: it is not a UUID in lower case", text)
	case id == uuid.Nil:
		return [16]byte{}, fmt.Errorf("%q is not a meta.id: it is nil", text)
	}
	return id, nil
}

// Digest is what a view compares to decide whether a row is news.
type Digest struct {
	// Key is the key of the row's event, in memory of the encoder: valid until the next call of any
	// of its methods.
	Key []byte
	// Sum is the digest of the row's event.
	Sum [16]byte
	// Deleted says that the row's event is a deleted one. It is news of an entity alone that was
	// published. Silent says that the row does not match the condition of the stream.
	// Keyless says that the row has NULL in a column that makes it the single row of its key: it is
	// no entity, and no event.
	// Stale says that the row counts as one that is not there: it is Silent, and deletes nothing.
	Deleted, Silent, Keyless, Stale bool
}

// StopsOnBad reports whether values that an event cannot hold stop the stream.
func (e *Encoder) StopsOnBad() bool { return e.options.BadValue == StopOnBad }

// Digest returns the Key, Digest and Op that the event of a row would have, without rendering
// the event. The row must have the shape of the last Bind.
func (e *Encoder) Digest(row source.Row) (Digest, error) {
	if err := e.checkShape(row); err != nil {
		return Digest{}, err
	}
	const keepBytes = 1 << 20
	if cap(e.key) > keepBytes {
		e.key = nil
	}
	e.key = e.texts.append(e.key[:0], e.plan.columns, row.Values)
	d := Digest{Key: e.key, Deleted: e.plan.isDeleted(row.Values, &e.options)}
	d.Sum, e.digested = e.plan.digest(e.digested, row.Values)
	if (row.Filtered || row.Stale) && e.options.Kind == Capability {
		d.Deleted, d.Silent, d.Stale = true, true, row.Stale
	}
	if e.options.Kind == Capability && e.plan.columns.Keyless(row.Values) >= 0 {
		d.Deleted, d.Silent, d.Keyless = true, true, true
	}
	return d, nil
}
