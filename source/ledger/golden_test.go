package ledger_test

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"example.org/bridge/source"
	"example.org/bridge/source/ledger"
)

// TestSavedForms: what former versions have saved is read, and they read what is saved now. It has
// a wide gap, pending ids, ids that were seen and not passed, and ids as distances and as bits.
func TestSavedForms(t *testing.T) {
	l := mustLedger(t, ledger.Options{}, 0)
	l.Advance(400, []uint64{3, 9, 300, 400}, base)
	pollWith(l, after(time.Second), 1, 2, 250)
	l.Advance(9_000_000, []uint64{402, 9_000_000}, after(2*time.Second))
	l.Advance(9_000_010, []uint64{9_000_004, 9_000_010}, after(3*time.Second))
	l.See(9_000_020, after(4*time.Second))
	l.Fill(401, after(5*time.Second))
	ids := ledger.NewIDs(1000, nil)
	var dense []source.Range
	for id := uint64(5); id < 100; id += 4 {
		dense = append(dense, source.Range{First: id, Last: id + id%3})
	}
	ids.Add(dense)
	var lines []string
	for _, c := range append(l.Changed(), ids.Changed()...) {
		lines = append(lines, fmt.Sprintf("%d %s", c.Key, hex.EncodeToString(c.Bytes)))
	}
	if want := strings.Fields(savedForms); !slices.Equal(strings.Fields(strings.Join(lines, " ")), want) {
		t.Errorf("saved as\n%s", strings.Join(lines, "\n"))
	}
	var chunks []ledger.Chunk
	for fields := strings.Fields(savedForms); len(fields) > 0; fields = fields[2:] {
		c := ledger.Chunk{}
		c.Bytes, _ = hex.DecodeString(fields[1])
		if _, err := fmt.Sscan(fields[0], &c.Key); err != nil {
			t.Fatal(err)
		}
		chunks = append(chunks, c)
	}
	last := len(chunks) - 1
	again := mustRestore(t, ledger.Options{Away: time.Hour}, l.Position(), chunks[:last])
	now := after(6 * time.Second)
	if got, want := again.Gaps(0), l.Gaps(0); !slices.Equal(got, want) || len(got) != 7 {
		t.Errorf("restored with %v, want %v", got, want)
	}
	if got, want := again.Pending(0, 0, now), l.Pending(0, 0, now); !slices.Equal(got, want) || len(got) != 2 {
		t.Errorf("pending %v, want %v", got, want)
	}
	restored, err := ledger.RestoreIDs(1000, nil, func(yield func(ledger.Chunk, error) bool) { yield(chunks[last], nil) })
	if err != nil {
		t.Fatal(err)
	}
	if got := slices.Collect(restored.All); !slices.Equal(got, source.JoinRanges(dense, 0)) {
		t.Errorf("restored with %v", got)
	}
}

const savedForms = `
0 02caa8a5040080eddadfa6fda50680eddadfa6fda50602019003009303aca5a50480d2ecdca6fda5069203920301d4a8a50480e4e0dea6fda50602010180c9f2dba6fda50680c9f2dba6fda50601f8010080c9f2dba6fda50680c9f2dba6fda506013a634257
1 0280c0f8daa6fda5060402000400090001010401a102016201010101ed021c39
9000001 0280dbe6dda6fda5060202000201c1a8a504f701b6d0ec27
5 02001802001801051773311773311773311773314bc8e5df
`
