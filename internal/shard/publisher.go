package shard

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/event"
	"example.org/bridge/internal/panics"
	"example.org/bridge/internal/stream"
	"example.org/bridge/internal/tap"
	"example.org/bridge/internal/tracing"
	"example.org/bridge/sink"
	"example.org/bridge/source"
)

// publisher publishes the batches of a shard one after the other, and commits each once the bus has
// acknowledged all of it.
type publisher struct {
	opts    *Options
	status  *tracker
	retrier *retrier
	sender  *sender
	stamper *stamper
	epoch   *stream.Epoch
	// facts, acked and order are used again and again: what a batch has put on the bus, and where.
	facts []stream.Message
	acked []stream.Span
	order []int
}

// run publishes b, which it gives back. The error says why the shard cannot go on.
func (p *publisher) run(ctx context.Context, b *batch) error {
	defer p.status.idle(publishing)
	p.status.heartbeat(publishing)
	held := b.held
	b.held = hold{}
	// Also where what is below panics.
	defer p.opts.Limits.release(&held)
	if err := p.publish(ctx, b); err != nil {
		b.discard(p.opts)
		return err
	}
	b.recycle()
	p.status.hand(time.Time{}, time.Time{})
	return nil
}

// publish sends b until all of it is acknowledged or put aside as a dead letter, and commits that.
// Of a batch that is given up in the middle nothing is committed: the error is an unresolvedError,
// and the bus is read before the next batch. It wraps stream.ErrReadBack where the shard goes on
// by itself; any other stops the shard.
func (p *publisher) publish(ctx context.Context, b *batch) error {
	if len(b.messages) == 0 {
		return p.record(ctx, b, 0, nil)
	}
	if p.opts.Heard != nil {
		if err := p.retrier.wait(publishing, forEver, func() error { return p.opts.Heard(ctx) }); err != nil {
			return err
		}
	}
	first := p.stamper.stamp(p.epoch, b)
	p.opts.Committer.Sending(p.opts.Stream, first, uint64(len(b.messages)))
	// However this ends: readers wait for the outcome.
	defer p.opts.Committer.Unknown(first)
	started := time.Now()
	traces := p.opts.Tracer != nil
	var traced tracing.Span
	if traces {
		traced = p.trace(b)
	}
	sent, err := p.sender.sendAll(ctx, b)
	if err == nil && sent.unknown {
		err = stream.ErrReadBack
	}
	if traces {
		traced.End(err)
	}
	if err != nil {
		return &unresolvedError{err}
	}
	p.opts.Metrics.publish.WithLabelValues(p.opts.Stream).Observe(time.Since(started).Seconds())
	// Those that it has dropped as repeats have other stamps there.
	p.stamper.acked, p.stamper.doubt = p.stamper.acked+uint32(len(b.messages)), sent.repeated
	// Invariant 1: what the bus has acknowledged is committed, and nothing else.
	if err := p.record(ctx, b, first, sent); err != nil {
		return &unresolvedError{err}
	}
	if p.opts.Tap.Listened() {
		p.show(b, sent)
	}
	return nil
}

// trace begins the span of b, whose messages continue it.
func (p *publisher) trace(b *batch) tracing.Span {
	n := len(b.messages)
	read := b.read
	if read.asked.IsZero() {
		read = span{b.made, b.made}
	}
	s := p.opts.Tracer.Begin(tracing.Batch{
		Stream: p.opts.Stream, Shard: p.opts.Name, Rows: n, Bytes: len(b.buf),
		First: b.messages[0].RowID, Last: b.messages[n-1].RowID, Asked: read.asked, Got: read.got,
	})
	parent := s.Parent()
	for i := range b.messages {
		b.messages[i].TraceParent = parent
	}
	return s
}

// unresolvedError is the error of a shard of whose last batch the bus may have messages that the
// store does not know of: they are read before the shard goes on (rule 9).
type unresolvedError struct{ error }

func (e *unresolvedError) Unwrap() error { return e.error }

// stamper puts on messages what catch-up reads of them: who sent them, in which order, and how many
// of the shard the bus had acknowledged before (rule 1 of decision 17). It outlives the
// attempts to run a shard, and belongs to the publisher.
type stamper struct {
	opts *Options
	// term is the present term, acked counts the messages of the batches that were acknowledged in
	// it, batch those of the batch that was stamped last.
	term, acked uint32
	// doubt says that the next batch begins a term: of the last one a part may be missing on the
	// bus, or be there with another stamp, or the bus has lost messages.
	doubt bool
	// losses is that of the epoch at the last batch.
	losses uint64
}

// stamp stamps the messages of b, which are about to be handed to the sink for the first time, and
// returns the first of their seqs. Messages that are sent again later keep their stamps.
func (s *stamper) stamp(epoch *stream.Epoch, b *batch) (first uint64) {
	n := len(b.messages)
	if losses := epoch.Losses(); losses != s.losses {
		s.losses, s.doubt = losses, true
	}
	if s.doubt || uint64(s.acked)+uint64(n) > math.MaxUint32 {
		s.term++
		s.acked = 0
	}
	// A publish that ends in a panic is a doubt, too.
	s.doubt = true
	first = epoch.Next(n)
	for i := range b.messages {
		m := &b.messages[i]
		m.Domain = s.opts.Domain
		m.State = sink.State{
			Epoch: epoch.Number(), Seq: first + uint64(i), Term: s.term, Acked: s.acked, Index: uint32(i),
			Kind: m.State.Kind, Digest: m.State.Digest, Floor: b.floor, Since: b.since, Low: b.low, Hash: s.opts.Hash,
		}
	}
	for _, i := range b.repairs {
		b.messages[i].Again = true
	}
	return first
}

func stateOf(e *event.Event) sink.State {
	switch {
	case e.Op != event.Deleted:
		return sink.State{Digest: e.Digest}
	case e.Digest == [16]byte{}:
		return sink.State{Kind: sink.StateAbsent}
	}
	return sink.State{Kind: sink.StateTombstone}
}

// record commits b, whose messages are sent, with progress, view and offsets at once; first is the
// first of their seqs. An error says that nothing was committed. What is not a matter of outcome
// (stream.ErrReadBack) or of ctx is that of a store that is broken.
func (p *publisher) record(ctx context.Context, b *batch, first uint64, sent *sent) error {
	began := time.Now()
	p.status.saves(began)
	defer p.status.saves(time.Time{})
	if b.schema != nil {
		schema := *b.schema
		schema.Epoch, schema.Seq = b.messages[0].State.Epoch, b.messages[0].State.Seq
		b.brings.Parts = append(b.brings.Parts, store.Part{Kind: store.SchemaPart, Bytes: store.AppendSchema(nil, &schema)})
	}
	facts, cover := p.factsOf(b, sent), stream.Cover{First: first, Acked: p.spans(b, sent)}
	err := p.retrier.writeStore(ctx, publishing, func() error {
		return p.opts.Feed.Apply(ctx, facts, &b.brings, cover)
	})
	p.opts.Metrics.saves.WithLabelValues(p.opts.Stream).Observe(time.Since(began).Seconds())
	if err != nil {
		damaged := p.opts.damaged(err)
		if ctx.Err() != nil || errors.Is(err, stream.ErrReadBack) || errors.Is(damaged, source.ErrUnfit) {
			return damaged
		}
		return &storeError{err}
	}
	b.claims = nil
	rows, late := 0, max(0, b.brings.Found-b.skipped)
	if sent != nil {
		rows = sent.rows
	}
	p.status.saved(b.last, rows, late)
	p.opts.Metrics.late.WithLabelValues(p.opts.Stream).Add(float64(late))
	return nil
}

// storeError is the error of a store that cannot be used any more.
type storeError struct{ error }

func (e *storeError) Unwrap() error { return e.error }

// factsOf returns the messages of b as a reader would find them on the bus, none of a release
// stream: what the batch brings says all of their rows.
func (p *publisher) factsOf(b *batch, s *sent) []stream.Message {
	p.facts = p.facts[:0]
	if b.claims == nil {
		return nil
	}
	for i := range b.messages {
		m, at := &b.messages[i], &s.locations[i]
		fact := stream.Message{
			State: m.State, Stream: m.Stream, Shard: m.Shard, Row: m.RowID, Origin: m.Origin, Key: m.Key, Time: m.Time, At: at.at, Dead: at.dead != nil,
		}
		if fact.At.TP == 0 {
			// Not registered yet: an offset of no TP says nothing (rule 6).
			fact.At = store.At{}
		}
		fact.State.Epoch, fact.State.Seq = at.epoch, at.seq
		// The encoder has made it.
		fact.Event, _ = event.ParseID(m.ID)
		p.facts = append(p.facts, fact)
	}
	return p.facts
}

// spans returns the runs of messages of b that lie one behind the other in a TP.
func (p *publisher) spans(b *batch, s *sent) []stream.Span {
	p.acked, p.order = p.acked[:0], p.order[:0]
	if s == nil {
		return nil
	}
	for i := range s.locations {
		if s.locations[i].covered {
			p.order = append(p.order, i)
		}
	}
	locations := s.locations
	slices.SortFunc(p.order, func(a, b int) int {
		return cmp.Or(cmp.Compare(locations[a].at.TP, locations[b].at.TP), cmp.Compare(locations[a].at.Offset, locations[b].at.Offset))
	})
	for n, i := range p.order {
		at := locations[i].at
		if k := len(p.acked) - 1; k >= 0 && p.acked[k].TP == at.TP && p.acked[k].Range.To == at.Offset {
			p.acked[k].Range.To++
		} else {
			p.acked = append(p.acked, stream.Span{TP: at.TP, Range: stream.Range{From: at.Offset, To: at.Offset + 1}, Marker: locations[i].marker})
		}
		if n == len(p.order)-1 || locations[p.order[n+1]].at != (store.At{TP: at.TP, Offset: at.Offset + 1}) {
			p.acked[len(p.acked)-1].Range.Last = store.Anchor{Offset: at.Offset, Hash: hashAt(b, s, i)}
		}
	}
	return p.acked
}

// hashAt returns the hash of the anchor at message i of b, 0 where its id is none of bridge.
func hashAt(b *batch, s *sent, i int) uint64 {
	m, key := &b.messages[i], b.messages[i].Key
	if dead := s.locations[i].dead; dead != nil {
		if m = dead; m.State.Key == "" {
			key = m.Key
		}
	}
	id, err := event.ParseID(m.ID)
	if err != nil {
		return 0
	}
	return stream.HashMessage(key, id, m.State.Epoch, m.State.Seq)
}

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
		bare.Headers = nil // of the batch
		c.Bare = &bare
	}
	return c
}

// pipe leads the batches of an attempt to the publisher, one at a time: entities of the next one
// are decided about, and gaps looked for, once the store has the one before. So all that is decided
// is decided by what the store has. Meanwhile a page is read, and a release shard encodes
// its rows: a slow bus slows reading down.
type pipe struct {
	// publish publishes and commits a batch; its error goes to fail.
	publish func(*batch) error
	fail    func(error)
	// publishing is the batch on its way, failed the error of the last one.
	publishing sync.WaitGroup
	failed     error
	// stored has an element once the batch on its way is committed; busy says that there is one,
	// sent counts all.
	stored chan struct{}
	busy   bool
	sent   uint64
	// at is when the last one was sent.
	at      time.Time
	retrier *retrier
}

// open begins to lead batches, none of which is on its way.
func (p *pipe) open(publish func(*batch) error, fail func(error)) {
	p.publish, p.fail, p.failed = publish, fail, nil
	p.stored, p.busy = make(chan struct{}, 1), false
}

// close waits for the batch on its way, and returns why that was not stored.
func (p *pipe) close() error {
	p.publishing.Wait()
	return p.failed
}

// send has a batch be published, while the owner goes on.
func (p *pipe) send(b *batch) {
	p.busy, p.sent, p.at = true, p.sent+1, time.Now()
	p.publishing.Go(func() {
		if p.failed = panics.Guard(func() error { return p.publish(b) }); p.failed != nil {
			p.fail(p.failed)
			return
		}
		p.stored <- struct{}{}
	})
}

// wait returns once the store has the batch on its way, or with the cause why ctx ended.
func (p *pipe) wait(ctx context.Context) error {
	_, err := p.waitFor(ctx, forEver)
	return err
}

// waitFor is wait for up to a time. It reports whether nothing is on its way any more.
func (p *pipe) waitFor(ctx context.Context, limit time.Duration) (stored bool, err error) {
	if p == nil || !p.busy {
		return true, nil
	}
	end := time.NewTimer(limit)
	defer end.Stop()
	err = p.retrier.wait(owning, forEver, func() error {
		select {
		case <-p.stored:
			p.busy, stored = false, true
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-end.C:
		}
		return nil
	})
	return stored, err
}
