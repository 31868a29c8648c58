package sinktest

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"bridge/sink"
)

// timeout bounds every wait of the suite.
const timeout = 60 * time.Second

func deadline(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), timeout, fmt.Errorf("the suite's timeout of %v is over", timeout))
	t.Cleanup(cancel)
	return ctx
}

// stamp is fixed so that a message made twice is the same.
var stamp = time.Date(2026, 1, 2, 3, 4, 5, 678e6, time.UTC)

// message makes the n-th message of a series for one key, padded to about size bytes.
func message(destination, series, key string, n, size int) sink.Message {
	id := fmt.Sprintf("%08x-0000-5000-8000-%012x", hash(series+"/"+key), n)
	head := fmt.Sprintf(`{"meta":{"id":%q},"data":{"series":%q,"n":%d,"text":"ä€😀","pad":"`, id, series, n)
	pad := max(size-len(head)-4, 0)
	return sink.Message{
		Destination: destination,
		Key:         []byte(key),
		Value:       []byte(head + strings.Repeat("x", pad) + `"},"links":[]}`),
		ID:          id,
		Type:        "SuiteAddedEvent",
		Version:     "1.0.0",
		Stream:      "suite",
		Shard:       "db." + series,
		RowID:       1<<63 + uint64(n),
		Origin:      sink.FromTail,
		Time:        stamp,
	}
}

func hash(s string) uint32 {
	h := uint32(2166136261)
	for i := range len(s) {
		h = (h ^ uint32(s[i])) * 16777619
	}
	return h
}

// batch makes n messages over several keys, round robin.
func batch(destination, series string, n, keys int) []sink.Message {
	out := make([]sink.Message, n)
	for i := range out {
		out[i] = message(destination, series, fmt.Sprintf("app+%s+%d", series, i%keys), i, 300)
	}
	return out
}

// copyOf returns messages that share no memory with batch.
func copyOf(batch []sink.Message) []sink.Message {
	out := make([]sink.Message, len(batch))
	for i, m := range batch {
		m.Key, m.Value = bytes.Clone(m.Key), bytes.Clone(m.Value)
		out[i] = m
	}
	return out
}

// mustPublish fails the test unless all of batch is acknowledged.
func mustPublish(t *testing.T, s sink.Sink, batch []sink.Message) sink.Outcome {
	t.Helper()
	out, err := s.Publish(deadline(t), batch)
	if err != nil {
		t.Fatalf("Publish: %v", err)
	}
	checkOutcome(t, out, len(batch))
	if !out.AllAcked() {
		t.Fatalf("%d of %d messages are acknowledged, rejected: %v", out.Acked(), len(batch), out.Rejected)
	}
	return out
}

// checkOutcome checks what holds for every outcome.
func checkOutcome(t *testing.T, out sink.Outcome, n int) {
	t.Helper()
	if len(out.Status) != n {
		t.Fatalf("the outcome has %d statuses for %d messages", len(out.Status), n)
	}
	rejected := 0
	for _, s := range out.Status {
		if s == sink.Rejected {
			rejected++
		}
	}
	if rejected != len(out.Rejected) {
		t.Fatalf("%d statuses say rejected, %d rejections are given", rejected, len(out.Rejected))
	}
	for i, r := range out.Rejected {
		switch {
		case r.Index < 0 || r.Index >= n || out.Status[r.Index] != sink.Rejected:
			t.Fatalf("rejection %d names message %d, which is not rejected", i, r.Index)
		case i > 0 && out.Rejected[i-1].Index >= r.Index:
			t.Fatalf("rejections are not in the order of the batch: %v", out.Rejected)
		case r.Reason == "":
			t.Fatalf("the rejection of message %d gives no reason", r.Index)
		}
	}
	tps := make(map[string]bool)
	for _, offset := range out.Offsets {
		if offset.TP == "" || tps[offset.TP] {
			t.Fatalf("offsets name a TP twice or not at all: %v", out.Offsets)
		}
		tps[offset.TP] = true
	}
}
