package pebble

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"bridge/checkpoint/store"
)

// bench is a view with entities in random order, each in a row of its own.
type bench struct {
	*testing.B
	s *Store
	// rows are the rows of the entities by their numbers.
	rows    []uint64
	next    uint64
	random  *rand.Rand
	entries []store.Entry
}

// benchPage is how many entities are looked up and changed at a time.
const benchPage = 2000

var benchKey = store.Key{Stream: "orders", Shard: "db.orders"}

// entity returns the name of an entity, of 20 to 40 bytes.
func (b *bench) entity(n uint64) []byte {
	h := n * 0x9e3779b97f4a7c15
	return fmt.Appendf(nil, "%016x-%.*s", h, 3+int(h>>32%21), "customer-of-the-benchmark")
}

// row returns the row in which an entity is looked for.
func (b *bench) row(n uint64) uint64 {
	if n < uint64(len(b.rows)) {
		return b.rows[n]
	}
	return b.next + n
}

// change returns a change that puts an entity into its row, or into a new one.
func (b *bench) change(n uint64, move bool) store.Change {
	if b.next++; move {
		b.rows[n] = b.next
	}
	e := store.Entry{Shard: benchKey.Shard, Row: b.rows[n], State: store.Live, At: store.At{TP: 1 + uint32(n%12), Offset: b.next / 12}, Epoch: 1_795_000_000_000, Seq: b.next}
	binary.LittleEndian.PutUint64(e.Digest[:], b.random.Uint64())
	binary.LittleEndian.PutUint64(e.Event[8:], b.random.Uint64())
	return store.Change{Entity: b.entity(n), Entry: e}
}

// apply looks entities up, as a decision does, and changes them.
func (b *bench) apply(numbers []uint64, move, known bool) {
	for page := range slices.Chunk(numbers, benchPage) {
		v := store.ViewChange{Stream: benchKey.Stream}
		for _, n := range page {
			v.Changes = append(v.Changes, b.change(n, move))
		}
		b.lookup(page, known)
		if err := b.s.Apply(b.Context(), &store.Batch{Views: []store.ViewChange{v}}); err != nil {
			b.Fatal(err)
		}
	}
}

func (b *bench) lookup(numbers []uint64, known bool) {
	for page := range slices.Chunk(numbers, benchPage) {
		asks := make([]store.Ask, len(page))
		for i, n := range page {
			asks[i] = store.Ask{Entity: b.entity(n), Shard: benchKey.Shard, Row: b.row(n)}
		}
		var err error
		if b.entries, err = b.s.Lookup(b.Context(), benchKey.Stream, asks, b.entries[:0]); err != nil {
			b.Fatal(err)
		}
		for i := range b.entries {
			if (b.entries[i].State == store.Live) != known {
				b.Fatalf("%q is %+v", asks[i].Entity, b.entries[i])
			}
		}
	}
}

// some returns numbers of random entities, beginning with from.
func (b *bench) some(from uint64, count int) []uint64 {
	numbers := make([]uint64, count)
	for i := range numbers {
		numbers[i] = from + b.random.Uint64N(uint64(len(b.rows)))
	}
	return numbers
}

func (b *bench) byRow() {
	var page []store.Change
	var err error
	seen := 0
	for above := uint64(0); ; above = page[len(page)-1].Entry.Row {
		if page, err = b.s.ByRow(b.Context(), benchKey, above, benchPage, page[:0]); err != nil {
			b.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		seen += len(page)
	}
	if seen != len(b.rows) {
		b.Fatalf("%d entities by row", seen)
	}
}

func (b *bench) byEntity() {
	seen := 0
	for _, err := range b.s.Scan(b.Context(), benchKey.Stream) {
		if err != nil {
			b.Fatal(err)
		}
		seen++
	}
	if seen != len(b.rows) {
		b.Fatalf("%d entities", seen)
	}
}

// written returns how many bytes the process has written.
func (b *bench) written() float64 {
	text, err := os.ReadFile("/proc/self/io")
	if err != nil {
		b.Skip(err)
	}
	_, rest, _ := strings.Cut(string(text), "wchar: ")
	count, _, _ := strings.Cut(rest, "\n")
	n, err := strconv.ParseFloat(count, 64)
	if err != nil {
		b.Fatal(err)
	}
	return n
}

func (b *bench) cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// phase reports what rows cost, with all that waits for the disk.
func (b *bench) phase(name string, rows int, f func()) {
	cpu, written := b.cpu(), b.written()
	f()
	if err := b.s.Sync(b.Context()); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64((b.cpu()-cpu).Nanoseconds())/1e3/float64(rows), strings.TrimPrefix(name+"-cpu-µs/row", "-"))
	b.ReportMetric((b.written()-written)/float64(rows), strings.TrimPrefix(name+"-bytes/row", "-"))
}

// BenchmarkCatchUp fills an empty view in random order of its entities, as catch-up without a store
// does. A page is one batch; all its entities are looked up before.
func BenchmarkCatchUp(b *testing.B) {
	const size = 500_000
	for _, page := range []int{2_000, 20_000} {
		b.Run(fmt.Sprint("page=", page), func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				s, err := Open(b.Context(), filepath.Join(b.TempDir(), "store"), Options{})
				if err != nil {
					b.Fatal(err)
				}
				v := &bench{B: b, s: s, rows: make([]uint64, size), random: rand.New(rand.NewPCG(1, 2))}
				changes := make([]store.Change, size)
				for i, n := range v.random.Perm(size) {
					changes[i] = v.change(uint64(n), true)
				}
				var ask []store.Ask
				b.StartTimer()
				v.phase("", size, func() {
					for list := range slices.Chunk(changes, page) {
						ask = ask[:0]
						for i := range list {
							ask = append(ask, store.Ask{Entity: list[i].Entity, Shard: list[i].Entry.Shard, Row: list[i].Entry.Row})
						}
						if v.entries, err = s.Lookup(b.Context(), benchKey.Stream, ask, v.entries[:0]); err != nil {
							b.Fatal(err)
						}
						if err := s.Apply(b.Context(), &store.Batch{Views: []store.ViewChange{{Stream: benchKey.Stream, Changes: list}}}); err != nil {
							b.Fatal(err)
						}
					}
				})
				if err := s.Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkView fills a view in random order of its entities, uses it, opens it again and goes on,
// with as many entities as BRIDGE_BENCH_ENTITIES says, else a million. Its figures are in
// decision 19.
func BenchmarkView(b *testing.B) {
	size := 1_000_000
	if text := os.Getenv("BRIDGE_BENCH_ENTITIES"); text != "" {
		var err error
		if size, err = strconv.Atoi(text); err != nil {
			b.Fatal("BRIDGE_BENCH_ENTITIES: ", err)
		}
	}
	some := min(size, 1_000_000)
	for b.Loop() {
		path := filepath.Join(b.TempDir(), "store")
		s, err := Open(b.Context(), path, Options{})
		if err != nil {
			b.Fatal(err)
		}
		v := &bench{B: b, s: s, rows: make([]uint64, size, size+some), random: rand.New(rand.NewPCG(1, 2))}
		all := make([]uint64, size)
		for i, n := range v.random.Perm(size) {
			all[i] = uint64(n)
		}
		v.phase("load", size, func() { v.apply(all, true, false) })
		v.phase("unknown", some/5, func() { v.lookup(v.some(uint64(size), some/5), false) })
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
		if s, err = Open(b.Context(), path, Options{}); err != nil {
			b.Fatal(err)
		}
		v.s = s
		v.phase("reopened-unknown", some/5, func() { v.lookup(v.some(uint64(size), some/5), false) })
		v.phase("known", some/5, func() { v.lookup(v.some(0, some/5), true) })
		v.phase("same-row", some, func() { v.apply(v.some(0, some), false, true) })
		v.phase("new-row", some, func() { v.apply(v.some(0, some), true, true) })
		v.phase("added", some, func() {
			v.rows = v.rows[:size+some]
			for i := range all[:some] {
				all[i] = uint64(size + i)
			}
			v.apply(all[:some], true, false)
		})
		v.phase("by-row", len(v.rows), v.byRow)
		v.phase("by-entity", len(v.rows), v.byEntity)
		b.ReportMetric(v.peak(), "peak-MiB")
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// peak returns the greatest resident memory of the process so far, in MiB.
func (b *bench) peak() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return float64(u.Maxrss) / 1024
}
