package mysql

import (
	"encoding/binary"
	"encoding/hex"
	"regexp"
	"strconv"

	"bridge/source"
)

// fit says what a comparison with a value of a key can rely on.
type fit uint8

const (
	// never: no row can hold the value.
	never fit = iota
	// odd: rows may hold it, but the server has no literal for it that is sure to find them. The
	// column is compared as it is read.
	odd
	// sound: the literal finds every row that holds it, by the index.
	sound
)

var (
	wholeNumber = regexp.MustCompile(`^-?[0-9]{1,20}$`)
	// A DECIMAL has 65 digits at most.
	exactNumber = regexp.MustCompile(`^-?[0-9]{1,65}(\.[0-9]{1,38})?$`)
	timeForms   = map[source.Kind]*regexp.Regexp{
		source.Date:      regexp.MustCompile(`^\d{4}-\d\d-\d\d$`),
		source.Clock:     regexp.MustCompile(`^-?[0-8]?\d\d:[0-5]\d:[0-5]\d(\.\d{1,6})?$`),
		source.DateTime:  regexp.MustCompile(`^\d{4}-\d\d-\d\d [0-2]\d:[0-5]\d:[0-5]\d(\.\d{1,6})?$`),
		source.Timestamp: regexp.MustCompile(`^\d{4}-\d\d-\d\d [0-2]\d:[0-5]\d:[0-5]\d(\.\d{1,6})?$`),
	}
)

// fit looks at v, a value in the normal form of the part's kind.
func (k keyPart) fit(v []byte) fit {
	if v == nil {
		// The columns of the index are NOT NULL.
		return never
	}
	form := timeForms[k.kind]
	switch k.kind {
	case source.Int:
		form = wholeNumber
	case source.Decimal:
		form = exactNumber
	case source.Bit:
		return when(len(v) > 0 && len(v) <= 8)
	case source.Binary:
		return sound
	case source.Text, source.JSON:
		return k.fitText(v)
	}
	if form == nil || !form.Match(v) {
		return never
	}
	if k.kind == source.Date || k.kind == source.DateTime || k.kind == source.Timestamp {
		return fitDay(k.kind, v)
	}
	return sound
}

func when(sure bool) fit {
	if sure {
		return sound
	}
	return never
}

// fitDay takes a date for odd that no calendar knows, which a column may hold all the same but some
// servers refuse in a statement. The zero date is none of these.
func fitDay(kind source.Kind, v []byte) fit {
	_, known := source.Column{Kind: kind}.Time(v, nil)
	if known || string(v[:len("0000-00-00")]) == "0000-00-00" {
		return sound
	}
	return odd
}

// appendCondition appends the SQL for rows that hold v, which is not never, in the column. It means
// the same whatever the modes of the session, and nothing in v can leave it.
func (k keyPart) appendCondition(b, v []byte, written encodings) []byte {
	if k.fit(v) == odd {
		return k.appendAsRead(b, v)
	}
	b = append(append(b, k.name...), " = "...)
	switch k.kind {
	case source.Int, source.Decimal:
		return append(b, v...)
	case source.Bit:
		var bits [8]byte
		copy(bits[8-len(v):], v)
		return strconv.AppendUint(b, binary.BigEndian.Uint64(bits[:]), 10)
	case source.Binary:
		return appendHex(b, v)
	case source.Text, source.JSON:
		return k.appendText(b, v, written)
	}
	return append(append(append(b, '\''), v...), '\'')
}

// appendAsRead appends the comparison of v with what a client reads of the column, byte for byte.
// No index helps with that.
func (k keyPart) appendAsRead(b, v []byte) []byte {
	read := "CONVERT(" + k.name + " USING utf8mb4)"
	if k.charset() == "utf8mb4" {
		read = k.name
	} else if k.collation == "" {
		read = "CAST(" + k.name + " AS CHAR)"
	}
	return appendHex(append(b, "CAST("+read+" AS BINARY) = "...), v)
}

func appendHex(b, v []byte) []byte {
	return append(hex.AppendEncode(append(b, "x'"...), v), '\'')
}
