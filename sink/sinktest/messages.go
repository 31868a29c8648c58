package sinktest

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode"

	"bridge/sink"
)

// timeout bounds every wait of the suite.
const timeout = 5 * time.Minute

func deadline(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), timeout, fmt.Errorf("the suite's timeout of %v is over", timeout))
	t.Cleanup(cancel)
	return ctx
}

// stamp is fixed so that a message made twice is the same. It is of the last day: a real broker
// removes what is older than its retention, by default a week, also while a test reads.
var stamp = time.Now().UTC().Truncate(24 * time.Hour).Add(678 * time.Millisecond)

// message makes the n-th message of a series for one key, padded to about size bytes.
func message(destination, series, key string, n, size int) sink.Message {
	id := fmt.Sprintf("%08x-0000-5000-8000-%012x", hash(series+"/"+key), n)
	head := fmt.Sprintf(`{"meta":{"id":%q},"data":{"series":%q,"n":%d,"text":"ä€😀","pad":"`, id, series, n)
	pad := max(size-len(head)-4, 0)
	m := sink.Message{
		Destination: destination,
		Key:         []byte(key),
		Value:       []byte(head + strings.Repeat("x", pad) + `"},"links":[]}`),
		ID:          id,
		Type:        "SuiteAddedEvent",
		Version:     "1.0.0",
		Schema:      fmt.Sprintf("%012x", n/3),
		Domain:      "suite.example",
		Stream:      "suite",
		Shard:       "db." + series,
		RowID:       1<<63 + uint64(n),
		Origin:      sink.FromTail,
		Time:        stamp,
		State:       state(series, n),
	}
	switch n % 5 {
	case 1:
		m.Format = sink.FormatCloudEvents
	case 3:
		m.Format, m.Bare = sink.FormatRow, &sink.Bare{Time: stamp.UnixMilli() - int64(n)}
	case 4:
		m.Format, m.Bare = sink.FormatRow, &sink.Bare{Time: -int64(n), Previous: id, Reason: "TOMBSTONE"}
	}
	if n%3 == 2 {
		m.TraceParent = fmt.Sprintf("00-%032x-%016x-01", hash(series), n)
	}
	return m
}

// state makes the state of the n-th message of a series, every fourth of which is a dead letter.
func state(series string, n int) sink.State {
	s := sink.State{
		Epoch: uint64(stamp.UnixMilli()), Seq: uint64(n) + 1, Term: uint32(n / 100), Acked: uint32(n), Index: uint32(n % 100),
		Kind: sink.StateKind(n % 3), Floor: uint64(n % 2), Since: uint64(n % 5), Low: uint64(n % 7), Hash: hash(series),
	}
	if s.Kind == sink.StateLive {
		s.Digest = [16]byte{byte(n), byte(n >> 8), 15: 1}
	}
	if n%4 == 3 {
		s.Event, s.Key = [16]byte{1, byte(n)}, fmt.Sprintf("grün+€+ %d. ", n)
	}
	return s
}

// checkState fails the test unless the value of sink.HeaderState is the state of m: with its key
// where the bus has none.
func checkState(t testing.TB, m *sink.Message, value string, keys bool) {
	t.Helper()
	want := m.State
	if !keys && want.Key == "" {
		want.Key = string(m.Key)
	}
	got, err := sink.ParseState(value)
	if !keys && bytes.ContainsFunc(m.Key, unicode.IsControl) {
		// A header may not hold such a key, and an event has none.
		want.Key = got.Key
	}
	if err != nil || got != want {
		t.Fatalf("header %s of message %s is %q: %+v, %v\nwant %+v", sink.HeaderState, m.ID, value, got, err, want)
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
	checkAt(t, out, n)
}

// checkAt checks what holds for At and TPs of every outcome.
func checkAt(t *testing.T, out sink.Outcome, n int) {
	t.Helper()
	if len(out.At) != 0 && len(out.At) != n {
		t.Fatalf("the outcome says of %d messages where they lie, of %d", len(out.At), n)
	}
	for i, at := range out.At {
		switch {
		case out.Status[i] != sink.Acked && at != sink.At{}:
			t.Fatalf("message %d has status %d and lies at %+v", i, out.Status[i], at)
		case !at.Known && at != sink.At{}:
			t.Fatalf("message %d has no offset and lies at %+v", i, at)
		case at.Known && (at.TP < 0 || int(at.TP) >= len(out.TPs)):
			t.Fatalf("message %d lies at %+v, there are %d TPs", i, at, len(out.TPs))
		}
	}
	refs := make(map[sink.TPRef]bool)
	for _, ref := range out.TPs {
		if ref.Name == "" || refs[ref] {
			t.Fatalf("TPs name one twice or not at all: %v", out.TPs)
		}
		refs[ref] = true
	}
}
