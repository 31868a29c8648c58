package sinktest

import (
	"context"
	"testing"

	"bridge/sink"
)

// ReadBack returns the ids that catch-up would find at destinations: up to the ends that the bus
// has now. It fails the test where they cannot be read.
func ReadBack(ctx context.Context, t testing.TB, r sink.Reader, destinations []string) map[string]bool {
	t.Helper()
	tps, err := r.TPs(ctx, destinations)
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]bool)
	for _, tp := range tps {
		_, err := r.Read(ctx, sink.Span{TP: tp.Name, Incarnation: tp.Incarnation, From: tp.First, To: tp.End}, func(m *sink.Stored) error {
			found[string(m.Header(sink.HeaderID))] = true
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return found
}

// Without returns the messages of a batch that were not found.
func Without(batch []sink.Message, found map[string]bool) (left []sink.Message) {
	for _, m := range batch {
		if !found[m.ID] {
			left = append(left, m)
		}
	}
	return left
}
