package shard_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"example.org/bridge/checkpoint/store"
	storememory "example.org/bridge/checkpoint/store/storetest/memory"
	"example.org/bridge/event"
	"example.org/bridge/internal/shard"
	"example.org/bridge/reconcile"
	"example.org/bridge/sink"
)

// onBus returns what is on the bus, in short: "a=Added 1" with the number of the message, or
// "a=null of 2" for a tombstone of the event of message 2.
func (b *bench) onBus(t *testing.T) (list []string) {
	t.Helper()
	ids := make(map[string]int)
	var last sink.Message
	for i, m := range b.bus.Messages(topic) {
		if i > 0 && m.State.Epoch == last.State.Epoch && m.State.Seq <= last.State.Seq {
			t.Errorf("message %d has the seq %d behind %d", i, m.State.Seq, last.State.Seq)
		}
		if m.Value == nil {
			list = append(list, fmt.Sprintf("%s=null of %d", m.Key, ids[m.ID]))
			if m.State.Kind != last.State.Kind || m.Type != last.Type || m.Domain != last.Domain || m.RowID != last.RowID {
				t.Errorf("tombstone %+v behind %+v", m, last)
			}
		} else {
			ids[m.ID] = i
			list = append(list, fmt.Sprintf("%s=%s", m.Key, strings.TrimSuffix(strings.TrimPrefix(m.Type, "Items"), "Event")))
		}
		last = m
	}
	return list
}

func (b *bench) expectOnBus(t *testing.T, want string) {
	t.Helper()
	n := len(strings.Split(want, ", "))
	eventually(t, fmt.Sprintf("%d messages, there are %v", n, b.onBus(t)), func() bool { return b.count(topic) >= n })
	if got := strings.Join(b.onBus(t), ", "); got != want {
		t.Fatalf("the bus has %s, want %s", got, want)
	}
}

func TestTombstones(t *testing.T) {
	t.Run("follow deleted events, and count as what they say", func(t *testing.T) {
		b := newViewBench(t, false)
		b.opts.Tombstones = shard.NewTombstones(nil, b.opts.Logger)
		run := func(step func(s *shard.Shard)) {
			t.Helper()
			s, stop := b.run(t)
			step(s)
			stop()
		}
		replace := func(name, value, deleted string) {
			t.Helper()
			last := b.table.Replace(name, value, deleted)
			b.saved(t, last)
		}
		run(func(*shard.Shard) { replace("a", "1", "0"); replace("b", "1", "0"); replace("a", "1", "1") })
		b.expectOnBus(t, "a=Added, b=Added, a=Deleted, a=null of 2")
		run(func(*shard.Shard) { replace("a", "2", "1"); replace("b", "1", "0") })
		// Without a store, too, nothing is told twice.
		b.store = storememory.New()
		run(func(*shard.Shard) { replace("b", "1", "0") })
		b.expectOnBus(t, "a=Added, b=Added, a=Deleted, a=null of 2")
		run(func(*shard.Shard) { replace("a", "2", "0"); replace("a", "2", "1") })
		b.expectOnBus(t, "a=Added, b=Added, a=Deleted, a=null of 2, a=Added, a=Deleted, a=null of 5")
		// In one batch: each entity is known by its last message. Offsets begin at 1.
		b.table.Replace("b", "1", "1")
		last := b.table.Replace("c", "1", "0")
		run(func(*shard.Shard) { b.saved(t, last) })
		b.expectOnBus(t, "a=Added, b=Added, a=Deleted, a=null of 2, a=Added, a=Deleted, a=null of 5, b=Deleted, b=null of 7, c=Added")
		entries, err := b.store.Lookup(t.Context(), "items", store.Asks(entity("a"), entity("b"), entity("c")), nil)
		if err != nil || entries[0].At.Offset != 7 || entries[1].At.Offset != 9 || entries[2].At.Offset != 10 {
			t.Errorf("the store has %+v, %v", entries, err)
		}
	})
	t.Run("leave the headers of the event before as they are, where the row alone is published", func(t *testing.T) {
		b := newViewBench(t, false)
		b.opts.Tombstones = shard.NewTombstones(nil, b.opts.Logger)
		b.format, b.opts.Format = event.FormatRow, sink.FormatRow
		row := b.table.Insert("a", "1", "0", now())
		s, _ := b.run(t)
		want := "a=Added"
		b.expectOnBus(t, want)
		for i, change := range []func(){
			func() { b.table.Update(row, "a", "2", "0", now()) }, func() { b.table.Update(row, "a", "2", "1", now()) },
			func() { b.table.Update(row, "a", "2", "0", now()) }, func() { b.table.Delete(row) },
		} {
			change()
			nominate(t, s, reconcile.Nomination{Entities: [][]byte{entity("a")}})
			want += []string{", a=Modified", ", a=Deleted, a=null of 2", ", a=Added", ", a=Deleted, a=null of 5"}[i]
			b.expectOnBus(t, want)
		}
		// The headers say how the events of an entity follow on one another, and why one is gone.
		previous := ""
		for i, m := range b.bus.Messages(topic) {
			reason := []string{"", "", "TOMBSTONE", "TOMBSTONE", "", "ABSENT_IN_SNAPSHOT", "ABSENT_IN_SNAPSHOT"}[i]
			if m.Bare == nil || m.Value != nil && m.Bare.Previous != previous || m.Bare.Reason != reason || m.Bare.Time == 0 {
				t.Errorf("message %d, %s: %+v, want the reason %q behind %q", i, m.Value, m.Bare, reason, previous)
			}
			previous = m.ID
		}
		if got := string(b.bus.Messages(topic)[5].Value); got != `{"name":"a"}` {
			t.Errorf("the last one is %s", got)
		}
	})
	t.Run("are on where the bus says so, at each start", func(t *testing.T) {
		var log strings.Builder
		compacted, err := false, error(nil)
		b := newViewBench(t, false)
		b.opts.Tombstones = shard.NewTombstones(func(context.Context) (bool, error) { return compacted, err }, slog.New(slog.NewTextHandler(&log, nil)))
		want := ""
		for i, c := range []struct {
			compacted bool
			err       error
			null      bool
		}{{false, nil, false}, {true, nil, true}, {true, fmt.Errorf("%w: grant it", sink.ErrHidden), false}, {false, sink.ErrHidden, false}, {true, nil, true}} {
			compacted, err = c.compacted, c.err
			_, stop := b.run(t)
			for _, deleted := range []string{"0", "1"} {
				last := b.table.Replace(fmt.Sprint("e", i), "1", deleted)
				b.saved(t, last)
			}
			stop()
			want += fmt.Sprintf("e%d=Added, e%d=Deleted, ", i, i)
			if c.null {
				want += fmt.Sprintf("e%d=null of %d, ", i, strings.Count(want, ",")-1)
			}
			b.expectOnBus(t, strings.TrimSuffix(want, ", "))
		}
		if got := strings.Count(log.String(), "without tombstones"); got != 1 || !strings.Contains(log.String(), "KAFKA_TOMBSTONES") {
			t.Errorf("the log: %s", log.String())
		}
	})
}
