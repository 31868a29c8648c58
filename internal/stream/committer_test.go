package stream_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/checkpoint/store/storetest/memory"
	"example.org/bridge/client/backoff"
	"example.org/bridge/internal/outage"
	"example.org/bridge/internal/stream"
	"example.org/bridge/sink"
	"example.org/bridge/tests/must"
)

// lines is what was logged: one at a time, as slog's handlers write.
type lines struct{ bytes.Buffer }

func TestCommitterRun(t *testing.T) {
	begin := func(t *testing.T, image store.Image) (d *disk, out *lines, stop func() error) {
		d, out = newDisk(nil), &lines{}
		c := stream.NewCommitter(d, image, outage.New(slog.New(slog.NewTextHandler(out, nil))))
		must.OK(t, c.Apply(t.Context(), &store.Batch{Epoch: 7}))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- c.Run(ctx) }()
		return d, out, func() error { cancel(); return <-done }
	}
	pass := func(t *testing.T, d time.Duration) {
		must.OK(t, backoff.Pause(t.Context(), d))
		synctest.Wait()
	}
	registered := store.Image{Registrations: []store.Registration{{Number: 1, Stream: "s", TP: "d"}}}
	for name, every := range map[string]struct {
		image store.Image
		pause time.Duration
	}{"it syncs once a minute, and at the end": {registered, time.Minute}, "it syncs each second where nothing is read back": {store.Image{}, time.Second}} {
		bubble(t, name, func(t *testing.T) {
			d, _, stop := begin(t, every.image)
			synced := func(want int) {
				t.Helper()
				if _, got := d.counts(); got != want {
					t.Errorf("%d batches are synced, want %d", got, want)
				}
			}
			pass(t, every.pause-time.Millisecond)
			synced(0)
			pass(t, 2*time.Millisecond)
			synced(1)
			must.OK(t, d.Apply(t.Context(), &store.Batch{Epoch: 8}))
			if err := stop(); err != nil {
				t.Error(err)
			}
			synced(2)
		})
	}
	bubble(t, "damage that is seen beside it ends it at once", func(t *testing.T) {
		d, _, stop := begin(t, registered)
		d.kill(0)
		d.fault = store.ErrDamaged
		pass(t, time.Second)
		if _, synced := d.counts(); synced != 0 {
			t.Error("it was synced before")
		}
		close(d.damaged)
		synctest.Wait()
		if err := stop(); !errors.Is(err, store.ErrDamaged) {
			t.Errorf("it has ended with %v", err)
		}
	})
	bubble(t, "it says once that the disk takes no writes, and that it does again", func(t *testing.T) {
		d, out, stop := begin(t, registered)
		d.fault = store.ErrOutage
		d.kill(0)
		pass(t, 5*time.Minute)
		d.kill(-1)
		pass(t, 6*time.Second)
		if !strings.Contains(out.String(), "outage ended") {
			t.Error("it has not tried again within seconds")
		}
		pass(t, 5*time.Minute)
		if err := stop(); err != nil {
			t.Error(err)
		}
		if s := out.String(); strings.Count(s, "outage begins") != 1 || strings.Count(s, "outage ended") != 1 || !strings.Contains(s, "dependency=checkpoint") {
			t.Errorf("logged was %s", s)
		}
	})
	bubble(t, "a broken store ends it", func(t *testing.T) {
		d, _, stop := begin(t, registered)
		d.kill(0)
		pass(t, 2*time.Minute)
		if err := stop(); err == nil {
			t.Error("Run returns nil")
		}
	})
}

func TestFence(t *testing.T) {
	scripts(t, map[string]string{
		"what a former process publishes until it is fenced is read": "says a 1 1; fence says b 1 2; start; seen a b",
		"an unknown outcome is fenced before it is read":             "fence; start; send a; fence store a; unknown a; resolve; seen a*",
		"a process that cannot take over any more is superseded":     "fence; start; fence refused; resolve superseded; superseded",
		"a release stream that cannot be read stops":                 "fence; release; other; fails unreadable; start; stops unreadable",
	})
}

func TestMarkers(t *testing.T) {
	r := newRig(t, newBus("d"), nil, nil, "s").start()
	n, _ := r.committer.Number("s", sink.TPRef{Name: "d"})
	acknowledge := func(from, to uint64, marker bool) {
		t.Helper()
		first := r.send()
		ack := stream.Span{TP: n, Range: stream.Range{From: from, To: to}, Marker: marker}
		must.OK(t, r.committer.Acknowledged(t.Context(), first, []stream.Span{ack}, &store.Batch{}))
	}
	acknowledge(0, 5, false)
	acknowledge(6, 9, true)
	r.wantNext("s", "d", 9)
	t.Run("one that was read before contradicts nothing", func(t *testing.T) {
		must.OK(t, r.committer.Covered(t.Context(), n, stream.Range{From: 9, To: 10}, &store.Batch{}))
		acknowledge(10, 12, true)
		r.wantNext("s", "d", 12)
	})
}

// messages returns the range of offsets with a message at each.
func messages(from, to uint64) stream.Range {
	return stream.Range{From: from, To: to, Last: anchor(to - 1)}
}

func anchor(offset uint64) store.Anchor { return store.Anchor{Offset: offset, Hash: offset + 1000} }

func TestSpansThatAreTooManyAreRead(t *testing.T) {
	var c stream.Coverage
	const spans = stream.MaxSpans + 100
	for i := range uint64(spans) {
		c.Acknowledge(messages(2*i+1, 2*i+2))
	}
	holes := c.Holes()
	if got := &c; len(holes) != stream.MaxSpans+1 || got.Next != 0 || got.High != anchor(2*spans-1) {
		t.Fatalf("%d holes, %+v", len(holes), got.Registration)
	}
	for _, h := range holes {
		c.Read(messages(h.From, h.To))
	}
	if got := &c; got.Next != 2*spans || got.Last != anchor(2*spans-1) || len(c.Holes()) > 0 {
		t.Fatalf("%+v, %d holes", got.Registration, len(c.Holes()))
	}
}

// TestAStreamThatIsNotServed: what others publish on its TP is covered up to the first hole, and
// nothing behind that is remembered for a reader that it does not have. Once it is served again it
// reads from there.
func TestAStreamThatIsNotServed(t *testing.T) {
	b, kept := newBus("d"), memory.New()
	newRig(t, b, kept, nil, "s", "t").start()
	r := newRig(t, b, kept, nil, "s").start()
	r.publishes("a")
	for range 20 {
		b.other("x")
		r.publishes("a")
	}
	r.wantNext("s", "d", 1)
	r.wantNext("t", "d", 1)
	if s, other := r.committer.Spans("s", "d"), r.committer.Spans("t", "d"); s != 20 || other != 0 {
		t.Errorf("%d spans are remembered of the stream that is served, %d of the other one", s, other)
	}
	again := newRig(t, b, kept, nil, "s", "t").start()
	again.wantNext("t", "d", 41)
}

// tp is a naive model of a TP and of what a process knows of it.
type naiveTP struct {
	c      stream.Coverage
	flying map[uint64]bool
	log    []stored
	// covered are the offsets that were acknowledged or read, end the highest that is known of.
	covered map[uint64]bool
	end     uint64
	high    store.Anchor
}

// stored is a message, seq 0 where it is not ours; empty where nothing is there.
type stored struct {
	seq   uint64
	empty bool
}

func (p *naiveTP) acknowledge(t *testing.T, offset uint64) {
	if seq := p.log[offset].seq; !p.flying[seq] {
		t.Fatalf("message %d is not in flight", seq)
	}
	p.c.Acknowledge(messages(offset, offset+1))
	delete(p.flying, p.log[offset].seq)
	p.covered[offset], p.end = true, max(p.end, offset+1)
	if offset+1000 > p.high.Hash {
		p.high = anchor(offset)
	}
}

func (p *naiveTP) read(h stream.Range) {
	r := stream.Range{From: h.From, To: h.From}
	for ; r.To < h.To; r.To++ {
		m := p.log[r.To]
		if m.seq > 0 && p.flying[m.seq] {
			break
		}
		if p.covered[r.To] = true; !m.empty {
			r.Last = anchor(r.To)
		}
	}
	p.c.Read(r)
}

func (p *naiveTP) check(t *testing.T) {
	t.Helper()
	want := store.Registration{High: p.high}
	for ; p.covered[want.Next]; want.Next++ {
		if !p.log[want.Next].empty {
			want.Last = anchor(want.Next)
		}
	}
	if got := p.c.Registration; got != want {
		t.Fatalf("%+v, want %+v", got, want)
	}
	holes := p.c.Holes()
	for i, h := range holes {
		if h.From >= h.To || i > 0 && h.From <= holes[i-1].To {
			t.Fatalf("holes that are empty or touch: %v", holes)
		}
	}
	for offset := range uint64(len(p.log)) {
		in := slices.ContainsFunc(holes, func(h stream.Range) bool { return offset >= h.From && offset < h.To })
		if want := offset < p.end && !p.covered[offset]; in != want {
			t.Fatalf("offset %d in a hole: %v, want %v; %v", offset, in, want, holes)
		}
		if seq := p.log[offset].seq; p.flying[seq] && p.covered[offset] {
			t.Fatalf("offset %d is covered and in flight", offset)
		}
	}
}

func TestCoverageIsThatOfASetOfOffsets(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 3))
		p := &naiveTP{flying: map[uint64]bool{}, covered: map[uint64]bool{}}
		for seq := range uint64(120) {
			switch rng.IntN(6) {
			case 0, 1:
				p.flying[seq+1] = true
				p.log = append(p.log, stored{seq: seq + 1})
			case 2:
				p.log = append(p.log, stored{empty: rng.IntN(2) == 0})
			case 3:
				if len(p.log) > 0 {
					if o := rng.IntN(len(p.log)); p.flying[p.log[o].seq] {
						p.acknowledge(t, uint64(o))
					}
				}
			case 4:
				if holes := p.c.Holes(); len(holes) > 0 {
					p.read(holes[rng.IntN(len(holes))])
				}
			case 5:
				p.c.SetEnd(uint64(len(p.log)))
				p.end = uint64(len(p.log))
			}
			p.check(t)
		}
		// Of what is in flight the one half is acknowledged, the other cancelled and read.
		for o, m := range p.log {
			if p.flying[m.seq] && o%2 == 0 {
				p.acknowledge(t, uint64(o))
			}
			delete(p.flying, m.seq)
		}
		p.c.SetEnd(uint64(len(p.log)))
		p.end = uint64(len(p.log))
		for _, h := range p.c.Holes() {
			p.read(h)
		}
		p.check(t)
		if got := p.c.Next; len(p.flying) > 0 || got != p.end {
			t.Fatalf("covered up to %d of %d", got, p.end)
		}
	}
}
