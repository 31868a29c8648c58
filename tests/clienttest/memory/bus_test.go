package client_test

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

	"github.com/google/uuid"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/client"
	"example.org/bridge/client/backoff"
	"example.org/bridge/internal/stream"
	"example.org/bridge/sink"
	"example.org/bridge/sink/sinktest/memory"
	"example.org/bridge/tests/testall"
)

// bus is a bus in memory. A group of it has one process for each call of Consume at most.
type bus struct {
	*memory.Sink
	mu       sync.Mutex
	progress map[string]uint64
}

func newBus(o memory.Options) *bus {
	return &bus{Sink: memory.New(o), progress: make(map[string]uint64)}
}

type reader struct{ sink.Reader }

func (reader) Close() error { return nil }

func (b *bus) Open(client.Opening) (client.Reader, error) { return reader{b.Sink}, nil }

// Consume reads each TP in a goroutine of its own, from where the group is.
func (b *bus) Consume(ctx context.Context, s client.Subscription, each func(context.Context, string, *sink.Stored) error) error {
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

func (b *bus) at(group, tp string) uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return max(b.progress[group+" "+tp], 1)
}

// writer publishes as one run of bridge does.
type writer struct {
	t     testing.TB
	bus   sink.Sink
	to    string
	epoch uint64
	seq   uint64
}

// message returns the next message about an entity; "" says that it is gone.
func (w *writer) message(key, says string) sink.Message {
	w.seq++
	m := sink.Message{
		Destination: w.to, Key: []byte(key), ID: uuid.NewSHA1(uuid.Nil, []byte(key+"="+says)).String(), Type: "OrderModifiedEvent", Version: "1.0.0",
		Domain: client.DefaultDomain, Stream: "orders", Shard: "orders_07", RowID: 7, Origin: sink.FromTail, Time: time.UnixMilli(1_772_323_207_250),
		State: sink.State{Epoch: w.epoch, Seq: w.seq, Hash: 5, Digest: [16]byte{1}},
	}
	if says == "" {
		m.Type, m.State.Kind, m.State.Digest = "OrderDeletedEvent", sink.StateAbsent, [16]byte{}
	}
	m.Value = fmt.Appendf(nil, `{"meta":{"id":%q,"type":%q,"version":"1.0.0","time":1772323207000},"data":{"says":%q},"links":[]}`, m.ID, m.Type, says)
	return m
}

func (w *writer) write(key, says string) { w.publish(w.message(key, says)) }

func (w *writer) publish(m sink.Message) {
	w.t.Helper()
	if out, err := w.bus.Publish(w.t.Context(), []sink.Message{m}); err != nil || !out.AllAcked() {
		w.t.Fatalf("publish: %+v, %v", out, err)
	}
}

func options(destinations ...string) client.Options {
	return client.Options{Stream: "orders", Destinations: destinations, RefreshEvery: time.Second, KeepFor: time.Minute, Logger: slog.New(slog.DiscardHandler)}
}

// run runs f until the test ends, or the returned function is called, and fails the test for its
// error.
func run(t *testing.T, f func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run ends with %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// contents returns what a table holds, as one text.
func contents(t *client.Table) string {
	all := make(map[string]string)
	for e := range t.All() {
		var data struct{ Says string }
		if err := e.Decode(&data); err != nil {
			return err.Error()
		}
		all[e.Key] = data.Says
	}
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(all)) {
		parts = append(parts, key+"="+all[key])
	}
	return strings.Join(parts, " ")
}

// pass lets the time of synctest pass.
func pass(t *testing.T, d time.Duration) {
	t.Helper()
	if err := backoff.Pause(t.Context(), d); err != nil {
		t.Fatal(err)
	}
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
				c := &stream.Message{Key: m.Key, At: at, State: m.State}
				copy(c.Event[:], m.ID)
				entries[string(m.Key)], _ = stream.Apply(entries[string(m.Key)], c)
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
