package clienttest_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/client"
	"example.org/bridge/client/backoff"
	"example.org/bridge/internal/stream"
	"example.org/bridge/sink"
	"example.org/bridge/sink/sinktest/memory"
	"example.org/bridge/tests/clienttest"
	"example.org/bridge/tests/must"
	"example.org/bridge/tests/testall"
)

// A group of it has one process for each call of Consume at most.
type memoryBus struct {
	*memory.Sink
	mu       sync.Mutex
	progress map[string]uint64
	// away says that it does not tell its TPs, thinned that these begin where they once did.
	away, thinned bool
}

func newBus(o memory.Options) *memoryBus {
	return &memoryBus{Sink: memory.New(o), progress: make(map[string]uint64)}
}

type reader struct{ sink.Reader }

func (reader) Close() error { return nil }

func (b *memoryBus) Open(client.Opening) (client.Reader, error) { return reader{b}, nil }

func (b *memoryBus) TPs(ctx context.Context, destinations []string) ([]sink.TP, error) {
	tps, err := b.Sink.TPs(ctx, destinations)
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range tps {
		if b.thinned {
			tps[i].First, tps[i].Expired, tps[i].Thinned = 1, false, true
		}
	}
	if b.away {
		return nil, errors.New("it is away")
	}
	return tps, err
}

// Consume reads each TP in a goroutine of its own, from where the group is.
func (b *memoryBus) Consume(ctx context.Context, s client.Subscription, each func(context.Context, string, *sink.Stored) error) error {
	tps, err := b.TPs(ctx, s.Destinations)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var running sync.WaitGroup
	for _, tp := range tps {
		running.Go(func() {
			_, err := b.Read(ctx, sink.Span{TP: tp.Name, From: b.at(s.Group, tp.Name), To: sink.NoEnd}, func(m *sink.Stored) error {
				if err := each(ctx, tp.Name, m); err != nil {
					return err
				}
				b.mu.Lock()
				defer b.mu.Unlock()
				b.progress[s.Group+" "+tp.Name] = m.Offset + 1
				return nil
			})
			cancel(err)
		})
	}
	running.Wait()
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

func (b *memoryBus) at(group, tp string) uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return max(b.progress[group+" "+tp], 1)
}

type writer struct{ *clienttest.Writer }

func newWriter(t testing.TB, b *memoryBus, to string, epoch uint64) *writer {
	return &writer{clienttest.NewWriter(t, b, to, epoch)}
}

// message returns the next message about an entity; "" says that it is gone.
func (w *writer) message(key, says string) sink.Message {
	m := w.Message(key, says, says == "")
	m.RowID = 7
	return m
}

func (w *writer) write(key, says string) { w.Publish(w.message(key, says)) }

func options(destinations ...string) client.Options {
	return client.Options{Stream: "orders", Destinations: destinations, RefreshEvery: time.Second, KeepFor: time.Minute, Logger: slog.New(slog.DiscardHandler)}
}

func contents(t *client.Table) string {
	all := clienttest.Says(t)
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(all)) {
		parts = append(parts, key+"="+all[key])
	}
	return strings.Join(parts, " ")
}

func pass(t *testing.T, d time.Duration) {
	t.Helper()
	must.OK(t, backoff.Pause(t.Context(), d))
	synctest.Wait()
}

// TestATableIsWhatCatchUpReads: bridge and its consumers make the same of the same topics, whose
// entities move between them, also where messages come late.
func TestATableIsWhatCatchUpReads(t *testing.T) {
	for seed := range testall.Cases(50, 1000) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(uint64(seed), 7))
			b := newBus(memory.Options{})
			topics := []string{"a", "b", "c"}[:1+random.IntN(3)]
			w := newWriter(t, b, "", 0)
			var messages []sink.Message
			for i := range 5 + random.IntN(40) {
				w.Epoch, w.Destination = 1+uint64(i/12), topics[random.IntN(len(topics))]
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
				w.Publish(m)
				offsets[m.Destination]++
				at := store.At{TP: uint32(1 + slices.Index(topics, m.Destination)), Offset: offsets[m.Destination]}
				c := &stream.Message{Key: m.Key, At: at, State: m.State}
				copy(c.Event[:], m.ID)
				entries[string(m.Key)], _ = stream.Apply(entries[string(m.Key)], c)
			}
			table := must.Get(client.NewTable(b, options(topics...)))(t)
			clienttest.Start(t, table.Run)
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
