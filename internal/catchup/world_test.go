package catchup_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"testing/synctest"
	"time"

	"bridge/checkpoint/store"
	"bridge/internal/backoff"
	"bridge/internal/catchup"
	"bridge/internal/outage"
	"bridge/sink"
)

// world is a bus, what the tables of two streams say, and processes that publish it: they are
// killed, copied and started beside one another.
type world struct {
	rng    *rand.Rand
	bus    *bus
	mutant string
	// rough worlds lose messages that the bus has acknowledged. There a reconcile follows at the
	// end, and where two processes have published side by side, or a batch was cut: it may arrive
	// when the process that has decided behind it is dead, and then nothing tells that it is late.
	rough, reconcile bool
	// cuts says that processes cancel publishes.
	cuts bool
	// moving entities change their TP with each message.
	moving bool
	// forgot says that a store was lost.
	forgot bool
	// lost has from where on TPs have lost a tail, hidden those of which some of that has expired
	// since.
	lost    map[string]uint64
	hidden  map[string]bool
	streams []string
	// truth has the digest of each entity, 0 where it is absent; dirty what was changed and not
	// decided since.
	truth map[entity]byte
	dirty map[entity]bool
	// net are requests that have not arrived.
	net     []*request
	running []*process
	// stores are what was durable when processes were killed.
	stores [][]store.Batch
	others int
	faults []string
	// notes are what has happened, for a person.
	notes []string
}

type entity struct{ stream, key string }

// request is a batch for one TP on its way. It arrives as a whole or not at all.
type request struct {
	by       *process
	b        *batch
	tp       string
	messages []said
	offset   uint64
	// incarnation is that of the TP where it has arrived.
	incarnation string
	// lost says that it has arrived, and that the bus has lost it before it was acknowledged.
	arrived, lost bool
}

// batch is what a process has in flight.
type batch struct {
	stream   string
	first    uint64
	requests []*request
}

// idleTime is how long it takes at most until processes have looked at the ends of all TPs, and
// have read on.
const idleTime = 15 * time.Second

var worldTPs = []string{"t/0", "t/1", "u/0"}

func newWorld(seed uint64, mutant string) *world {
	w := &world{rng: rand.New(rand.NewPCG(seed, 7)), mutant: mutant, bus: newBus(worldTPs...), truth: map[entity]byte{}, dirty: map[entity]bool{}, streams: []string{"x", "y"},
		lost: map[string]uint64{}, hidden: map[string]bool{}}
	w.bus.topics["t"], w.bus.topics["u"] = []string{"t/0", "t/1"}, []string{"u/0"}
	w.rough, w.moving, w.cuts = w.rng.IntN(2) == 0, w.rng.IntN(2) == 0, w.rng.IntN(2) == 0
	return w
}

func (w *world) fault(format string, args ...any) {
	w.faults = append(w.faults, fmt.Sprintf(format, args...))
}

func (w *world) note(format string, args ...any) {
	w.notes = append(w.notes, fmt.Sprintf(format, args...))
}

// start starts a process on a store that has applied batches. One that waits publishes when it is
// elected.
func (w *world) start(ctx context.Context, batches []store.Batch, waits bool) {
	// Epochs are times in ms.
	w.pass(ctx, 2*time.Millisecond)
	p := &process{w: w, disk: newDisk(batches), feeds: map[string]*toy{}, claimed: map[entity]bool{}, resolving: map[string]int{},
		resolved: make(chan string, 100), done: make(chan error, 1)}
	p.disk.corrupt = w.corrupt
	image, err := p.disk.Load(ctx)
	if err != nil {
		w.fault("load: %v", err)
		return
	}
	log := slog.New(slog.DiscardHandler)
	p.committer = catchup.NewCommitter(p.disk, image, outage.New(log))
	opts := catchup.Options{Reader: w.reader(), Committer: p.committer, Image: image, Domain: "test", Log: log,
		Superseded: func(error) { p.over.Store(true) }, IdleEvery: idleTime / 3}
	if waits {
		p.turn = make(chan struct{})
		opts.Turn = p.turn
	}
	for _, name := range w.streams {
		f := newToy(name)
		f.store, f.committer = p.disk, p.committer
		p.feeds[name] = f
		opts.Streams = append(opts.Streams, catchup.Stream{Name: name, Destinations: []string{"t", "u"}, Feed: f, Hash: 9})
	}
	p.c = catchup.New(opts)
	ctx, p.cancel = context.WithCancelCause(ctx)
	p.alive, p.resolve = ctx.Err, func(stream string) error { return p.c.Resolve(ctx, stream) }
	p.register = func(stream string, tp sink.TPRef) (uint32, error) { return p.c.Register(ctx, stream, tp) }
	if w.rng.IntN(3) == 0 {
		p.disk.kill(w.rng.IntN(20))
	}
	w.running = append(w.running, p)
	w.forgot = w.forgot || len(batches) == 0 && len(w.stores) > 0
	w.note("start of a process on %d batches, epoch %d, waits %t", len(batches), image.Epoch, waits)
	go func() {
		if err := p.c.Start(ctx); err != nil {
			p.done <- err
			return
		}
		p.done <- p.c.Run(ctx)
	}()
}

// corrupt changes what a process applies to its store.
func (w *world) corrupt(b *store.Batch) {
	if w.mutant == changesLost && len(b.Registrations) > 0 && b.Registrations[0].Next%4 == 3 {
		b.Views = nil
	}
	for i := range b.Registrations {
		r := &b.Registrations[i]
		if w.mutant == offsetTooHigh && r.Next > 3 && r.Next < w.bus.end(r.TP) {
			r.Next++
		}
	}
}

// kill ends a process as by SIGKILL: what it has synced is there, and some of the rest.
func (w *world) kill(p *process) {
	p.cancel(errKilled)
	<-p.done
	w.running = slices.DeleteFunc(w.running, func(o *process) bool { return o == p })
	batches, synced := p.disk.applied()
	w.note("kill, over %v, waits %t, store %d", p.over.Load(), p.waits(), len(w.stores))
	// What a process that waits has read is not synced.
	w.reconcile = w.reconcile || p.waits()
	w.stores = append(w.stores, batches[:synced+w.rng.IntN(len(batches)-synced+1)])
	w.net = slices.DeleteFunc(w.net, func(r *request) bool { return r.by == p && w.rng.IntN(3) == 0 })
}

// copyOf returns a store of the past, or none. Only the newest one has the epoch by which what
// arrived since is late; behind another one a reconcile follows.
func (w *world) copyOf() []store.Batch {
	n := len(w.stores)
	if n > 0 && w.rng.IntN(2) == 0 {
		return w.stores[n-1]
	}
	w.reconcile = w.reconcile || n > 0
	if n == 0 || w.rng.IntN(3) == 0 {
		return nil
	}
	return w.stores[w.rng.IntN(n)]
}

func (w *world) step(ctx context.Context) {
	if len(w.running) == 0 && w.rng.IntN(3) == 0 {
		w.start(ctx, w.copyOf(), w.rng.IntN(4) == 0)
	}
	switch n := w.rng.IntN(24); {
	case n < 5:
		e := entity{w.streams[w.rng.IntN(2)], fmt.Sprint("k", w.rng.IntN(4))}
		w.truth[e], w.dirty[e] = byte(w.rng.IntN(4)), true
		w.note("%v is %d", e, w.truth[e])
	case n < 7:
		w.harm(ctx)
	case n < 11 && len(w.net) > 0:
		w.deliver(w.net[w.rng.IntN(len(w.net))])
	case n == 11:
		w.pass(ctx, time.Duration(w.rng.IntN(8))*time.Second)
	case len(w.running) > 0:
		w.running[w.rng.IntN(len(w.running))].step(ctx)
	}
	synctest.Wait()
	w.reap()
}

// pass lets time pass.
func (w *world) pass(ctx context.Context, d time.Duration) {
	if backoff.Pause(ctx, d) != nil {
		w.fault("the test ends")
	}
}

// reap ends processes whose disk was killed.
func (w *world) reap() {
	for _, p := range slices.Clone(w.running) {
		select {
		case err := <-p.done:
			if !errors.Is(err, errKilled) && p.alive() == nil {
				w.fault("a process ended: %v", err)
			}
			p.done <- err
			w.kill(p)
		default:
		}
		for _, name := range w.streams {
			if err := p.stopped(name); err != nil && !errors.Is(err, catchup.ErrSuperseded) {
				w.fault("stream %s stopped: %v", name, err)
			}
		}
	}
}

// stopped returns why a stream has stopped, nil where it has not.
func (p *process) stopped(name string) error {
	for _, s := range p.c.Progress().Streams {
		if s.Stream == name {
			return s.Err
		}
	}
	return nil
}

// harm is something that befalls the bus or a process.
func (w *world) harm(ctx context.Context) {
	tp := worldTPs[w.rng.IntN(len(worldTPs))]
	switch n := w.rng.IntN(12); {
	case n < 4:
		w.others++
		w.bus.append(tp, sink.Stored{Value: fmt.Append(nil, w.others)})
	case n < 7 && len(w.running) > 0:
		w.kill(w.running[w.rng.IntN(len(w.running))])
	case n == 7 && len(w.running) == 1 && len(w.stores) > 0:
		w.reconcile = true
		w.start(ctx, w.copyOf(), false)
	case n == 11 && len(w.running) == 1:
		w.start(ctx, w.copyOf(), true)
	case n == 8 && w.rough:
		from := uint64(w.rng.IntN(int(w.bus.end(tp)) + 1))
		w.note("%s loses what lies from %d on", tp, from)
		w.bus.lose(tp, from)
		w.lost[tp] = from
		w.loseAnswers(tp, from)
		if len(w.running) > 0 {
			// A known limit: what is filled again before the processes look is not missed.
			w.pass(ctx, idleTime)
		}
		for range w.rng.IntN(5) {
			w.others++
			w.bus.append(tp, sink.Stored{Value: fmt.Append(nil, w.others)})
		}
	case n == 9 && w.rough:
		w.note("%s is made again", tp)
		w.bus.make(tp)
	case n == 10 && w.rough:
		below := uint64(w.rng.IntN(int(w.bus.end(tp)) + 1))
		w.note("%s expires below %d", tp, below)
		w.bus.expire(tp, below)
		if from, any := w.lost[tp]; any && below > from {
			w.hidden[tp] = true
		}
	}
}

// loseAnswers has the bus acknowledge nothing of what it has lost.
func (w *world) loseAnswers(tp string, from uint64) {
	for _, p := range w.running {
		for _, b := range p.batches {
			for _, r := range b.requests {
				r.lost = r.lost || r.arrived && r.tp == tp && r.offset+uint64(len(r.messages)) > from
			}
		}
	}
}

// deliver lets a request arrive, and its process have the acknowledgement.
func (w *world) deliver(r *request) {
	w.net = slices.DeleteFunc(w.net, func(o *request) bool { return o == r })
	for i := range r.messages {
		at := w.bus.append(r.tp, r.messages[i].stored())
		if i == 0 {
			r.offset = at
		}
	}
	r.arrived, r.incarnation = true, w.bus.logs[r.tp].incarnation
	w.note("arrived at %s %d: %+v, resolving %v", r.tp, r.offset, r.messages, r.by.resolving)
}

// finish lets all arrive, has the youngest process catch up and decide all, and compares.
func (w *world) finish(ctx context.Context) {
	w.reap()
	for _, p := range slices.Clone(w.running) {
		if p.over.Load() || len(w.running) > 1 || w.rng.IntN(2) == 0 {
			w.kill(p)
		}
	}
	for range 20 {
		if len(w.running) == 0 {
			w.start(ctx, w.copyOf(), false)
			w.running[0].disk.kill(-1)
		}
		w.running[0].elect()
		w.pass(ctx, idleTime)
		synctest.Wait()
		w.reap()
		for len(w.net) > 0 {
			w.deliver(w.net[0])
		}
		w.note("drain")
		if len(w.running) > 0 {
			w.running[0].disk.kill(-1)
			w.running[0].drain(ctx)
		}
		if len(w.faults) > 0 {
			return
		}
	}
	if p := w.running[0]; !p.over.Load() {
		w.compare(ctx, p)
	}
}

// fold returns what a consumer makes of the bus: of each entity the last message of each TP, and of
// these the one with the highest stamp. Late says that it has expired since.
func (w *world) fold() map[entity]catchup.Message {
	all := map[entity]catchup.Message{}
	for _, tp := range worldTPs {
		last := map[entity]catchup.Message{}
		for i, m := range w.bus.logs[tp].messages {
			if name := m.Header(sink.HeaderStream); name != nil {
				state, err := sink.ParseState(string(m.Header(sink.HeaderState)))
				if err != nil {
					w.fault("parse: %v", err)
				}
				last[entity{string(name), string(m.Key)}] = catchup.Message{State: state, Late: uint64(i) < w.bus.logs[tp].first}
			}
		}
		for e, m := range last {
			had, ok := all[e]
			if newer := m.State.Epoch > had.State.Epoch || m.State.Epoch == had.State.Epoch && m.State.Seq > had.State.Seq; !ok || newer {
				all[e] = m
			}
		}
	}
	return all
}

// compare holds that the bus says what is true, and that the view says what the bus says.
func (w *world) compare(ctx context.Context, p *process) {
	fold := w.fold()
	for e := range fold {
		if _, ok := w.truth[e]; !ok {
			w.fault("%v was never written", e)
		}
	}
	for e, truth := range w.truth {
		m := fold[e]
		if entry, _ := p.feeds[e.stream].entry(ctx, e.key); w.rough && truth == 0 && entry.State == store.Unknown {
			// A known limit: its messages have expired, and its row went while the store was lost.
			continue
		}
		if w.moving && w.forgot && m.Late {
			// A known limit: an older one in another TP is taken for the last one.
			continue
		}
		if w.hidden[p.tpOf(ctx, e)] {
			// A known limit: nothing is left that tells that its tail was lost and filled again.
			continue
		}
		if m.State.Digest[0] != truth {
			w.fault("%v is %d, the bus says %d, of %d/%d", e, truth, m.State.Digest[0], m.State.Epoch, m.State.Seq)
		}
		entry, err := p.feeds[e.stream].entry(ctx, e.key)
		if err != nil || entry.Disputed || entry.Digest[0] != truth {
			w.fault("%v is %d, its entry is %+v, %v", e, truth, entry, err)
		}
	}
	if held := p.committer.Holes(nil); len(held) > 0 {
		w.fault("holes are left: %v", held)
	}
}

// tpOf returns where the entry of an entity says that its last message lies.
func (p *process) tpOf(ctx context.Context, e entity) string {
	entry, _ := p.feeds[e.stream].entry(ctx, e.key)
	batches, _ := p.disk.applied()
	for _, b := range batches {
		for _, r := range b.Registrations {
			if r.Number == entry.At.TP {
				return r.TP
			}
		}
	}
	return ""
}
