package shard

import (
	"math"

	"bridge/event"
	"bridge/internal/catchup"
	"bridge/sink"
)

// stamper puts on messages what catch-up reads of them: who sent them, in which order, and how many
// of the shard the bus had acknowledged before (decision 18, "The headers"). It outlives the
// attempts to run a shard, and belongs to the publisher.
type stamper struct {
	opts *Options
	// term is the present term, acked counts the messages of the batches that were acknowledged in
	// it, batch those of the batch that was stamped last.
	term, acked uint32
	batch       int
	// doubt says that the next batch begins a term: of the last one a part may be missing on the
	// bus, or be there with another stamp, or the bus has lost messages.
	doubt bool
	// losses is that of the epoch at the last batch.
	losses uint64
}

// stamp stamps the messages of b, which are about to be handed to the sink for the first time, and
// returns the first of their seqs. Messages that are sent again later keep their stamps.
func (s *stamper) stamp(epoch *catchup.Epoch, b *batch) (first uint64) {
	n := len(b.messages)
	if losses := epoch.Losses(); losses != s.losses {
		s.losses, s.doubt = losses, true
	}
	if s.doubt || uint64(s.acked)+uint64(n) > math.MaxUint32 {
		s.term++
		s.acked = 0
	}
	// A publish that ends in a panic is a doubt, too.
	s.doubt, s.batch = true, n
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

// acknowledge notes that all messages of the batch are on the bus, or their dead letters. repeated
// says that the bus has dropped some as repeats: those that it holds instead have other stamps.
func (s *stamper) acknowledge(repeated bool) {
	s.acked += uint32(s.batch)
	s.doubt = repeated
}

// stateOf is what the message of an event says of its entity.
func stateOf(e *event.Event) sink.State {
	switch {
	case e.Op != event.Deleted:
		return sink.State{Digest: e.Digest}
	case e.Digest == [16]byte{}:
		return sink.State{Kind: sink.StateAbsent}
	}
	return sink.State{Kind: sink.StateTombstone}
}
