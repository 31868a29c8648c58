package view_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"strconv"
	"syscall"
	"testing"
	"time"

	"bridge/checkpoint/store"
	"bridge/checkpoint/store/memory"
	"bridge/checkpoint/store/pebble"
	"bridge/internal/view"
)

// BenchmarkBatch decides and acknowledges pages of 2,000 rows of entities that are known, of
// which a part has changed. An operation is a page.
func BenchmarkBatch(b *testing.B) {
	for _, engine := range []string{"memory", "pebble"} {
		for _, percent := range []int{0, 5, 100} {
			b.Run(fmt.Sprintf("%s/changed=%d%%", engine, percent), func(b *testing.B) {
				var s store.Store = memory.New()
				if engine == "pebble" {
					on, err := pebble.Open(b.Context(), b.TempDir()+"/store", pebble.Options{})
					if err != nil {
						b.Fatal(err)
					}
					s = on
				}
				defer s.Close()
				benchmarkBatch(b, s, percent)
			})
		}
	}
}

func benchmarkBatch(b *testing.B, s store.Store, percent int) {
	const page, entities = 2000, 100_000
	v := view.New("s", s, func(tp uint32) uint32 { return tp })
	rows := make([]view.Row, page)
	var decisions []view.Decision
	seq, event := uint64(0), [16]byte{}
	at := func(i int) (store.At, view.Stamp) {
		return store.At{TP: 1, Offset: seq + uint64(i)}, view.Stamp{Epoch: 1, Seq: seq + uint64(i)}
	}
	commit := func(changes []store.Change) error {
		return s.Apply(context.Background(), &store.Batch{Views: []store.ViewChange{{Stream: "s", Changes: changes}}})
	}
	run := func(first int, changed func(i int) bool) {
		for i := range rows {
			id := uint64((first+i)%entities + 1)
			if rows[i].Entity == nil {
				rows[i].Entity = make([]byte, 0, 64)
			}
			rows[i].ID, rows[i].Entity = id, strconv.AppendUint(rows[i].Entity[:0], id*0x9e3779b97f4a7c15|1<<63, 2)[:40]
			if rows[i].Digest = [16]byte{1}; changed(i) {
				binary.BigEndian.PutUint64(rows[i].Digest[8:], seq+uint64(i))
			}
		}
		c := v.Begin("a")
		c.Time = time.Unix(1_760_000_000, 0)
		var err error
		if decisions, err = v.Decide(b.Context(), c, rows, decisions[:0]); err != nil {
			b.Fatal(err)
		}
		for i := range decisions {
			if decisions[i].News {
				binary.BigEndian.PutUint64(event[:], seq)
				c.Publish(&decisions[i], event)
			}
		}
		if err := v.Acknowledge(c, at, commit); err != nil {
			b.Fatal(err)
		}
		seq += page
	}
	for first := 0; first < entities; first += page {
		run(first, func(int) bool { return false })
	}
	b.ReportAllocs()
	b.ResetTimer()
	began := cpu()
	for n := range b.N {
		run(n*page, func(i int) bool { return i*7%100 < percent })
	}
	b.ReportMetric(float64((cpu()-began).Microseconds())/float64(b.N*page), "cpu-µs/row")
}

// cpu returns the processor time of the process, which other processes do not change.
func cpu() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
