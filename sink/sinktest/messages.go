package sinktest

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode"

	"example.org/bridge/sink"
	"example.org/bridge/tests/must"
)

const timeout = 5 * time.Minute

// Deadline returns a context that ends with the test, or when that hangs.
func Deadline(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), timeout, fmt.Errorf("the suite's timeout of %v is over", timeout))
	t.Cleanup(cancel)
	return ctx
}

// Until waits until a condition holds, or fails the test.
func Until(t testing.TB, what string, condition func() bool) {
	t.Helper()
	must.Until(t, timeout, what, func() any {
		if condition() {
			return nil
		}
		return "it is not so"
	})
}

// stamp is fixed so that a message made twice is the same. It is of the last day: a real broker
// removes what is older than its retention, by default a week, also while a test reads.
var stamp = time.Now().UTC().Truncate(24 * time.Hour).Add(678 * time.Millisecond)

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
	case 2:
		m.Format, m.Bare = sink.FormatPayload, &sink.Bare{Content: "text/plain"[:10*(n%2)], Headers: []sink.Header{{Name: "trace_id", Value: []byte("€ " + series)}, {Name: "empty"}}}
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

// differs says what of m a consumer sees otherwise, "" for nothing.
func differs(m *sink.Message, r *Record, keys, headers bool) (fault string) {
	switch {
	case !bytes.Equal(m.Value, r.Value):
		return fmt.Sprintf("message %s has another value:\nsent %.200s\nseen %.200s", m.ID, m.Value, r.Value)
	case keys && !bytes.Equal(m.Key, r.Key):
		return fmt.Sprintf("message %s has key %q, want %q", m.ID, r.Key, m.Key)
	case !headers:
		return ""
	case r.Headers[sink.HeaderTraceParent] != m.TraceParent:
		return fmt.Sprintf("message %s is traced as %q, want %q", m.ID, r.Headers[sink.HeaderTraceParent], m.TraceParent)
	}
	new(sink.Headers).Each(m, func(name, value string) {
		got, ok := r.Headers[name]
		switch {
		case name == sink.HeaderState:
			want := m.State
			if !keys && want.Key == "" {
				want.Key = string(m.Key)
			}
			state, err := sink.ParseState(got)
			if !keys && bytes.ContainsFunc(m.Key, unicode.IsControl) {
				// A header may not hold such a key, and an event has none.
				want.Key = state.Key
			}
			if err != nil || state != want {
				fault = fmt.Sprintf("message %s has the state %q: %+v, %v\nwant %+v", m.ID, got, state, err, want)
			}
		case !ok || got != value:
			fault = fmt.Sprintf("message %s has header %s %q, want %q", m.ID, name, got, value)
		}
	})
	return fault
}

func hash(s string) uint32 {
	h := uint32(2166136261)
	for i := range len(s) {
		h = (h ^ uint32(s[i])) * 16777619
	}
	return h
}

func batch(destination, series string, n, keys int) []sink.Message {
	out := make([]sink.Message, n)
	for i := range out {
		out[i] = message(destination, series, fmt.Sprintf("app+%s+%d", series, i%keys), i, 300)
	}
	return out
}

func copyOf(batch []sink.Message) []sink.Message {
	out := make([]sink.Message, len(batch))
	for i, m := range batch {
		m.Key, m.Value = bytes.Clone(m.Key), bytes.Clone(m.Value)
		out[i] = m
	}
	return out
}

func spoil(batch []sink.Message) {
	for i := range batch {
		for _, text := range [][]byte{batch[i].Key, batch[i].Value} {
			for k := range text {
				text[k] = '?'
			}
		}
		batch[i] = sink.Message{Key: batch[i].Key, Value: batch[i].Value}
	}
}

// mixed makes messages from..from+n-1 of a series, to all destinations in turn.
func mixed(f Fixture, series string, from, n int) []sink.Message {
	out := make([]sink.Message, n)
	for i := range out {
		k := from + i
		out[i] = message(f.Destinations[k%len(f.Destinations)], series, fmt.Sprintf("app+%s+%d", series, k%40), k, 300)
	}
	return out
}

// faultOf says what is wrong with an outcome of n messages whatever became of them, "" for nothing.
func faultOf(out *sink.Outcome, n int) string {
	if len(out.Status) != n || len(out.At) != 0 && len(out.At) != n {
		return fmt.Sprintf("the outcome of %d messages has %d statuses and %d offsets", n, len(out.Status), len(out.At))
	}
	rejected := 0
	for i, s := range out.Status {
		if s == sink.Rejected {
			if rejected == len(out.Rejected) || out.Rejected[rejected].Index != i || out.Rejected[rejected].Reason == "" {
				return fmt.Sprintf("message %d is rejected, the rejections are %+v", i, out.Rejected)
			}
			rejected++
		}
	}
	if rejected != len(out.Rejected) {
		return fmt.Sprintf("%d statuses say rejected, the rejections are %+v", rejected, out.Rejected)
	}
	for i, at := range out.At {
		if at != (sink.At{}) && (out.Status[i] != sink.Acked || !at.Known || at.TP < 0 || int(at.TP) >= len(out.TPs)) {
			return fmt.Sprintf("message %d has status %d and lies at %+v of %d TPs", i, out.Status[i], at, len(out.TPs))
		}
	}
	refs := make(map[sink.TPRef]bool)
	for _, ref := range out.TPs {
		if ref.Name == "" || refs[ref] {
			return fmt.Sprintf("TPs name one twice or not at all: %v", out.TPs)
		}
		refs[ref] = true
	}
	return ""
}
