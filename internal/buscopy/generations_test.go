package buscopy_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"example.org/bridge/client/backoff"
	"example.org/bridge/internal/buscopy"
	"example.org/bridge/internal/buscopy/buckettest"
	"example.org/bridge/internal/share"
	"example.org/bridge/tests/must"
)

// fleet is processes that share a bucket, and the fences of their shares.
type fleet struct {
	t      *testing.T
	bucket *buckettest.Memory
	// through, where it is not nil, returns the way of a process to the bucket.
	through func(share.Share) buscopy.Bucket

	mu sync.Mutex
	// fence has the process that may publish for a share.
	fence map[share.Share]*ship
}

// ship is a process.
type ship struct {
	*buscopy.Generations
	fleet  *fleet
	share  share.Share
	may    bool
	why    error
	ended  chan error
	cancel context.CancelFunc
	// shutOut is called before a share is shut out; nil: nothing is.
	shutOut func(share.Share)
}

func newFleet(t *testing.T) *fleet {
	return &fleet{t: t, bucket: new(buckettest.Memory), fence: make(map[share.Share]*ship)}
}

func (f *fleet) ship(index, number int) *ship {
	s := &ship{fleet: f, share: share.Share{Index: index, Number: number}, may: true, ended: make(chan error, 1)}
	bucket := buscopy.Bucket(f.bucket)
	if f.through != nil {
		bucket = f.through(s.share)
	}
	s.Generations = buscopy.NewGenerations(buscopy.GenerationsOptions{
		Bucket: bucket, Domain: "d", Share: s.share, Host: "h",
		May:   func() bool { f.mu.Lock(); defer f.mu.Unlock(); return s.may },
		Waits: func(err error) { f.mu.Lock(); defer f.mu.Unlock(); s.why = err },
		ShutOut: func(_ context.Context, of share.Share) error {
			if s.shutOut != nil {
				s.shutOut(of)
			}
			f.mu.Lock()
			defer f.mu.Unlock()
			f.fence[of] = s
			return nil
		},
	})
	return s
}

// begins has a process join, take the fence of its share, and run.
func (s *ship) begins() *ship {
	ctx, cancel := context.WithCancel(s.fleet.t.Context())
	s.cancel = cancel
	go func() {
		if err := s.Join(ctx); err != nil {
			s.ended <- err
			return
		}
		s.takes()
		if err := s.Permit(ctx); err != nil {
			s.ended <- err
			return
		}
		s.ended <- s.Run(ctx)
	}()
	return s
}

func (s *ship) takes() {
	s.fleet.mu.Lock()
	defer s.fleet.mu.Unlock()
	s.fleet.fence[s.share] = s
}

// works reports whether a process may publish: it has joined, and is not shut out.
func (s *ship) works() bool {
	synctest.Wait()
	s.fleet.mu.Lock()
	defer s.fleet.mu.Unlock()
	return s.fleet.fence[s.share] == s && len(s.ended) == 0
}

func (s *ship) reason() string {
	synctest.Wait()
	s.fleet.mu.Lock()
	defer s.fleet.mu.Unlock()
	return fmt.Sprint(s.why)
}

func (s *ship) ends() {
	s.fleet.mu.Lock()
	delete(s.fleet.fence, s.share)
	s.fleet.mu.Unlock()
	s.cancel()
	if err := <-s.ended; err != nil && !errors.Is(err, context.Canceled) {
		s.fleet.t.Errorf("share %s ends with %v", s.share, err)
	}
	s.Leave()
}

// expect fails the test unless these processes work, and the others do not.
func expect(t *testing.T, all []*ship, want ...*ship) {
	t.Helper()
	must.OK(t, backoff.Pause(t.Context(), 10*time.Second))
	for _, s := range all {
		if got := s.works(); got != slices.Contains(want, s) {
			t.Errorf("share %q works: %v, it waits for: %s", s.share, got, s.reason())
		}
	}
}

// TestTheNumberOfSharesChanges: none, 2, 3, none. Nobody begins before share 0 of the number, and
// that waits for processes by the former number until they have ended, or give no sign of life.
func TestTheNumberOfSharesChanges(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		none := f.ship(0, 0).begins()
		expect(t, []*ship{none}, none)
		if f.bucket.Puts() > 0 {
			t.Error("a process without shares has put something")
		}

		one := f.ship(1, 2).begins()
		expect(t, []*ship{none, one}, none)
		if why := one.reason(); !strings.Contains(why, "share 0 of 2 shares") {
			t.Errorf("it waits for: %s", why)
		}
		zero := f.ship(0, 2).begins()
		// That of none meets its fence, and what they publish.
		expect(t, []*ship{none, zero, one}, zero, one)
		must.Fail(t, <-none.ended, buscopy.ErrFormer)

		three := []*ship{f.ship(0, 3).begins(), f.ship(1, 3).begins(), f.ship(2, 3).begins()}
		zero.ends()
		expect(t, append(three, zero, one), one)
		if why := three[0].reason(); !strings.Contains(why, "share 1 on h") {
			t.Errorf("it waits for: %s", why)
		}
		one.ends()
		expect(t, append(three, one), three...)

		// A reload ends what runs, and the next one goes on.
		three[1].cancel()
		must.OK(t, <-three[1].ended)
		again := f.ship(0, 0).begins()
		time.Sleep(20 * time.Second)
		three[1].begins()
		time.Sleep(5 * time.Minute)
		expect(t, append(three, again), three...)
		for _, s := range three {
			s.ends()
		}
		expect(t, append(three, again), again)
		again.ends()
	})
}

// TestAProcessThatStandsStill is passed over after a while. When it wakes up it ends, whatever it
// was about to do.
func TestAProcessThatStandsStill(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		// One has joined, and is about to publish.
		still := f.ship(0, 1)
		must.OK(t, still.Join(t.Context()))
		next := []*ship{f.ship(0, 2).begins(), f.ship(1, 2).begins()}
		expect(t, next)
		time.Sleep(time.Minute)
		expect(t, next, next...)
		// It publishes nothing before it has looked, the others do.
		soon, end := context.WithTimeout(t.Context(), time.Second)
		defer end()
		if err := still.Heard(soon); err == nil || next[0].Heard(t.Context()) != nil {
			t.Errorf("it publishes: %v", err)
		}
		must.Fail(t, still.Sign(t.Context()), buscopy.ErrFormer)
		still.takes()
		must.Fail(t, still.Permit(t.Context()), buscopy.ErrFormer)
		must.Fail(t, still.Run(t.Context()), buscopy.ErrFormer)
		for _, s := range next {
			s.ends()
		}
	})
}

// heldBucket takes nothing while it is held.
type heldBucket struct {
	buscopy.Bucket
	held chan struct{}
}

func (b *heldBucket) Put(ctx context.Context, key string, value []byte) error {
	b.held <- struct{}{}
	defer func() { <-b.held }()
	return b.Bucket.Put(ctx, key, value)
}

// TestASignThatTheBusTookLate, as behind an outage, is followed by another one at once: until then
// the process publishes nothing.
func TestASignThatTheBusTookLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		slow := &heldBucket{f.bucket, make(chan struct{}, 1)}
		f.through = func(share.Share) buscopy.Bucket { return slow }
		one := f.ship(0, 1).begins()
		expect(t, []*ship{one}, one)
		slow.held <- struct{}{}
		time.Sleep(2 * time.Minute)
		<-slow.held
		began := time.Now()
		if err := one.Heard(t.Context()); err != nil || time.Since(began) > 2*time.Second {
			t.Errorf("it publishes after %s: %v", time.Since(began), err)
		}
		slow.held <- struct{}{}
		time.Sleep(2 * time.Minute)
		soon, end := context.WithTimeout(t.Context(), time.Second)
		defer end()
		must.Fail(t, one.Heard(soon), context.DeadlineExceeded)
		<-slow.held
		time.Sleep(2 * time.Second)
		if why := one.reason(); why != fmt.Sprint(nil) {
			t.Errorf("it is heard, nothing is to be published, and it still says %s", why)
		}
		one.ends()
	})
}

// TestAnEntryThatCannotBeRead keeps a process from publishing only if it stood still: else others
// wait for it as long as the bus takes its signs. One of a later version is passed over.
func TestAnEntryThatCannotBeRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		put := func(key string) {
			must.OK(t, f.bucket.Put(t.Context(), "d.-shares."+key, nil))
		}
		put("xlater.1")
		one := f.ship(0, 1).begins()
		expect(t, []*ship{one}, one)
		put("nlater.1.a")
		other := f.ship(0, 2).begins()
		time.Sleep(5 * time.Minute)
		expect(t, []*ship{one, other}, one)
		soon, end := context.WithTimeout(t.Context(), time.Second)
		defer end()
		if err := one.Heard(soon); err != nil {
			t.Errorf("it publishes nothing: %s", one.reason())
		}
		one.cancel()
		time.Sleep(time.Minute)
		soon, end = context.WithTimeout(t.Context(), time.Second)
		defer end()
		if err := one.Sign(soon); !errors.Is(err, buscopy.ErrDamaged) || one.Heard(soon) == nil || !strings.Contains(one.reason(), "nlater.1.a") {
			t.Errorf("one that stood still publishes, or does not say why not: %v, %s", err, one.reason())
		}
		other.cancel()
	})
}

// TestEntriesOutOfBounds: no key has a process count for long, or shut out shares that cannot be.
func TestEntriesOutOfBounds(t *testing.T) {
	for _, key := range []string{"n16777216.4.x", "n1.1001.x", "n1.-1.x"} {
		f := newFleet(t)
		must.OK(t, f.bucket.Put(t.Context(), "d.-shares."+key, nil))
		must.Fail(t, f.ship(0, 1).Sign(t.Context()), buscopy.ErrDamaged, key)
	}
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		must.OK(t, errors.Join(f.bucket.Put(t.Context(), "d.-shares.n1.1.x", nil), f.bucket.Put(t.Context(), "d.-shares.n99.2.x", nil)))
		var out []share.Share
		s := f.ship(0, 2)
		s.shutOut = func(of share.Share) { out = append(out, of) }
		must.OK(t, s.Join(t.Context()))
		if want := []share.Share{{Number: 1}, {}}; !slices.Equal(out, want) {
			t.Errorf("shut out are %v, want %v", out, want)
		}
	})
}

// TestBehindTheBarrier has a process of the former number begin again just before and just behind
// the step that shuts it out: in the end it does not publish.
func TestBehindTheBarrier(t *testing.T) {
	t.Parallel()
	for _, before := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			f := newFleet(t)
			former := f.ship(0, 1)
			must.OK(t, former.Join(t.Context()))
			var permitted error
			begins := func() {
				former.takes()
				permitted = former.Permit(t.Context())
			}
			next := f.ship(0, 2)
			next.shutOut = func(of share.Share) {
				if before && of.Number == 1 {
					begins()
				}
			}
			next.begins()
			time.Sleep(2 * time.Minute)
			expect(t, []*ship{next}, next)
			if !before {
				begins()
			}
			if former.works() && permitted == nil {
				t.Errorf("before %v: it publishes beside those of the next number", before)
			}
			next.ends()
		})
	}
}

// TestAStandbyChangesNothing until it works.
func TestAStandbyChangesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		s := f.ship(0, 2)
		s.may = false
		s.begins()
		expect(t, []*ship{s})
		f.mu.Lock()
		s.may = true
		f.mu.Unlock()
		expect(t, []*ship{s}, s)
		s.ends()
	})
}

// TestBesideAProcessWithoutShares, which gives no signs: share 0 does not wait for it, and it ends
// by itself. It decides about no START from then on.
func TestBesideAProcessWithoutShares(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		none := f.ship(0, 0).begins()
		expect(t, []*ship{none}, none)
		must.OK(t, none.Permit(t.Context()))
		next := []*ship{f.ship(0, 2).begins(), f.ship(1, 2).begins()}
		expect(t, next, next...)
		must.Fail(t, none.Permit(t.Context()), buscopy.ErrFormer)
		time.Sleep(time.Minute)
		synctest.Wait()
		select {
		case err := <-none.ended:
			must.Fail(t, err, buscopy.ErrFormer)
		default:
			t.Fatal("it runs on")
		}
		none.cancel()
		if signs, err := f.bucket.Entries(t.Context(), "d.-shares.s0"); err != nil || len(signs) > 0 {
			t.Errorf("it gives signs: %v %v", signs, err)
		}
		for _, s := range next {
			s.ends()
		}
	})
}

// lateBucket is the way to the bucket of a process whose first proposal fails, and is set right
// behind that of another process, which begins when first is closed.
type lateBucket struct {
	*buckettest.Memory
	fails bool
	first chan struct{}
	late  *string
}

func (b *lateBucket) Put(ctx context.Context, key string, value []byte) error {
	switch {
	case !strings.Contains(key, ".n1."):
	case !b.fails:
		<-b.first
		if err := b.Memory.Put(ctx, key, value); err != nil {
			return err
		}
		key = *b.late
	case *b.late == "":
		*b.late = key
		return errors.New("no answer")
	}
	return b.Memory.Put(ctx, key, value)
}

// TestALateProposal: one that fails, and comes behind the one that is tried instead and behind that
// of another number, does not have both numbers work in one generation.
func TestALateProposal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		first, late := make(chan struct{}), ""
		f.through = func(s share.Share) buscopy.Bucket {
			return &lateBucket{Memory: f.bucket, fails: s.Number == 2, first: first, late: &late}
		}
		two, three := f.ship(0, 2), f.ship(0, 3)
		two.shutOut = func(share.Share) {
			close(first)
			time.Sleep(time.Minute)
		}
		two.begins()
		three.begins()
		time.Sleep(5 * time.Minute)
		expect(t, []*ship{two, three}, three)
		two.cancel()
		three.ends()
	})
}

// TestAnOpenerThatStandsStill shuts nobody out by a number that has come to be in force again.
func TestAnOpenerThatStandsStill(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		former := []*ship{f.ship(0, 2).begins(), f.ship(1, 2).begins()}
		expect(t, former, former...)
		for _, s := range former {
			s.ends()
		}
		still, wakes := f.ship(0, 3), make(chan struct{})
		still.shutOut = func(of share.Share) { <-wakes }
		still.begins()
		expect(t, nil)
		other := f.ship(0, 4).begins()
		time.Sleep(time.Minute)
		expect(t, []*ship{other}, other)
		other.ends()
		again := []*ship{f.ship(0, 2).begins(), f.ship(1, 2).begins()}
		time.Sleep(time.Minute)
		expect(t, again, again...)
		close(wakes)
		expect(t, again, again[1])
		for _, s := range append(again, still) {
			s.cancel()
		}
	})
}

// TestACommandChangesNoNumber: it is refused where another one is in force, or not yet in force.
func TestACommandChangesNoNumber(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		command := func(number int) error {
			g := buscopy.NewGenerations(buscopy.GenerationsOptions{Bucket: f.bucket, Domain: "d", Share: share.Share{Number: number}})
			return g.Last(t.Context())
		}
		refused := func(number int, why string) {
			t.Helper()
			must.Fail(t, command(number), why)
		}
		must.OK(t, command(0))
		refused(2, "no shares are in force, and the command has 2 shares")
		s := f.ship(0, 2).begins()
		expect(t, []*ship{s}, s)
		s.ends()
		must.OK(t, command(2))
		refused(0, "2 shares are in force, and the command has no shares")
		refused(3, "2 shares are in force, and the command has 3 shares")
		away := 3
		f.bucket.Fail(func(string) error {
			if away--; away >= 0 {
				return errors.New("the bus is away")
			}
			return nil
		})
		if err := command(2); err != nil || away >= 0 {
			t.Errorf("behind a bus that was away: %v", err)
		}
	})
}
