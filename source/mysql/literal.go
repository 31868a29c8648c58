package mysql

import (
	"encoding/binary"
	"encoding/hex"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"bridge/source"
)

// maxCondition bounds the text of one condition, far below every server's max_allowed_packet.
const maxCondition = 512 << 10

// condition returns the SQL for rows that have one of keys, and how many of keys it takes, which is all unless it becomes too long.
// Values that no row can hold find nothing: they never reach the server, which might fail on them.
func (l lookup) condition(keys [][][]byte) (condition []byte, taken int) {
	for _, tuple := range keys {
		if len(condition) > maxCondition {
			break
		}
		taken++
		before := len(condition)
		if before > 0 {
			condition = append(condition, " OR "...)
		}
		whole := false
		if condition, whole = l.appendTuple(condition, tuple); !whole {
			condition = condition[:before]
		}
	}
	if len(condition) == 0 {
		condition = append(condition, "FALSE"...)
	}
	return condition, taken
}

// appendTuple appends the condition of one tuple; whole is false when no row can have it.
func (l lookup) appendTuple(b []byte, tuple [][]byte) (_ []byte, whole bool) {
	b = append(b, '(')
	for i, part := range l.parts {
		if part.at >= len(tuple) || tuple[part.at] == nil {
			// The columns of the index are NOT NULL.
			return b, false
		}
		if i > 0 {
			b = append(b, " AND "...)
		}
		b = append(append(b, part.name...), " = "...)
		if b, whole = part.appendLiteral(b, tuple[part.at]); !whole {
			return b, false
		}
	}
	return append(b, ')'), true
}

var (
	wholeNumber = regexp.MustCompile(`^-?[0-9]{1,20}$`)
	// A DECIMAL has 65 digits at most.
	exactNumber = regexp.MustCompile(`^-?[0-9]{1,65}(\.[0-9]{1,38})?$`)
	timeForms   = map[source.Kind]*regexp.Regexp{
		source.Date:      regexp.MustCompile(`^\d{4}-\d\d-\d\d$`),
		source.Clock:     regexp.MustCompile(`^-?\d{2,3}:\d\d:\d\d(\.\d{1,6})?$`),
		source.DateTime:  regexp.MustCompile(`^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d{1,6})?$`),
		source.Timestamp: regexp.MustCompile(`^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d{1,6})?$`),
	}
	// plainText is what servers write of types that are no character strings, such as UUID and INET6.
	plainText = regexp.MustCompile(`^[0-9A-Za-z:./_-]{0,100}$`)
)

// appendLiteral appends v, a value in the normal form of the part's kind, as SQL that means the same whatever the modes of the
// session; fits is false when v has not that form.
func (k keyPart) appendLiteral(b, v []byte) (_ []byte, fits bool) {
	switch k.kind {
	case source.Int:
		return append(b, v...), wholeNumber.Match(v)
	case source.Decimal:
		return append(b, v...), exactNumber.Match(v)
	case source.Bit:
		if len(v) == 0 || len(v) > 8 {
			return b, false
		}
		var bits [8]byte
		copy(bits[8-len(v):], v)
		return strconv.AppendUint(b, binary.BigEndian.Uint64(bits[:]), 10), true
	case source.Binary:
		return appendHex(b, v), true
	case source.Date, source.Clock, source.DateTime, source.Timestamp:
		return append(append(append(b, '\''), v...), '\''), timeForms[k.kind].Match(v)
	}
	return k.appendText(b, v)
}

// appendText appends a text in the character set and the collation of the column, so that its index can be used. A character that
// the column cannot hold becomes '?', which finds a row that the caller tells from the one wanted.
func (k keyPart) appendText(b, v []byte) (_ []byte, fits bool) {
	if k.collation == "" {
		return append(append(append(b, '\''), v...), '\''), plainText.Match(v)
	}
	if !utf8.Valid(v) {
		return b, false
	}
	charset, _, _ := strings.Cut(k.collation, "_")
	if charset == "utf8mb4" {
		return appendHex(append(b, "_utf8mb4 "...), v), true
	}
	b = appendHex(append(b, "CONVERT(_utf8mb4 "...), v)
	b = append(append(b, " USING "...), charset...)
	return append(append(b, ") COLLATE "...), k.collation...), true
}

func appendHex(b, v []byte) []byte {
	return append(hex.AppendEncode(append(b, "x'"...), v), '\'')
}
