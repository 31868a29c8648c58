package event

import (
	"bytes"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"example.org/bridge/internal/option"
	"example.org/bridge/source"
)

// Deletion says which values of a DELETED column say that their row is deleted. Without Values that
// is the rule for all columns: see docs/events.md.
type Deletion struct {
	// Values are the values that do or, with Except, those that do not beside those of the rule.
	Values []string
	Except bool
}

// Says reports whether v, a value of c, says that its row is deleted.
func (d *Deletion) Says(c source.Column, v []byte) bool {
	switch {
	case len(d.Values) == 0:
		return isDeleted(c, v)
	case d.Except:
		return isDeleted(c, v) && !d.names(c, v)
	}
	return v != nil && d.names(c, v)
}

// names compares numbers as numbers, times by their beginning, all else whatever the letter case.
func (d *Deletion) names(c source.Column, v []byte) bool {
	for _, value := range d.Values {
		switch c.Kind {
		case source.Int, source.Decimal, source.Float, source.Bit:
			want, _ := number(value)
			if is, ok := numberOf(c, v); ok && want != nil && is.Cmp(want) == 0 {
				return true
			}
		case source.Date, source.DateTime, source.Timestamp:
			if strings.HasPrefix(string(v), value) {
				return true
			}
		default:
			if strings.EqualFold(string(v), value) {
				return true
			}
		}
	}
	return false
}

// fit reports values that c never has.
func (d *Deletion) fit(c source.Column) error {
	for _, value := range d.Values {
		switch c.Kind {
		case source.Int, source.Decimal, source.Float, source.Bit:
			if _, ok := number(value); !ok {
				return option.Errorf("%s names the value %q, but %s holds numbers: write %s=%s=1", option.Deleted, value, c.Name, option.Deleted, c.Name)
			}
		case source.Date, source.DateTime, source.Timestamp:
			if !beginsTime(c, value) {
				return option.Errorf("%s names the value %q, with which no time in %s begins: write %s=%s alone where each time means deleted, or name a time such as %s, or its beginning",
					option.Deleted, value, c.Name, option.Deleted, c.Name, latest[:timeLength(c)])
			}
		case source.Clock:
			if !clock.MatchString(value) {
				return option.Errorf("%s names the value %q, but %s holds times of day: write %s=%s=00:00:00", option.Deleted, value, c.Name, option.Deleted, c.Name)
			}
		}
	}
	return nil
}

var clock = regexp.MustCompile(`^-?[0-9]{1,3}:[0-9]{2}(:[0-9]{2}(\.[0-9]+)?)?$`)

const latest = "9999-12-31 23:59:59.999999"

func timeLength(c source.Column) int {
	switch {
	case c.Kind == source.Date:
		return len(time.DateOnly)
	case c.Precision == 0:
		return len(time.DateTime)
	}
	return min(len(time.DateTime)+1+c.Precision, len(latest))
}

// beginsTime reports whether text begins a time of c, with its year at least, or a zero date.
func beginsTime(c source.Column, text string) bool {
	if len(text) < len("2006") || len(text) > timeLength(c) {
		return false
	}
	for i := range len(text) {
		isDigit := text[i] >= '0' && text[i] <= '9'
		if wantsDigit := latest[i] >= '0' && latest[i] <= '9'; isDigit != wantsDigit || !isDigit && text[i] != latest[i] {
			return false
		}
	}
	for _, field := range [...]int{5, 8, 11, 14, 17} {
		if field < len(text) {
			end := min(field+2, len(text))
			if text[field:end] > latest[field:end] {
				return false
			}
		}
	}
	return true
}

func number(text string) (*big.Rat, bool) {
	if len(text) > 64 || strings.ContainsAny(text, "eE/") {
		// An exponent makes a number that takes much memory.
		f, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, false
		}
		r := new(big.Rat).SetFloat64(f)
		return r, r != nil
	}
	return new(big.Rat).SetString(text)
}

func numberOf(c source.Column, v []byte) (*big.Rat, bool) {
	if c.Kind != source.Bit {
		return number(string(v))
	}
	return new(big.Rat).SetInt(new(big.Int).SetBytes(v)), true
}

// isDeleted is the rule of the package documentation for v, the value of a DELETED column.
func isDeleted(c source.Column, v []byte) bool {
	if v == nil {
		return false
	}
	switch c.Kind {
	case source.Int, source.Decimal, source.Float:
		// SQLite holds words there, too.
		return !isZero(v) && !isNo(v)
	case source.Bit:
		return !allZero(v)
	case source.Binary:
		return !allZero(v) && !isNo(v)
	case source.JSON:
		return !isNo(v) && !bytes.Equal(v, []byte("null"))
	case source.Date, source.DateTime, source.Timestamp:
		return !bytes.HasPrefix(v, []byte("0000-00-00")) && len(v) > 0 && (c.Kind != source.Timestamp || string(v) != unixZero)
	default:
		return !isNo(v)
	}
}

// unixZero is the number 0 in a column of times of SQLite. No other TIMESTAMP is as old.
const unixZero = "1970-01-01 00:00:00.000000"

var noes = []string{"", "0", "f", "false", "n", "no"}

func isNo(v []byte) bool {
	return slices.ContainsFunc(noes, func(no string) bool { return len(v) == len(no) && bytes.EqualFold(v, []byte(no)) })
}

func isZero(v []byte) bool {
	if exponent := bytes.IndexAny(v, "eE"); exponent >= 0 {
		v = v[:exponent]
	}
	return bytes.IndexByte(v, '0') >= 0 && !bytes.ContainsAny(v, "123456789")
}

func allZero(v []byte) bool { return len(bytes.TrimLeft(v, "\x00")) == 0 }
