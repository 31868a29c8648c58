package sinktest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"example.org/bridge/client/backoff"
	"example.org/bridge/sink"
	"example.org/bridge/tests/must"
)

func arrives(t *testing.T, f Fixture) {
	h, d := begin(t, f), f.Destinations[0]
	ctx := Deadline(t)
	// Ready bounds itself: a slow bus may answer the next call.
	for err := f.Sink.Ready(ctx); err != nil; err = f.Sink.Ready(ctx) {
		if backoff.Pause(ctx, 100*time.Millisecond) != nil {
			t.Fatalf("an open sink is not ready: %v", err)
		}
	}
	for _, none := range [][]sink.Message{nil, {}} {
		if out := h.mustPublish(none); len(out.TPs) != 0 || out.Duplicates != 0 {
			t.Errorf("an empty batch has the outcome %+v", out)
		}
	}
	// Keys of all kinds that event.AppendKeyText writes: without keys they are in a header.
	var odd, large []sink.Message
	for i, key := range []string{
		"", "\x00\xff\n ä", "plain", "größe+€", "日本語+😀", "e\u0301+\u00a0", "+", "%", "100%25+%0A", " blanks ", "a.", ".", " l=1 k=x.", `"\`, "k: v",
		strings.Repeat("ü", 16_000),
	} {
		odd = append(odd, message(d, "keys", key, i, 0))
	}
	odd[0].Origin, odd[0].RowID = sink.FromReconcile, 0
	size := 200 << 10
	if f.MaxBytes > 0 {
		size = min(size, f.MaxBytes/2)
	}
	for i := range 20 {
		large = append(large, message(d, "large", "one key", i, size))
	}
	for _, batch := range [][]sink.Message{mixed(f, "arrives", 0, 1000), odd, batch(d, "many", 2500, 50), large} {
		if out := h.mustPublish(batch); out.Duplicates != 0 {
			t.Errorf("%d messages count as duplicates at their first sending", out.Duplicates)
		}
	}
	h.check()
}

func concurrent(t *testing.T, f Fixture) {
	h := begin(t, f)
	h.publishers("batches", 200, func(round int) bool { return round < 5 })
	h.publishers("singles", 1, func(round int) bool { return round < 5 })
	h.check()
}

// repeats publishes what the bus has among other messages: it is acknowledged where the first one
// lies, or stored again.
func repeats(t *testing.T, f Fixture) {
	h := begin(t, f)
	h.repeats = true
	before, between, fresh := mixed(f, "before", 0, 200), mixed(f, "between", 0, 200), mixed(f, "fresh", 0, 200)
	h.mustPublish(before)
	h.mustPublish(between)
	first := make(map[string]uint64)
	for _, l := range h.acked {
		first[l.message.ID] = l.at.Offset
	}
	known := len(h.acked)
	out := h.mustPublish(slices.Concat(before[:100], fresh[:100], between, fresh[100:], before[100:]))
	want := 0
	if f.Features.Drops {
		want = len(before) + len(between)
	}
	if out.Duplicates != want {
		t.Errorf("%d duplicates, want %d", out.Duplicates, want)
	}
	for _, l := range h.acked[known:] {
		offset, known := first[l.message.ID]
		if dropped := known && f.Features.Drops; l.at.Duplicate != dropped || dropped && l.at.Offset != offset {
			t.Errorf("message %s is acknowledged as %+v, at first at %d (%v)", l.message.ID, l.at, offset, known)
		}
	}
	h.check()
}

func again(t *testing.T, f Fixture) {
	h := begin(t, f)
	sent := mixed(f, "first", 0, 200)
	h.mustPublish(sent)
	repairs := copyOf(sent)
	for round := range 2 {
		for i := range repairs {
			repairs[i].State.Seq += 1000 * uint64(round+1)
			repairs[i].Again = true
		}
		h.mustPublish(repairs)
		// Ordinary messages go on behind them.
		h.mustPublish(mixed(f, "others", 100*round, 100))
	}
	if n := h.located(); n != 0 {
		t.Errorf("%d repairs count as duplicates", n)
	}
	if !f.Features.Drops {
		return
	}
	// Sent again, a repair is dropped like any message: as a repeat of the newest with its id.
	newest := h.acked[500:700]
	h.mustPublish(repairs)
	h.located()
	for i, l := range h.acked[800:] {
		if !l.at.Duplicate || l.at.Offset != newest[i].at.Offset {
			t.Fatalf("repair %d is acknowledged as %+v when it is sent again, at first as %+v", i, l.at, newest[i].at)
		}
	}
}

func cancelled(t *testing.T, f Fixture) {
	h := begin(t, f)
	h.repeats = true
	for round := range 6 {
		ctx, cancel := context.WithCancel(Deadline(t))
		if round == 0 {
			cancel()
		}
		moment := time.AfterFunc(time.Duration(round-1)*2*time.Millisecond, cancel)
		out, err := h.publish(ctx, batch(f.Destinations[0], fmt.Sprint("cancelled-", round), 1000, 5))
		moment.Stop()
		cancel()
		if err == nil && !out.AllAcked() || err != nil && !errors.Is(err, context.Canceled) {
			t.Fatalf("a cancelled Publish returns %v with %d acknowledged, want context.Canceled", err, out.Acked())
		}
	}
	h.mustPublish(mixed(f, "after", 0, 10))
	h.check()
}

func closed(t *testing.T, f Fixture) {
	h := begin(t, f)
	sent := mixed(f, "closed", 0, 20)
	h.mustPublish(sent[:10])
	for range 2 {
		must.OK(t, f.Sink.Close())
	}
	if out, err := f.Sink.Publish(Deadline(t), sent[10:]); !errors.Is(err, sink.ErrClosed) || len(out.Status) != 10 || out.Acked() > 0 {
		t.Errorf("a closed sink acknowledges %d messages: %v, want ErrClosed", out.Acked(), err)
	}
	h.consumed()
}

// rejected publishes, among others, a series for one key with one message in its middle that the
// bus refuses, and then what is pending.
func rejected(t *testing.T, f Fixture) {
	const first, length, bad = 150, 10, 154
	h, sent := begin(t, f), mixed(f, "others", 0, 300)
	for i := range length {
		size := 300
		if first+i == bad {
			size = f.MaxBytes + 16<<10
		}
		sent = slices.Insert(sent, first+i, message(f.Destinations[0], "rejected", "same", i, size))
	}
	for rest := sent; len(rest) > 0; {
		out, err := h.publish(Deadline(t), rest)
		if err != nil || out.Acked() == 0 && len(out.Rejected) == 0 {
			t.Fatalf("%d of %d acknowledged, none rejected: %v", out.Acked(), len(rest), err)
		}
		var pending []sink.Message
		for i, status := range out.Status {
			if status == sink.Pending {
				pending = append(pending, rest[i])
			}
			want := sink.Acked
			switch {
			case len(rest) < len(sent) || i < first || i >= first+length:
				continue
			case i == bad:
				want = sink.Rejected
			case i > bad:
				want = sink.Pending
			}
			if status != want {
				t.Errorf("message %d has status %d, want %d", i, status, want)
			}
		}
		rest = pending
	}
	h.check()
}
