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
	s       *Store
	next    uint64
	random  *rand.Rand
	entries []store.Entry
}

var benchKey = store.Key{Stream: "orders", Shard: "db.orders"}

// entity returns the name of an entity, of 20 to 40 bytes.
func (b *bench) entity(n uint64) []byte {
	h := n * 0x9e3779b97f4a7c15
	return fmt.Appendf(nil, "%016x-%.*s", h, 3+int(h>>32%21), "customer-of-the-benchmark")
}

// change returns a change that puts an entity into a new row.
func (b *bench) change(n uint64) store.Change {
	b.next++
	e := store.Entry{Shard: benchKey.Shard, Row: b.next, State: store.Live, At: store.At{TP: 1 + uint32(n%12), Offset: b.next / 12}, Epoch: 1_795_000_000_000, Seq: b.next}
	binary.LittleEndian.PutUint64(e.Digest[:], b.random.Uint64())
	binary.LittleEndian.PutUint64(e.Event[8:], b.random.Uint64())
	return store.Change{Entity: b.entity(n), Entry: e}
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

// measure reports what rows cost, with all that waits for the disk.
func (b *bench) measure(rows int, f func()) {
	cpu, written := b.cpu(), b.written()
	f()
	if err := b.s.Sync(b.Context()); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64((b.cpu()-cpu).Nanoseconds())/1e3/float64(rows), "cpu-µs/row")
	b.ReportMetric((b.written()-written)/float64(rows), "bytes/row")
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
				v := &bench{B: b, s: s, random: rand.New(rand.NewPCG(1, 2))}
				changes := make([]store.Change, size)
				for i, n := range v.random.Perm(size) {
					changes[i] = v.change(uint64(n))
				}
				var ask []store.Ask
				b.StartTimer()
				v.measure(size, func() {
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
