package client_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/client"
	"example.org/bridge/internal/catchup"
	"example.org/bridge/sink"
	"example.org/bridge/sink/sinktest/memory"
	"example.org/bridge/tests/testall"
)

// TestATableIsWhatCatchUpReads: bridge and its consumers make the same of the same topics, whose
// entities move between them, also where messages come late.
func TestATableIsWhatCatchUpReads(t *testing.T) {
	for seed := range testall.Cases(50, 1000) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(uint64(seed), 7))
			b := newBus(memory.Options{})
			topics := []string{"a", "b", "c"}[:1+random.IntN(3)]
			w := &writer{t: t, bus: b}
			var messages []sink.Message
			for i := range 5 + random.IntN(40) {
				w.epoch, w.to = 1+uint64(i/12), topics[random.IntN(len(topics))]
				says := fmt.Sprint(random.IntN(3))
				if random.IntN(4) == 0 {
					says = ""
				}
				messages = append(messages, w.message(string(rune('a'+random.IntN(3))), says))
				if n := len(messages); n > 1 && random.IntN(6) == 0 {
					messages[n-1], messages[n-2] = messages[n-2], messages[n-1]
				}
			}
			entries, offsets := make(map[string]store.Entry), make(map[string]uint64)
			for _, m := range messages {
				w.publish(m)
				offsets[m.Destination]++
				at := store.At{TP: uint32(1 + slices.Index(topics, m.Destination)), Offset: offsets[m.Destination]}
				c := &catchup.Message{Key: m.Key, At: at, State: m.State}
				copy(c.Event[:], m.ID)
				entries[string(m.Key)], _ = catchup.Apply(entries[string(m.Key)], c)
			}
			table, err := client.NewTable(b, options(topics...))
			if err != nil {
				t.Fatal(err)
			}
			run(t, table.Run)
			<-table.Ready()
			maps.DeleteFunc(entries, func(_ string, e store.Entry) bool { return e.State != store.Live })
			var keys []string
			for e := range table.All() {
				keys = append(keys, e.Key)
			}
			slices.Sort(keys)
			if want := slices.Sorted(maps.Keys(entries)); !slices.Equal(keys, want) {
				t.Errorf("seed %d: the table has %s, catch-up has %s", seed, strings.Join(keys, " "), strings.Join(want, " "))
			}
		})
	}
}
