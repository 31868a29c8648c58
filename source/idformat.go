package source

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"example.org/bridge/internal/option"
)

// IDFormat says what the values of an id column are; empty where they are integers. The id of a row
// is then the number of their first 64 bits that tell anything, so that rows have the order of the
// column. Several rows may have one number: a page has all of them or none, and their keys tell
// them apart.
type IDFormat string

const (
	// UUID7 is a UUID of version 7. Its number has neither version nor variant.
	UUID7 IDFormat = "uuid7"
	ULID  IDFormat = "ulid"
	KSUID IDFormat = "ksuid"
	// UUID is a UUID of any version, without a time.
	UUID IDFormat = "uuid"
)

// size is the number of bytes of an id, text that of its characters.
func (f IDFormat) size() (size, text int) {
	switch f {
	case ULID:
		return 16, 26
	case KSUID:
		return 20, 27
	}
	return 16, 36
}

// maxWords is how many 32-bit words the longest id takes.
const maxWords = 5

// HasTime reports whether ids begin with the time at which they were made.
func (f IDFormat) HasTime() bool { return f == UUID7 || f == ULID || f == KSUID }

// ksuidEpoch is the Unix time at which those of KSUIDs begin.
const ksuidEpoch = 1_400_000_000

func (f IDFormat) digits() string {
	if f == KSUID {
		return "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	}
	return "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
}

// number returns the number of an id, false where no id of the format has these bytes.
func (f IDFormat) number(id []byte) (n uint64, ok bool) {
	n = binary.BigEndian.Uint64(id)
	if f == UUID7 {
		if ok = id[6]>>4 == 7 && id[8]>>6 == 2; !ok {
			return 0, false
		}
		n = n>>16<<16 | n&0xfff<<4 | uint64(id[8]&0x3f)>>2
	}
	// No row has the id 0, which is before all of them.
	return n, n > 0
}

// bytes returns the id of a number whose further bits are all equal.
func (f IDFormat) bytes(n uint64, further byte) []byte {
	size, _ := f.size()
	id := bytes.Repeat([]byte{further}, size)
	if f != UUID7 {
		binary.BigEndian.PutUint64(id, n)
		return id
	}
	binary.BigEndian.PutUint64(id, n>>16<<16|0x7000|n>>4&0xfff)
	id[8] = 0x80 | byte(n&0xf)<<2 | further&3
	return id
}

func (f IDFormat) appendText(b, id []byte) []byte {
	if f == UUID || f == UUID7 {
		return append(b, uuid.UUID(id).String()...)
	}
	size, width := f.size()
	digits, left := f.digits(), make([]uint32, 0, maxWords)
	for i := 0; i < size; i += 4 {
		left = append(left, binary.BigEndian.Uint32(id[i:]))
	}
	start, base := len(b), uint64(len(digits))
	for range width {
		rest := uint64(0)
		for i, word := range left {
			rest = rest<<32 | uint64(word)
			left[i], rest = uint32(rest/base), rest%base
		}
		b = append(b, digits[rest])
	}
	slices.Reverse(b[start:])
	return b
}

// parseText returns nil for a text that is no id. fold takes letters of either case.
func (f IDFormat) parseText(v []byte, fold bool) []byte {
	size, width := f.size()
	if len(v) != width {
		return nil
	}
	if f == UUID || f == UUID7 {
		id, err := uuid.ParseBytes(v)
		if err != nil || !fold && bytes.ContainsAny(v, "ABCDEF") {
			return nil
		}
		return id[:]
	}
	if fold {
		v = bytes.ToUpper(v)
	}
	digits, words := f.digits(), make([]uint32, size/4, maxWords)
	for _, c := range v {
		digit := strings.IndexByte(digits, c)
		if digit < 0 {
			return nil
		}
		carry := uint64(digit)
		for i := len(words) - 1; i >= 0; i-- {
			carry += uint64(words[i]) * uint64(len(digits))
			words[i], carry = uint32(carry), carry>>32
		}
		if carry > 0 {
			return nil
		}
	}
	id := make([]byte, 0, size)
	for _, word := range words {
		id = binary.BigEndian.AppendUint32(id, word)
	}
	return id
}

// time returns when an id was made, false for a format without times.
func (f IDFormat) time(text []byte) (time.Time, bool) {
	id := f.parseText(text, false)
	if id == nil || !f.HasTime() {
		return time.Time{}, false
	}
	if f == KSUID {
		return time.Unix(ksuidEpoch+int64(binary.BigEndian.Uint32(id)), 0).UTC(), true
	}
	return time.UnixMilli(int64(binary.BigEndian.Uint64(id) >> 16)).UTC(), true
}

// text returns the text of the lowest id that is made at a moment, as far as ids tell moments.
func (f IDFormat) text(t time.Time) string {
	n := uint64(max(0, t.UnixMilli())) << 16
	if f == KSUID {
		n = uint64(max(0, t.Unix()-ksuidEpoch)) << 32
	}
	return string(f.appendText(nil, f.bytes(n, 0)))
}

func (f IDFormat) resolution() time.Duration {
	if f == KSUID {
		return time.Second
	}
	return time.Millisecond
}

// IDColumn reads the values of an id column. The zero value is that of integers, which it does not
// read.
type IDColumn struct {
	Format IDFormat
	// Binary says that the column holds bytes, Fold that it takes letters of either case for one.
	Binary, Fold bool
}

// parse returns the bytes of an id, nil where v is none.
func (c IDColumn) parse(v []byte) []byte {
	if !c.Binary {
		return c.Format.parseText(v, c.Fold)
	}
	if size, _ := c.Format.size(); len(v) != size {
		return nil
	}
	return v
}

// Number returns the number of a value. The error is ErrUnfit, and shows a value that is no id of
// the format.
func (c IDColumn) Number(v []byte) (uint64, error) {
	if id := c.parse(v); id != nil {
		if n, ok := c.Format.number(id); ok {
			return n, nil
		}
	}
	shown := fmt.Sprintf("%.100q", v)
	if c.Binary {
		shown = fmt.Sprintf("x'%.100x'", v)
	}
	remedy := "give its row another id"
	switch like := FormatLike(v, c.Binary); {
	case like == "":
	case like != c.Format:
		return 0, option.Errorf("%w: the id %s does not fit %s=%s: %s, or set %s=%s, which it looks like", ErrUnfit, shown, option.IDFormat, c.Format, remedy, option.IDFormat, like)
	case !c.Fold:
		remedy += ", in the letter case that is usual, or the column a collation to which letter case does not matter"
	}
	return 0, option.Errorf("%w: the id %s does not fit %s=%s: %s", ErrUnfit, shown, option.IDFormat, c.Format, remedy)
}

// SharingRows and SharingBytes bound the rows that have one number, since they are read together: a
// process may make 20,000 ids in a millisecond.
const SharingRows, SharingBytes = 1 << 16, 64 << 20

// Crowded is the error of so many rows that share the number of an id, and more.
func (c IDColumn) Crowded(id []byte, rows, bytes int) error {
	return option.Errorf("%w: %d rows and more, of %d bytes, share the first 64 bits of the id %s, and with %s=%s they are read together, at most %d of them or %d bytes: "+
		"add an AUTO_INCREMENT column, which may be INVISIBLE, and name it with %s",
		ErrUnfit, rows, bytes, c.AppendText(nil, id), option.IDFormat, c.Format, SharingRows, SharingBytes, option.ID)
}

// AppendText appends the text of a value that Number accepts, which is the same for each way to
// store it. Texts have the order of ids.
func (c IDColumn) AppendText(b, v []byte) []byte { return c.Format.appendText(b, c.parse(v)) }

// Lowest and Highest return the first and the last value that has a number, as the column stores
// it.
func (c IDColumn) Lowest(n uint64) []byte { return c.store(c.Format.bytes(n, 0)) }

func (c IDColumn) Highest(n uint64) []byte { return c.store(c.Format.bytes(n, 0xff)) }

// Stored returns the value that has a text, as the column stores it; nil where none has.
func (c IDColumn) Stored(text string) []byte {
	id := c.Format.parseText([]byte(text), false)
	if id == nil {
		return nil
	}
	return c.store(id)
}

func (c IDColumn) store(id []byte) []byte {
	if c.Binary {
		return id
	}
	return c.Format.appendText(nil, id)
}

// FormatLike returns the format that a value of a column looks like, empty for none.
func FormatLike(v []byte, binary bool) IDFormat {
	if binary {
		switch {
		case len(v) == 20:
			return KSUID
		case len(v) != 16:
			return ""
		}
		if _, is := UUID7.number(v); is {
			return UUID7
		}
		// The version of a random UUID, and its variant, are those of one ULID in 64.
		if v[6]>>4 <= 8 && v[6]>>4 > 0 && v[8]>>6 == 2 {
			return UUID
		}
		return ULID
	}
	for _, f := range []IDFormat{UUID7, UUID, ULID, KSUID} {
		if id := f.parseText(v, f != KSUID); id != nil {
			if _, is := f.number(id); is {
				return f
			}
		}
	}
	return ""
}
