package ledger_test

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"example.org/bridge/internal/form"
	"example.org/bridge/source"
	"example.org/bridge/source/ledger"
	"example.org/bridge/tests/must"
)

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 7)) }

// stride returns a ledger at 3n with n gaps of two ids.
func stride(t testing.TB, opts ledger.Options, n int) *ledger.Ledger {
	l := mustLedger(t, opts, 0)
	var page []uint64
	for i := 0; i < n; i += 2000 {
		page = page[:0]
		for id := 3 * uint64(i+1); len(page) < 2000 && id <= 3*uint64(n); id += 3 {
			page = append(page, id)
		}
		l.Advance(page[len(page)-1], page, after(time.Duration(i)*time.Millisecond))
	}
	return l
}

type disk map[uint64][]byte

func (d disk) save(chunks []ledger.Chunk) {
	for _, c := range chunks {
		if d[c.Key] = c.Bytes; c.Bytes == nil {
			delete(d, c.Key)
		}
	}
}

func (d disk) load(key uint64) ([]byte, error) { return d[key], nil }

func (d disk) chunks() (list []ledger.Chunk) {
	for key, b := range d {
		list = append(list, ledger.Chunk{Key: key, Bytes: b})
	}
	return list
}

func inOrder(chunks []ledger.Chunk) iter.Seq2[ledger.Chunk, error] {
	chunks = slices.Clone(chunks)
	slices.SortFunc(chunks, func(a, b ledger.Chunk) int { return cmp.Compare(a.Key, b.Key) })
	return func(yield func(ledger.Chunk, error) bool) {
		for _, c := range chunks {
			if !yield(c, nil) {
				return
			}
		}
	}
}

func restore(opts ledger.Options, position uint64, chunks []ledger.Chunk) (*ledger.Ledger, error) {
	var head []byte
	rest := slices.DeleteFunc(slices.Clone(chunks), func(c ledger.Chunk) bool {
		if c.Key == 0 {
			head = c.Bytes
		}
		return c.Key == 0
	})
	return ledger.RestoreParts(opts, position, head, inOrder(rest))
}

func mustRestore(t testing.TB, opts ledger.Options, position uint64, chunks []ledger.Chunk) *ledger.Ledger {
	t.Helper()
	l := must.Get(restore(opts, position, chunks))(t)
	return l
}

func TestASaveWritesWhatChanged(t *testing.T) {
	l := stride(t, ledger.Options{}, 1_000_000)
	size := 0
	all := l.Changed()
	for _, c := range all {
		size += len(c.Bytes)
		if len(c.Bytes) > 8<<10 {
			t.Errorf("part %d takes %d bytes", c.Key, len(c.Bytes))
		}
	}
	if size > 4_000_000 {
		t.Errorf("a million gaps take %d bytes", size)
	}
	l.Fill(1_500_001, after(time.Hour))
	l.Advance(3_000_010, []uint64{3_000_005, 3_000_010}, after(time.Hour))
	if got := l.Changed(); len(got) > 4 {
		t.Errorf("a late row and a page change %d parts", len(got))
	}
	pollWith(l, after(time.Hour))
	if got := l.Changed(); len(got) != 1 {
		t.Errorf("an evidence that shows nothing changes %d parts", len(got))
	}
}

func TestAClockThatWasSetDoesNotAgeGaps(t *testing.T) {
	for name, test := range map[string]struct {
		away, clock, want time.Duration
	}{
		"as much as passed":            {time.Minute, time.Minute, 61 * time.Second},
		"a clock set ahead by a year":  {time.Minute, 365 * 24 * time.Hour, 61 * time.Second},
		"a clock set back by a year":   {time.Minute, -365 * 24 * time.Hour, time.Second},
		"a clock slower than the host": {time.Minute, 30 * time.Second, 31 * time.Second},
		"an unknown absence":           {0, time.Minute, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			l := mustLedger(t, ledger.Options{}, 0)
			l.Advance(2, []uint64{2}, base)
			pollWith(l, after(time.Second))
			l = mustRestore(t, ledger.Options{Away: test.away}, 2, l.All())
			now := after(time.Second + test.clock)
			if age := now.Sub(l.Stats(now).Oldest); age != test.want {
				t.Fatalf("the gap is %s old, want %s", age, test.want)
			}
			now = now.Add(time.Second)
			if age := now.Sub(l.Stats(now).Oldest); age != test.want+time.Second {
				t.Fatalf("a second later the gap is %s old", age)
			}
		})
	}
	t.Run("twice", func(t *testing.T) {
		l := mustLedger(t, ledger.Options{}, 0)
		l.Advance(2, []uint64{2}, base)
		l.Stats(base)
		now := base
		for range 5 {
			l = mustRestore(t, ledger.Options{Away: time.Second}, 2, l.All())
			now = now.AddDate(1, 0, 0)
			l.Stats(now)
		}
		if age := now.Sub(l.Stats(now).Oldest); age != 5*time.Second {
			t.Errorf("after five restarts the gap is %s old, want 5s", age)
		}
	})
}

func TestRestoreRefuses(t *testing.T) {
	l := stride(t, ledger.Options{}, 1000)
	pollWith(l, after(time.Second), 1, 2, 400)
	l.See(5000, after(time.Second))
	good := l.Changed()
	change := func(f func([]ledger.Chunk) []ledger.Chunk) []ledger.Chunk {
		bad := slices.Clone(good)
		for i := range bad {
			bad[i].Bytes = bytes.Clone(bad[i].Bytes)
		}
		return f(bad)
	}
	for name, bad := range map[string][]ledger.Chunk{
		"nothing":             nil,
		"no head":             good[1:],
		"a missing part":      good[:len(good)-1],
		"a part twice":        change(func(c []ledger.Chunk) []ledger.Chunk { c[1].Key = c[2].Key; return c }),
		"parts exchanged":     change(func(c []ledger.Chunk) []ledger.Chunk { c[1].Bytes, c[2].Bytes = c[2].Bytes, c[1].Bytes; return c }),
		"an empty part":       change(func(c []ledger.Chunk) []ledger.Chunk { c[1].Bytes = nil; return c }),
		"a part as the head":  change(func(c []ledger.Chunk) []ledger.Chunk { c[0].Bytes = c[1].Bytes; return c }),
		"a head cut off":      change(func(c []ledger.Chunk) []ledger.Chunk { c[0].Bytes = c[0].Bytes[:9]; return c }),
		"a key above its ids": change(func(c []ledger.Chunk) []ledger.Chunk { c[1].Key = 7; return c }),
	} {
		if _, err := restore(ledger.Options{}, l.Position(), bad); !errors.Is(err, ledger.ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := restore(ledger.Options{}, l.Position()+1, good); !errors.Is(err, ledger.ErrDamaged) {
		t.Errorf("another position: %v", err)
	}
	for i := range good {
		for bit := range 8 * len(good[i].Bytes) {
			bad := change(func(c []ledger.Chunk) []ledger.Chunk { c[i].Bytes[bit/8] ^= 1 << (bit % 8); return c })
			if _, err := restore(ledger.Options{}, l.Position(), bad); !errors.Is(err, ledger.ErrDamaged) {
				t.Fatalf("bit %d of part %d flipped: %v", bit, i, err)
			}
		}
	}
	for _, version := range []byte{0, 1, 3} {
		for i := range 2 {
			bad := change(func(c []ledger.Chunk) []ledger.Chunk {
				c[i].Bytes = reseal(c[i].Bytes, func(b []byte) { b[0] = version })
				return c
			})
			text := fmt.Sprintf("version %d, this program knows 2", version)
			if _, err := restore(ledger.Options{}, l.Position(), bad); !errors.Is(err, ledger.ErrDamaged) || !strings.Contains(err.Error(), text) {
				t.Errorf("version %d in part %d: %v", version, i, err)
			}
		}
	}
	mustRestore(t, ledger.Options{}, l.Position(), good)
}

// reseal changes the body of a saved part and makes its checksum good again.
func reseal(b []byte, f func([]byte)) []byte {
	body := bytes.Clone(b[:len(b)-4])
	f(body)
	return form.Seal(body)
}

// FuzzRestoreLedger feeds parts with good checksums: nothing panics, and what is accepted works and
// survives another round.
func FuzzRestoreLedger(f *testing.F) {
	l := stride(f, ledger.Options{}, 600)
	pollWith(l, after(time.Second), 1, 2, 400)
	l.See(5000, after(time.Second))
	chunks := l.Changed()
	l.Advance(1<<30, []uint64{1 << 30}, after(time.Second))
	l.Advance(1<<40, []uint64{1<<30 + 70, 1<<30 + 90, 1 << 40}, after(2*time.Second))
	jumped := l.Changed()
	strip := func(b []byte) []byte { return b[:len(b)-4] }
	f.Add(strip(chunks[0].Bytes), chunks[1].Key, strip(chunks[1].Bytes), chunks[2].Key, strip(chunks[2].Bytes))
	f.Add(strip(jumped[0].Bytes), chunks[1].Key, strip(chunks[1].Bytes), jumped[1].Key, strip(jumped[1].Bytes))
	f.Fuzz(func(t *testing.T, head []byte, key1 uint64, leaf1 []byte, key2 uint64, leaf2 []byte) {
		if len(head) == 0 || head[0] != 2 {
			return
		}
		position, _ := binary.Uvarint(head[1:])
		opts := ledger.Options{Away: time.Hour}
		parts := []ledger.Chunk{{Bytes: form.Seal(head)}, {Key: key1, Bytes: form.Seal(leaf1)}, {Key: key2, Bytes: form.Seal(leaf2)}}
		l, err := restore(opts, position, parts)
		if err != nil {
			if !errors.Is(err, ledger.ErrDamaged) {
				t.Fatalf("an error of no kind: %v", err)
			}
			l, err = restore(opts, position, parts[:2])
		}
		if err != nil {
			return
		}
		before := slices.Collect(l.Unpublished)
		again, err := restore(opts, position, l.All())
		if err != nil || !reflect.DeepEqual(slices.Collect(again.Unpublished), before) {
			t.Fatalf("it does not survive: %v", err)
		}
		for _, id := range []uint64{0, 1, position, key1, key2, 1<<64 - 1} {
			l.Fill(id, base)
		}
		pollWith(l, base, 1, key1, key2)
		l.Advance(position+10, []uint64{position + 5}, base)
		l.Notice([]uint64{position + 15}, base)
		pollWith(l, after(time.Hour))
		sweep(l, after(25*time.Hour))
		l.Reach(position+15, after(25*time.Hour))
		l.Stats(after(25 * time.Hour))
		mustRestore(t, opts, l.Position(), l.All())
	})
}

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
		must.Get(fmt.Sscan(fields[0], &c.Key))(t)
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
	restored := must.Get(ledger.RestoreIDs(1000, nil, func(yield func(ledger.Chunk, error) bool) { yield(chunks[last], nil) }))(t)
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
