package bolt_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bridge/checkpoint"
	"bridge/checkpoint/bolt"
	"bridge/sink"
)

// The batch that the benchmarks save.
const (
	benchRows  = 2000
	benchValue = 550
)

// benchEntity is the n-th entity: 30 bytes that look random.
func benchEntity(n int) []byte {
	r := rand.New(rand.NewPCG(uint64(n), 7))
	return fmt.Appendf(nil, "%016x%014x", r.Uint64(), r.Uint64()>>8)
}

// benchChanges are live entities, numbered by pick, in the rows from first on.
func benchChanges(rows int, first uint64, pick func() int) []checkpoint.Change {
	changes := make([]checkpoint.Change, rows)
	for i := range changes {
		c := &changes[i]
		c.Entity = benchEntity(pick())
		c.Known = checkpoint.Known{Row: first + uint64(i), Fate: checkpoint.Live}
		binary.LittleEndian.PutUint64(c.Known.State[:], c.Known.Row*0x9e3779b97f4a7c15)
		binary.LittleEndian.PutUint64(c.Known.Event[:], c.Known.Row*0xc2b2ae3d27d4eb4f)
	}
	return changes
}

// benchJournal is a batch of messages of some 600 bytes.
func benchJournal(changes []checkpoint.Change) *checkpoint.Journal {
	j := &checkpoint.Journal{After: checkpoint.State{View: changes}}
	value := make([]byte, benchValue)
	for _, c := range changes {
		j.Messages = append(j.Messages, sink.Message{
			Destination: "orders", Key: c.Entity, Value: value, ID: "01234567-89ab-5def-8123-456789abcdef",
			Type: "OrderAddedEvent", Version: "1.0.0", Stream: "orders", Shard: "db.orders", RowID: c.Known.Row, Origin: sink.FromTail,
		})
	}
	return j
}

// fillView gives the shard a view of this many entities.
func fillView(b *testing.B, s *bolt.Store, entities int) {
	b.Helper()
	const step = 20_000
	for n := 0; n < entities; n += step {
		at := n - 1
		changes := benchChanges(min(step, entities-n), uint64(n+1), func() int { at++; return at })
		if err := s.Save(b.Context(), key, checkpoint.State{View: changes}); err != nil {
			b.Fatal(err)
		}
	}
}

// written returns how many bytes the process has written to files.
func written(b *testing.B) (n int64) {
	text, err := os.ReadFile("/proc/self/io")
	if err != nil {
		b.Skip("needs Linux: ", err)
	}
	for line := range strings.Lines(string(text)) {
		if _, err := fmt.Sscanf(line, "wchar: %d", &n); err == nil {
			return n
		}
	}
	b.Fatal("the kernel does not say what was written")
	return 0
}

// BenchmarkView saves batches with their journals into views of several sizes and looks entities up in them. New entities come
// in at random places of the view; known ones move to new rows, as REPLACE does.
func BenchmarkView(b *testing.B) {
	for _, size := range []int{100_000, 1_000_000} {
		s := mustOpen(b, filepath.Join(b.TempDir(), "bridge.db"))
		fillView(b, s, size)
		next, row := size, uint64(size)
		for _, mode := range []struct {
			name string
			pick func() int
		}{
			{"new", func() int { next++; return next }},
			{"known", func() int { return rand.IntN(size) }},
		} {
			b.Run(fmt.Sprintf("entities=%d/save=%s", size, mode.name), func(b *testing.B) {
				before := written(b)
				for b.Loop() {
					b.StopTimer()
					changes := benchChanges(benchRows, row+1, mode.pick)
					row += benchRows
					state := checkpoint.State{View: changes, Journals: []*checkpoint.Journal{benchJournal(changes)}}
					b.StartTimer()
					if err := s.Save(b.Context(), key, state); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(benchRows*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
				b.ReportMetric(float64(written(b)-before)/float64(b.N)/1e6, "MB/save")
			})
		}
		b.Run(fmt.Sprintf("entities=%d/lookup", size), func(b *testing.B) {
			entities, known := make([][]byte, benchRows), []checkpoint.Known(nil)
			for b.Loop() {
				b.StopTimer()
				for i := range entities {
					entities[i] = benchEntity(rand.IntN(size))
				}
				b.StartTimer()
				var err error
				if known, err = s.Lookup(b.Context(), key, entities, known[:0]); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(benchRows*float64(b.N)/b.Elapsed().Seconds(), "entities/s")
		})
	}
}
