package shard

import (
	"slices"
	"time"

	"bridge/internal/tap"
	"bridge/sink"
)

// show offers the events of b, which are acknowledged, to those who listen.
func (p *publisher) show(b *batch, sent *sent) {
	now := time.Now()
	// A tombstone repeats the event before it without its value.
	events := make([]int, 0, len(b.messages))
	for i := range b.messages {
		if b.messages[i].Value != nil {
			events = append(events, i)
		}
	}
	p.opts.Tap.Offer(p.opts.Stream, len(events), func(n int) tap.Event {
		i := events[n]
		return tap.Event{Message: copyOf(&b.messages[i]), Acknowledged: now, Timed: p.opts.Timed, DeadLetter: sent.locations[i].dead != nil}
	})
}

// copyOf returns a message that refers to no memory of its batch.
func copyOf(m *sink.Message) sink.Message {
	c := *m
	c.Key, c.Value = slices.Clone(m.Key), slices.Clone(m.Value)
	if m.Bare != nil {
		bare := *m.Bare
		c.Bare = &bare
	}
	return c
}
