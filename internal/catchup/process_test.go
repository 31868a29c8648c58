package catchup_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"

	"bridge/checkpoint/store"
	"bridge/internal/catchup"
	"bridge/sink"
)

// process is one run of the program.
type process struct {
	w         *world
	disk      *disk
	committer *catchup.Committer
	c         *catchup.CatchUp
	feeds     map[string]*toy
	batches   []*batch
	claimed   map[entity]bool
	// resolving has the streams that may not publish.
	resolving map[string]int
	resolved  chan string
	cancel    context.CancelCauseFunc
	// alive returns an error once it is killed, resolve and register are those of CatchUp.
	alive    func() error
	resolve  func(stream string) error
	register func(stream string, tp sink.TPRef) (uint32, error)
	done     chan error
	over     atomic.Bool
	// turn is closed when it is elected; nil where it does not wait for that.
	turn chan struct{}
}

// waits reports whether the process is not elected yet.
func (p *process) waits() bool {
	select {
	case <-p.turn:
		return false
	default:
		return p.turn != nil
	}
}

func (p *process) elect() {
	if p.waits() {
		p.w.note("elected")
		close(p.turn)
	}
}

func (p *process) step(ctx context.Context) {
	name := p.w.streams[p.w.rng.IntN(2)]
	if p.waits() && p.w.rng.IntN(4) == 0 && len(p.w.running) == 1 {
		p.elect()
	}
	p.drainResolved()
	if p.over.Load() || p.c.Epoch() == nil || p.resolving[name] > 0 || p.stopped(name) != nil || !p.isReady(name) {
		return
	}
	switch n := p.w.rng.IntN(10); {
	case n < 4:
		p.publish(ctx, name, p.due(name))
	case n < 8:
		for _, b := range slices.Clone(p.batches) {
			p.acknowledge(ctx, b)
		}
	case n == 8 && len(p.batches) > 0 && p.w.cuts:
		p.cut(p.batches[p.w.rng.IntN(len(p.batches))])
	default:
		_ = p.committer.Sync(ctx, &store.Batch{})
	}
}

func (p *process) isReady(name string) bool {
	for _, s := range p.c.Progress().Streams {
		if s.Stream == name {
			return s.Ready
		}
	}
	return false
}

// due returns what a stream has to decide.
func (p *process) due(name string) (keys []string) {
	for e := range p.w.dirty {
		if e.stream == name {
			keys = append(keys, e.key)
		}
	}
	keys = append(keys, p.feeds[name].waiting()...)
	slices.Sort(keys)
	return slices.Compact(keys)
}

// publish decides entities and hands what is news to the bus.
func (p *process) publish(ctx context.Context, name string, keys []string) {
	f := p.feeds[name]
	b := &batch{stream: name}
	var news []said
	for _, key := range keys {
		e := entity{name, key}
		if p.claimed[e] {
			continue
		}
		entry, err := f.entry(ctx, key)
		if err != nil {
			return
		}
		truth := p.w.truth[e]
		published := byte(0)
		if entry.State == store.Live {
			published = entry.Digest[0]
		}
		if published == truth && !entry.Disputed {
			p.w.note("%v needs nothing: %d/%d at %v", e, entry.Epoch, entry.Seq, entry.At)
			delete(p.w.dirty, e)
			f.decided(key)
			continue
		}
		p.claimed[e] = true
		news = append(news, said{stream: name, shard: "a", key: key, row: 1, digest: truth, hash: 9})
	}
	if len(news) == 0 {
		return
	}
	p.send(b, news)
}

func (p *process) send(b *batch, news []said) {
	epoch := p.c.Epoch()
	b.first = epoch.Next(len(news))
	p.committer.Sending(b.first, uint64(len(news)))
	if p.w.mutant == inFlightIgnored {
		p.committer.Unknown(b.first)
	}
	for i := range news {
		m := &news[i]
		m.epoch, m.seq = epoch.Number(), b.first+uint64(i)
		tp := worldTPs[int(m.key[1])%len(worldTPs)]
		if p.w.moving {
			tp = worldTPs[p.w.rng.IntN(len(worldTPs))]
		}
		j := slices.IndexFunc(b.requests, func(r *request) bool { return r.tp == tp })
		if j < 0 {
			b.requests = append(b.requests, &request{by: p, b: b, tp: tp})
			j = len(b.requests) - 1
		}
		b.requests[j].messages = append(b.requests[j].messages, *m)
	}
	p.batches = append(p.batches, b)
	p.w.net = append(p.w.net, b.requests...)
}

// acknowledge ends a batch whose requests have all arrived.
func (p *process) acknowledge(ctx context.Context, b *batch) {
	if slices.ContainsFunc(b.requests, func(r *request) bool { return !r.arrived }) {
		return
	}
	if slices.ContainsFunc(b.requests, func(r *request) bool { return r.lost }) {
		p.cut(b)
		return
	}
	f := p.feeds[b.stream]
	var acks []catchup.Ack
	var messages []catchup.Message
	for _, r := range b.requests {
		ref := sink.TPRef{Name: r.tp, Incarnation: r.incarnation}
		tp := p.committer.Number(b.stream, ref)
		if tp == 0 {
			var err error
			if tp, err = p.register(b.stream, ref); err != nil {
				p.cut(b)
				return
			}
		}
		last := r.messages[len(r.messages)-1]
		to := r.offset + uint64(len(r.messages))
		acks = append(acks, catchup.Ack{TP: tp, Range: catchup.Range{From: r.offset, To: to,
			Last: store.Anchor{Offset: to - 1, Hash: catchup.HashMessage([]byte(last.key), last.event(), last.epoch, last.seq)}}})
		for i := range r.messages {
			at := store.At{TP: tp, Offset: r.offset + uint64(i)}
			if tp == 0 {
				at.Offset = 0
			}
			messages = append(messages, r.messages[i].message(at))
		}
	}
	f.mu.Lock()
	changes, err := f.changes(ctx, messages)
	if err == nil {
		err = p.committer.Acknowledged(ctx, b.first, acks, changes)
	}
	f.mu.Unlock()
	if errors.Is(err, catchup.ErrReadBack) && !p.w.rough {
		p.w.fault("nothing was lost, and an acknowledgement is of an unknown outcome: %v", err)
	}
	if err != nil {
		p.cut(b)
		return
	}
	p.w.note("acknowledged %d", b.first)
	p.release(b, func(m *said) {
		e := entity{b.stream, m.key}
		if p.w.truth[e] != m.digest {
			p.w.dirty[e] = true
			return
		}
		delete(p.w.dirty, e)
		f.decided(m.key)
	})
}

func (m *said) message(at store.At) catchup.Message {
	state := sink.State{Epoch: m.epoch, Seq: m.seq, Digest: [16]byte{m.digest}, Hash: m.hash}
	if m.digest == 0 {
		state.Kind, state.Digest = sink.StateAbsent, [16]byte{}
	}
	return catchup.Message{State: state, Stream: m.stream, Shard: m.shard, Row: m.row, Origin: sink.FromTail, Key: []byte(m.key), Event: m.event(), Time: published, At: at}
}

// release ends the claims of a batch.
func (p *process) release(b *batch, each func(*said)) {
	p.batches = slices.DeleteFunc(p.batches, func(o *batch) bool { return o == b })
	for _, r := range b.requests {
		for i := range r.messages {
			delete(p.claimed, entity{b.stream, r.messages[i].key})
			each(&r.messages[i])
		}
	}
}

// cut gives a batch up: its requests may arrive all the same.
func (p *process) cut(b *batch) {
	p.committer.Unknown(b.first)
	p.w.note("cut %d", b.first)
	p.w.reconcile = true
	p.release(b, func(*said) {})
	p.resolving[b.stream]++
	go func() {
		if err := p.resolve(b.stream); err != nil {
			if !errors.Is(err, catchup.ErrSuperseded) {
				p.cancel(err)
			}
			return
		}
		p.resolved <- b.stream
	}()
}

func (p *process) drainResolved() {
	for {
		select {
		case name := <-p.resolved:
			p.resolving[name]--
		default:
			return
		}
	}
}

// drain ends what is in flight and decides what is due; in a rough world, and where a reconcile is
// due, every entity.
func (p *process) drain(ctx context.Context) {
	p.drainResolved()
	for _, b := range slices.Clone(p.batches) {
		p.acknowledge(ctx, b)
	}
	for _, name := range p.w.streams {
		if p.over.Load() || p.c.Epoch() == nil || !p.isReady(name) || p.resolving[name] > 0 {
			continue
		}
		keys := p.due(name)
		if p.w.rough || p.w.reconcile || p.reconcileDue(ctx, name) {
			for e := range p.w.truth {
				if e.stream == name {
					keys = append(keys, e.key)
				}
			}
		}
		slices.Sort(keys)
		p.publish(ctx, name, slices.Compact(keys))
	}
}

func (p *process) reconcileDue(ctx context.Context, name string) bool {
	at, _, err := p.disk.Progress(ctx, store.Key{Stream: name, Shard: "a"})
	if err != nil {
		p.w.fault("read the progress: %v", err)
	}
	return at.ReconcileDue
}
