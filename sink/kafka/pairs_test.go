package kafka

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"bridge/sink"
	"bridge/tests/testall"
)

// pairsOf returns a portion of messages: v stands for one with a body, t for a tombstone. Keys have
// so many bytes.
func pairsOf(text string, keyBytes func() int) *portion {
	batch := make([]sink.Message, len(text))
	r := &portion{}
	for i := range text {
		batch[i] = sink.Message{Key: bytes.Repeat([]byte("k"), keyBytes()), ID: "id", Value: []byte("{}")}
		if text[i] == 't' {
			batch[i].Value = nil
		}
		r.index = append(r.index, i)
	}
	r.call = newCall(batch)
	return r
}

// fillOne makes the next batch of a portion.
func (r *portion) fillOne(limit int) *wireBatch {
	f := &wireBatch{buffers: new(buffers)}
	f.buffers.records.reset()
	r.next += f.fill(r, limit)
	f.count = f.buffers.records.count
	return f
}

func TestATombstoneIsInTheBatchOfItsEvent(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	cuts, rounds := 0, testall.Cases(60, 300)
	for range rounds {
		var text strings.Builder
		for range 1 + rng.IntN(30) {
			text.WriteString([]string{"v", "vt"}[rng.IntN(2)])
		}
		all := text.String()
		r := pairsOf(all, func() int { return rng.IntN(300 << 10) })
		for from := 0; r.next < len(all); from = r.next {
			f := r.fillOne(math.MaxInt)
			if f.count != r.next-from || f.count == 0 {
				t.Fatalf("%s: %d records of %d messages", all, f.count, r.next-from)
			}
			if r.next < len(all) {
				cuts++
				if all[r.next] == 't' {
					t.Fatalf("%s is cut at %d", all, r.next)
				}
			}
			if units := strings.Count(all[from:r.next], "v"); f.units != units {
				t.Errorf("%s: %d units, want %d", all[from:r.next], f.units, units)
			}
		}
	}
	if cuts < rounds/3 {
		t.Errorf("%d batches were cut: the test shows too little", cuts)
	}
}

// TestRefusedBatchesAreHalvedBetweenPairs has a broker refuse batches until single records are
// left.
func TestRefusedBatchesAreHalvedBetweenPairs(t *testing.T) {
	for text, want := range map[string]string{"vtvtv": "5 2 1", "vt": "2 1", "v": "1", "vvv": "3 1"} {
		r := pairsOf(text, func() int { return 3 })
		var got []string
		for limit, ok := math.MaxInt, true; ok; {
			r.next = 0
			f := r.fillOne(limit)
			got = append(got, fmt.Sprint(f.count))
			limit, ok = f.halved()
		}
		if text := strings.Join(got, " "); text != want {
			t.Errorf("%s: batches of %s records, want %s", text, text, want)
		}
	}
	if bolder(0) != 1 || bolder(1) != 2 || bolder(math.MaxInt) != math.MaxInt {
		t.Error("the limit does not rise again")
	}
}
