package source_test

import (
	"bytes"
	"cmp"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"example.org/bridge/source"
)

var formats = []source.IDFormat{source.UUID7, source.ULID, source.KSUID, source.UUID}

// random returns an id of a format as a column stores it, near others for a small space of numbers.
func random(c source.IDColumn, r *rand.Rand) []byte {
	n := r.Uint64()>>r.IntN(40) | 1
	low, high := c.Lowest(n), c.Highest(n)
	if !c.Binary {
		return [][]byte{low, high}[r.IntN(2)]
	}
	id := bytes.Clone(low)
	for i := range id {
		// Bits that both ends share stay.
		id[i] |= byte(r.Uint32()) & (low[i] ^ high[i])
	}
	return id
}

// The number of an id has the order of the column, and is between its ends.
func TestIDsKeepTheirOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, format := range formats {
		for _, binary := range []bool{false, true} {
			c := source.IDColumn{Format: format, Binary: binary}
			for range 20_000 {
				a, b := random(c, r), random(c, r)
				m, err := c.Number(a)
				n, err2 := c.Number(b)
				if err = cmp.Or(err, err2); err != nil {
					t.Fatal(err)
				}
				if order := bytes.Compare(a, b); cmp.Compare(m, n)*order < 0 || order == 0 && m != n {
					t.Fatalf("%s: %q has the number %d, %q %d", format, a, m, b, n)
				}
				if bytes.Compare(c.Lowest(m), a) > 0 || bytes.Compare(a, c.Highest(m)) > 0 {
					t.Fatalf("%s: %q is not between %q and %q", format, a, c.Lowest(m), c.Highest(m))
				}
				if m < 1<<63 {
					if next, _ := c.Number(c.Lowest(m + 1)); next != m+1 || bytes.Compare(c.Highest(m), c.Lowest(m+1)) >= 0 {
						t.Fatalf("%s: ids of %d reach into those of %d", format, m, next)
					}
				}
				text, other := c.AppendText(nil, a), c.AppendText(nil, b)
				if !bytes.Equal(c.Stored(string(text)), a) || bytes.Compare(a, b) != bytes.Compare(text, other) {
					t.Fatalf("%s: the text of %q is %q, that of %q is %q", format, a, text, b, other)
				}
			}
		}
	}
}

// An id tells when it was made; examples are those of the specifications.
func TestTimesOfIDs(t *testing.T) {
	for id, want := range map[string]struct {
		format source.IDFormat
		at     string
	}{
		"017f22e2-79b0-7cc3-98c4-dc0c0c07398f": {source.UUID7, "2022-02-22T19:22:22Z"},
		"01ARZ3NDEKTSV4RRFFQ69G5FAV":           {source.ULID, "2016-07-30T23:54:10.259Z"},
		"0ujtsYcgvSTl8PAuAdqWYSMnLOv":          {source.KSUID, "2017-10-10T04:00:47Z"},
	} {
		column := source.Column{Format: want.format}
		at, ok := column.Time([]byte(id), nil)
		if !ok || at.Format(time.RFC3339Nano) != want.at {
			t.Errorf("%s was made at %s, %t", id, at, ok)
		}
		lowest := column.Text(at, nil)
		if again, ok := column.Time([]byte(lowest), nil); !ok || !again.Equal(at) || lowest > id || column.Text(at.Add(column.Resolution()), nil) <= id {
			t.Errorf("the first id of %s is %s", at, lowest)
		}
		if like := source.FormatLike([]byte(id), false); like != want.format {
			t.Errorf("%s looks like %s", id, like)
		}
	}
}

func TestUnfitIDs(t *testing.T) {
	const v4 = "9c5b94b1-35ad-49bb-b118-8e8fc24abf80"
	for _, c := range []struct {
		source.IDColumn
		id, remedy string
	}{
		{source.IDColumn{Format: source.UUID7}, v4, "ID_FORMAT=uuid"},
		{source.IDColumn{Format: source.UUID7}, "017F22E2-79B0-7CC3-98C4-DC0C0C07398F", "letter case"},
		{source.IDColumn{Format: source.UUID}, "00000000-0000-0000-0000-000000000000", "another id"},
		{source.IDColumn{Format: source.UUID}, "017f22e279b07cc398c4dc0c0c07398f", "another id"},
		{source.IDColumn{Format: source.UUID}, "017f22e2-79b0-7cc3-98c4-dc0c0c07398-", "another id"},
		{source.IDColumn{Format: source.ULID}, "8ZZZZZZZZZZZZZZZZZZZZZZZZZ", "another id"},
		{source.IDColumn{Format: source.ULID}, "01arz3ndektsv4rrffq69g5fav", "letter case"},
		{source.IDColumn{Format: source.ULID}, "01ARZ3NDEKTSV4RRFFQ69G5FAU", "another id"},
		{source.IDColumn{Format: source.ULID, Fold: true}, "0ujtsYcgvSTl8PAuAdqWYSMnLOv", "ID_FORMAT=ksuid"},
		{source.IDColumn{Format: source.KSUID}, "aWgEPTl1tmebfsQzFP4bxwgy80W", "another id"},
		{source.IDColumn{Format: source.KSUID}, "", "another id"},
		{source.IDColumn{Format: source.ULID, Binary: true}, "01ARZ3NDEKTSV4RRFFQ69G5FAV", "another id"},
		{source.IDColumn{Format: source.ULID, Binary: true}, "exactly twenty bytes", "ID_FORMAT=ksuid"},
	} {
		if n, err := c.Number([]byte(c.id)); !errors.Is(err, source.ErrUnfit) || !strings.Contains(err.Error(), c.remedy) {
			t.Errorf("%s: %q has the number %d, %v", c.Format, c.id, n, err)
		}
	}
	folded := source.IDColumn{Format: source.ULID, Fold: true}
	n, err := folded.Number([]byte("01arz3ndektsv4rrffq69g5fav"))
	if upper, _ := folded.Number([]byte("01ARZ3NDEKTSV4RRFFQ69G5FAV")); err != nil || n != upper {
		t.Errorf("in lower case it is %d, else %d, %v", n, upper, err)
	}
}
