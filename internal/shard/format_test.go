package shard_test

import (
	"testing"
	"time"

	"bridge/event"
	"bridge/reconcile"
	"bridge/sink"
)

// sinkFormats are the formats of messages by those of events.
var sinkFormats = map[event.Format]sink.Format{event.FormatCloudEvents: sink.FormatCloudEvents, event.FormatRow: sink.FormatRow}

// Dead letters of other formats become the same events again: where a value does not say it, the
// time of the event and the event before are told by headers.
func TestResendInOtherFormats(t *testing.T) {
	for format, of := range sinkFormats {
		for name, created := range map[string]string{"with a time of its own": "2020-01-01 00:00:00.000000", "whose time is the clock of the read": ""} {
			t.Run(string(format)+", a row "+name, func(t *testing.T) {
				b := newBench(t)
				b.format, b.opts.Format = format, of
				b.opts.DeadLetter, b.opts.GapTTL = deadTopic, time.Hour
				if created == "" {
					b.table.Insert("name")
				} else {
					b.table.Insert("name", created)
				}
				b.bus.Reject(refuseRows(1, 1))
				_, stop := b.run(t)
				eventually(t, "drained", func() bool { return b.position(t) == 1 })
				stop()
				b.bus.Reject(nil)
				s, _ := b.run(t)
				expectFates(t, resend(t, s, b.deadLetters(t), false), "same")
				dead, m := b.deadLetters(t)[0], b.bus.Messages(topic)[0]
				if m.ID != dead.Event || m.Format != of || sink.Digest(m.Value) != dead.Digest || dead.Time.IsZero() {
					t.Errorf("dead letter %+v was sent as %+v", dead, m)
				}
				if (m.Bare != nil) != (format == event.FormatRow) || m.Bare != nil && m.Bare.Time != dead.Time.UnixMilli() {
					t.Errorf("the headers say %+v of %+v", m.Bare, dead)
				}
			})
		}
	}
}

// The headers of rows say how the events of an entity follow on one another, and why one is gone.
func TestRowsFollowOnOneAnother(t *testing.T) {
	b := newViewBench(t, false)
	b.format, b.opts.Format = event.FormatRow, sink.FormatRow
	row := b.table.Insert("a", "1", "0", now())
	s, _ := b.run(t)
	eventually(t, "added", func() bool { return b.count(topic) == 1 })
	for i, change := range []func(){
		func() { b.table.Update(row, "a", "2", "0", now()) }, func() { b.table.Update(row, "a", "2", "1", now()) },
		func() { b.table.Update(row, "a", "2", "0", now()) }, func() { b.table.Delete(row) },
	} {
		change()
		if _, err := s.Nominate(t.Context(), reconcile.Nomination{Entities: [][]byte{entity("a")}}); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the change is published", func() bool { return b.count(topic) == 2+i })
	}
	previous := ""
	for i, m := range b.bus.Messages(topic) {
		want := []string{"", "", "TOMBSTONE", "", "ABSENT_IN_SNAPSHOT"}[i]
		if m.Bare == nil || m.Bare.Previous != previous || m.Bare.Reason != want || m.Bare.Time == 0 {
			t.Errorf("message %d, %s: %+v, want the reason %q behind %q", i, m.Value, m.Bare, want, previous)
		}
		previous = m.ID
	}
	if got := string(b.bus.Messages(topic)[4].Value); got != `{"name":"a"}` {
		t.Errorf("the last one is %s", got)
	}
}
