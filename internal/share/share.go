package share

import (
	"fmt"
	"regexp"
	"strconv"

	"github.com/cespare/xxhash/v2"
)

// Most bounds the number of shares.
const Most = 1000

// Share is the part of all tables that a process works on: the one with an index, from 0, of so
// many. The zero value is all tables, of a process without shares.
type Share struct {
	Index  int `json:"index"`
	Number int `json:"number"`
}

var form = regexp.MustCompile(`^([0-9]{1,4})(?:/|-of-)([0-9]{1,4})$`)

// Parse returns the share of a text such as 3/8, or 3-of-8 where a name cannot have a slash. The
// error says what is wrong with it, and quotes nothing of it.
func Parse(text string) (Share, error) {
	parts := form.FindStringSubmatch(text)
	if parts == nil {
		return Share{}, fmt.Errorf("invalid share: write index and number, as in 0/3, 1/3 and 2/3 for three processes")
	}
	// Four digits fit.
	index, _ := strconv.Atoi(parts[1])
	number, _ := strconv.Atoi(parts[2])
	switch {
	case number < 1 || number > Most:
		return Share{}, fmt.Errorf("has %d shares: use a number from 1 to %d behind the /", number, Most)
	case index >= number:
		return Share{}, fmt.Errorf("has the index %d of %d shares: an index is from 0 to %d", index, number, number-1)
	}
	return Share{index, number}, nil
}

// One reports whether there are shares.
func (s Share) One() bool { return s.Number > 0 }

// String returns 3/8, and the empty text without shares.
func (s Share) String() string {
	if !s.One() {
		return ""
	}
	return fmt.Sprintf("%d/%d", s.Index, s.Number)
}

// Name returns 3-of-8, for names of folders and on the bus; the empty text without shares.
func (s Share) Name() string {
	if !s.One() {
		return ""
	}
	return fmt.Sprintf("%d-of-%d", s.Index, s.Number)
}

// Has reports whether a table of a stream is in the share. An empty table stands for all tables of
// a stream that is not divided.
func (s Share) Has(stream, table string) bool {
	return !s.One() || Of(s.Number, stream, table) == s.Index
}

// Of returns which of so many shares a table of a stream is in; 0 without shares. What it returns
// is kept: by another function tables would move, and processes not agree about it.
func Of(number int, stream, table string) int {
	if number <= 1 {
		return 0
	}
	return int(xxhash.Sum64String(stream+"\x00"+table) % uint64(number))
}
