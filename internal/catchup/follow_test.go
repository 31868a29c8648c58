package catchup_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"bridge/internal/catchup"
	"bridge/sink"
)

// open is a bus whose last message is in a transaction that has not ended.
type open struct{ *bus }

func (o open) TPs(ctx context.Context, destinations []string) ([]sink.TP, error) {
	tps, err := o.bus.TPs(ctx, destinations)
	for i := range tps {
		tps[i].Stable--
	}
	return tps, err
}

// TestFollowWaitsForNoTransaction: another process is publishing while this one reads.
func TestFollowWaitsForNoTransaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBus("d")
		b.says(ours("a", 7, 1))
		b.says(ours("b", 7, 2))
		turn := make(chan struct{})
		r := newRig(t, b, nil, func(o *catchup.Options) { o.Turn, o.Reader = turn, open{b} }, "s")
		started := make(chan error, 1)
		go func() { started <- r.c.Start(t.Context()) }()
		r.pass(time.Minute)
		r.wantSeen("s", "a")
		close(turn)
		if err := <-started; err != nil {
			t.Fatal(err)
		}
		r.wantSeen("s", "b")
	})
}

// TestFollow has a process read what another one publishes until it is its turn.
func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBus("d")
		b.says(ours("a", 7, 1))
		turn := make(chan struct{})
		r := newRig(t, b, nil, func(o *catchup.Options) { o.Turn = turn }, "s")
		started := make(chan error, 1)
		go func() { started <- r.c.Start(t.Context()) }()
		state := func(following, ready bool) {
			t.Helper()
			p := r.c.Progress().Streams[0]
			if p.Following != following || p.Ready != ready {
				t.Fatalf("%+v, want following %t, ready %t", p, following, ready)
			}
		}
		r.pass(time.Millisecond)
		state(true, false)
		r.wantSeen("s", "a")
		b.says(ours("b", 7, 2))
		r.pass(6 * time.Second)
		state(true, false)
		r.wantSeen("s", "b")
		r.wantNext("s", "d", 2)
		if r.c.Epoch() != nil {
			t.Error("it has an epoch before its turn")
		}
		b.says(ours("c", ^uint64(0)>>8, 3))
		close(turn)
		if err := <-started; err != nil {
			t.Fatal(err)
		}
		state(false, true)
		r.wantSeen("s", "c")
		if n := r.c.Epoch().Number(); n != ^uint64(0)>>8+1 {
			t.Errorf("its epoch is %d", n)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		b := newBus("d")
		r := newRig(t, b, nil, func(o *catchup.Options) { o.Turn = make(chan struct{}) }, "s")
		ctx, cancel := context.WithCancel(t.Context())
		started := make(chan error, 1)
		go func() { started <- r.c.Start(ctx) }()
		r.pass(time.Minute)
		cancel()
		if err := <-started; err == nil || r.c.Epoch() != nil {
			t.Errorf("a start that is cancelled ends with %v, epoch %v", err, r.c.Epoch())
		}
	})
}
