package sinktest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"bridge/internal/backoff"
	"bridge/sink"
)

func arrives(t *testing.T, f Fixture) {
	var sent []sink.Message
	for i, d := range f.Destinations {
		sent = append(sent, batch(d, fmt.Sprintf("arrives-%d", i), 500, 7)...)
	}
	odd := message(f.Destinations[0], "odd", "", 1, 0)
	odd.Origin, odd.RowID = sink.FromReconcile, 0
	sent = append(sent, odd, message(f.Destinations[0], "odd", "\x00\xff\n ä", 1, 0))
	if out := mustPublish(t, f.Sink, sent); out.Duplicates != 0 {
		t.Errorf("%d messages count as duplicates at their first sending", out.Duplicates)
	}
	judge{fixture: f}.check(t, sent)
}

// keys publishes keys of all kinds that event.AppendKeyText writes. On a bus without keys they are
// in a header.
func keys(t *testing.T, f Fixture) {
	var sent []sink.Message
	for i, key := range []string{
		"plain", "größe+€", "日本語+😀", "e\u0301+\u00a0", "+", "%", "100%25+%0A", " blanks ", "a.", ".", " l=1 k=x.", `"\`, "k: v", strings.Repeat("ü", 16_000),
	} {
		sent = append(sent, message(f.Destinations[0], "keys", key, i, 0))
	}
	mustPublish(t, f.Sink, sent)
	judge{fixture: f}.check(t, sent)
}

func empty(t *testing.T, f Fixture) {
	for _, none := range [][]sink.Message{nil, {}} {
		if out := mustPublish(t, f.Sink, none); len(out.TPs) != 0 || out.Duplicates != 0 {
			t.Errorf("an empty batch has the outcome %+v", out)
		}
	}
	judge{fixture: f}.check(t, nil)
}

func concurrent(t *testing.T, f Fixture) {
	const workers, rounds = 4, 5
	ctx := deadline(t)
	series := make([][]sink.Message, workers)
	var wg sync.WaitGroup
	for w := range workers {
		d := f.Destinations[w%len(f.Destinations)]
		series[w] = batch(d, fmt.Sprintf("concurrent-%d", w), 100*rounds, 3)
		wg.Go(func() {
			for r := range rounds {
				part := series[w][100*r : 100*(r+1)]
				out, err := f.Sink.Publish(ctx, part)
				if err != nil || len(out.Status) != len(part) || !out.AllAcked() {
					t.Errorf("worker %d: %d of %d acknowledged: %v", w, out.Acked(), len(part), err)
					return
				}
			}
		})
	}
	wg.Wait()
	var sent []sink.Message
	for _, s := range series {
		sent = append(sent, s...)
	}
	judge{fixture: f}.check(t, sent)
}

func large(t *testing.T, f Fixture) {
	sent := batch(f.Destinations[0], "large", 5000, 50)
	size := 200 << 10
	if f.MaxBytes > 0 {
		size = min(size, f.MaxBytes/2)
	}
	for i := range 20 {
		sent = append(sent, message(f.Destinations[0], "large-values", "one key", i, size))
	}
	mustPublish(t, f.Sink, sent)
	judge{fixture: f}.check(t, sent)
}

func notRetained(t *testing.T, f Fixture) {
	var sent []sink.Message
	buffer := batch(f.Destinations[0], "retained", 200, 3)
	for round := range 3 {
		fresh := batch(f.Destinations[0], fmt.Sprintf("retained-%d", round), 200, 3)
		sent = append(sent, fresh...)
		overwrite(buffer, fresh)
		mustPublish(t, f.Sink, buffer)
		spoil(buffer)
	}
	judge{fixture: f}.check(t, sent)
}

// overwrite puts from into the memory of to.
func overwrite(to, from []sink.Message) {
	for i := range to {
		key, value := append(to[i].Key[:0], from[i].Key...), append(to[i].Value[:0], from[i].Value...)
		to[i] = from[i]
		to[i].Key, to[i].Value = key, value
	}
}

// spoil fills the memory of batch with what belongs to no message.
func spoil(batch []sink.Message) {
	for i := range batch {
		for k := range batch[i].Key {
			batch[i].Key[k] = '?'
		}
		for k := range batch[i].Value {
			batch[i].Value[k] = '?'
		}
		batch[i] = sink.Message{Key: batch[i].Key, Value: batch[i].Value}
	}
}

func repeated(t *testing.T, f Fixture) {
	sent := batch(f.Destinations[0], "repeated", 50, 3)
	mustPublish(t, f.Sink, copyOf(sent))
	mustPublish(t, f.Sink, copyOf(sent))
	judge{fixture: f, repeats: true}.check(t, sent)
}

func cancelled(t *testing.T, f Fixture) {
	ctx, cancel := context.WithCancel(deadline(t))
	cancel()
	first := batch(f.Destinations[0], "cancelled-before", 10, 1)
	maybe := pendingAfter(t, f.Sink, ctx, first)
	sent := first

	for round := range 5 {
		part := batch(f.Destinations[0], fmt.Sprintf("cancelled-%d", round), 2000, 5)
		ctx, cancel := context.WithCancel(deadline(t))
		moment := time.AfterFunc(time.Duration(round)*2*time.Millisecond, cancel)
		for id := range pendingAfter(t, f.Sink, ctx, part) {
			maybe[id] = true
		}
		moment.Stop()
		cancel()
		sent = append(sent, part...)
	}
	judge{fixture: f, repeats: true, maybe: maybe}.check(t, sent)
}

// pendingAfter publishes under a ctx that is cancelled at some moment and returns the ids that were
// left pending.
func pendingAfter(t *testing.T, s sink.Sink, ctx context.Context, batch []sink.Message) map[string]bool {
	t.Helper()
	out, err := s.Publish(ctx, copyOf(batch))
	checkOutcome(t, out, len(batch))
	if err == nil && !out.AllAcked() {
		t.Fatalf("Publish returns no error with %d of %d acknowledged", out.Acked(), len(batch))
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		t.Fatalf("a cancelled Publish returns %v, want context.Canceled", err)
	}
	pending := make(map[string]bool)
	for i, status := range out.Status {
		if status != sink.Acked {
			pending[batch[i].ID] = true
		}
	}
	return pending
}

func closed(t *testing.T, f Fixture) {
	sent := batch(f.Destinations[0], "closed-before", 10, 2)
	mustPublish(t, f.Sink, sent)
	for range 2 {
		if err := f.Sink.Close(); err != nil {
			t.Fatalf("Close: %v", err)
		}
	}
	out, err := f.Sink.Publish(deadline(t), batch(f.Destinations[0], "closed-after", 10, 2))
	if !errors.Is(err, sink.ErrClosed) {
		t.Errorf("Publish on a closed sink returns %v, want ErrClosed", err)
	}
	checkOutcome(t, out, 10)
	if out.Acked() != 0 {
		t.Errorf("a closed sink acknowledges %d messages", out.Acked())
	}
	judge{fixture: f}.check(t, sent)
}

func ready(t *testing.T, f Fixture) {
	ctx := deadline(t)
	// Ready bounds itself: a slow bus may answer the next call.
	for err := f.Sink.Ready(ctx); err != nil; err = f.Sink.Ready(ctx) {
		if backoff.Pause(ctx, 100*time.Millisecond) != nil {
			t.Fatalf("Ready: %v", err)
		}
	}
}
