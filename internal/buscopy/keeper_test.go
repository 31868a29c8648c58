package buscopy_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"example.org/bridge/checkpoint/store"
	storememory "example.org/bridge/checkpoint/store/storetest/memory"
	"example.org/bridge/client/backoff"
	"example.org/bridge/internal/buscopy"
	"example.org/bridge/internal/buscopy/buckettest"
	"example.org/bridge/internal/stream"
	"example.org/bridge/source"
	"example.org/bridge/tests/must"
	"example.org/bridge/tests/testall"
)

// writer is a process: a store, and the keeper of its copies.
type writer struct {
	*buscopy.Keeper
	t     *testing.T
	store *storememory.Store

	mu     sync.Mutex
	faults []error
}

func newWriter(t *testing.T, b buscopy.Bucket, epoch uint64) *writer {
	w := &writer{t: t, store: storememory.New()}
	w.Keeper = buscopy.NewKeeper(buscopy.Options{
		Bucket: b, Domain: "shop.eu", Streams: []buscopy.Stream{{Name: "facts", Release: true}, {Name: "states"}},
		IsCommand: stream.IsCommand,
		Still:     func(_ context.Context, do func(store.Store) error) error { return do(w.store) },
		Epoch:     func(string) uint64 { return epoch },
		Log:       slog.New(slog.NewTextHandler(t.Output(), nil)),
		Fault: func(err error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.faults = append(w.faults, err)
		},
	})
	return w
}

// last returns the fault that was told last, nil when it has ended.
func (w *writer) last() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.faults) == 0 {
		return nil
	}
	return w.faults[len(w.faults)-1]
}

// saves applies the progress of the shard t of a stream.
func (w *writer) saves(stream string, position uint64, parts ...store.Part) {
	w.t.Helper()
	p := store.Progress{Position: position, Started: true, Floor: 3, Saved: time.UnixMicro(int64(position)).UTC()}
	w.applies(&store.Batch{Shards: []store.ShardChange{{Key: store.Key{Stream: stream, Shard: "t"}, Progress: &p, Parts: parts}}})
}

func (w *writer) applies(b *store.Batch) {
	w.t.Helper()
	must.OK(w.t, w.store.Apply(w.t.Context(), b))
}

func (w *writer) decided(stream string) {
	w.t.Helper()
	must.OK(w.t, w.Decided(w.t.Context(), stream, "t", 0))
}

func (w *writer) writes(stream string) error { return w.Write(w.t.Context(), stream) }

func (w *writer) loads(stream string) (buscopy.Copy, bool) {
	w.t.Helper()
	c, found, err := w.Load(w.t.Context(), stream)
	must.OK(w.t, err)
	return c, found
}

// mustLoad fails the test unless the newest copy has a position and an epoch.
func mustLoad(t *testing.T, b buscopy.Bucket, position, epoch uint64) {
	t.Helper()
	c, found := newWriter(t, b, 99).loads("facts")
	if !found || len(c.Shards) != 1 || c.Shards[0].Progress.Position != position || c.Epoch != epoch {
		t.Errorf("the copy has epoch %d and %+v, want %d and the position %d", c.Epoch, c.Shards, epoch, position)
	}
}

// noise is a part that cannot be compressed.
func noise(n int) store.Part {
	b := make([]byte, n)
	r := rand.New(rand.NewPCG(1, uint64(n)))
	for i := 0; i+8 <= n; i += 8 {
		binary.LittleEndian.PutUint64(b[i:], r.Uint64())
	}
	return store.Part{Kind: store.Gaps, Number: 1, Bytes: b}
}

func TestACopyHasWhatTheStoreHad(t *testing.T) {
	t.Parallel()
	b := new(buckettest.Memory)
	w := newWriter(t, b, 7)
	progress := store.Progress{
		Position: 1 << 63, Cursor: source.Cursor{ID: 5}, Started: true, Floor: 3, Since: 4, Low: 6, Snapshot: source.Range{First: 1, Last: 2},
		Saved: time.UnixMicro(1_700_000_000_123_456).UTC(), ReconcileDue: true,
	}
	kinds := []store.Kind{store.Gaps, store.Ahead, store.Published, store.MeaningPart, store.Noted}
	var parts, all []store.Part
	for _, kind := range kinds {
		parts = append(parts, store.Part{Kind: kind, Bytes: []byte{byte(kind), 0, 255}}, store.Part{Kind: kind, Number: 1 << 40, Bytes: []byte(fmt.Sprint("kind ", kind))})
	}
	all = append(append(all, parts...), store.Part{Kind: store.Reconcile, Bytes: []byte("run")})
	r := store.Registration{
		Number: 3, Stream: "facts", TP: "facts/0", Incarnation: "i", Next: 9, Last: store.Anchor{Offset: 8, Hash: 1 << 63}, High: store.Anchor{Offset: 8, Hash: 2},
		Epoch: 6, Late: true,
	}
	retired, other := r, r
	retired.Number, retired.Retired = 2, true
	other.Number, other.Stream = 4, "states"
	w.applies(&store.Batch{Epoch: 7, Registrations: []store.Registration{retired, r, other}, Shards: []store.ShardChange{
		{Key: store.Key{Stream: "facts", Shard: "t"}, Progress: &progress, Parts: all},
		{Key: store.Key{Stream: "states", Shard: "t"}, Progress: &store.Progress{Position: 2, Started: true, Saved: progress.Saved}, Parts: all},
	}})
	w.decided("facts")
	w.decided("states")
	for _, stream := range []string{"facts", "states"} {
		c, found := newWriter(t, b, 8).loads(stream)
		if !found || c.Epoch != 7 || c.Number != 1 || len(c.Shards) != 1 || c.Shards[0].Name != "t" || !reflect.DeepEqual(c.Shards[0].Parts, parts) {
			t.Fatalf("%s: %+v", stream, c)
		}
		want := progress
		if stream == "states" {
			want = store.Progress{Position: 2, Started: true, Saved: progress.Saved, ReconcileDue: true}
		}
		if c.Shards[0].Progress != want {
			t.Errorf("%s: the progress is %+v, want %+v", stream, c.Shards[0].Progress, want)
		}
		if registered := stream == "facts"; registered != (len(c.Registrations) == 1) || registered && c.Registrations[0] != r {
			t.Errorf("%s: the registrations are %+v", stream, c.Registrations)
		}
	}
}

// TestAFormerProcessReplacesNothing: what a process writes that was superseded is passed over, also
// when its successor ends, and is removed by the next one.
func TestAFormerProcessReplacesNothing(t *testing.T) {
	t.Parallel()
	b := new(buckettest.Memory)
	former := newWriter(t, b, 5)
	former.saves("facts", 10)
	former.decided("facts")
	successor := newWriter(t, b, 6)
	successor.loads("facts")
	successor.saves("facts", 20)
	successor.decided("facts")
	mustLoad(t, b, 20, 6)
	for i := range uint64(3) {
		former.saves("facts", 30+i)
		must.OK(t, former.writes("facts"))
		mustLoad(t, b, 20, 6)
	}
	third := newWriter(t, b, 7)
	third.loads("facts")
	third.saves("facts", 40)
	third.decided("facts")
	entries, err := b.Entries(t.Context(), "")
	if err != nil || len(entries) != 1 {
		t.Errorf("%d entries are left (%v), want that of the last process: %v", len(entries), err, keys(entries))
	}
}

func keys(entries []buscopy.Entry) (list []string) {
	for _, e := range entries {
		list = append(list, e.Key)
	}
	return list
}

// TestACopyIsWholeOrPassedOver ends a process at each entry of its copies.
func TestACopyIsWholeOrPassedOver(t *testing.T) {
	t.Parallel()
	killed := errors.New("killed")
	every := testall.Cases(3, 1)
	for _, kill := range []int{0, 1, 2} {
		for n, sizes := range [][]int{{1 << 19, 1 << 19, 1 << 19}, {1 << 19, 10, 1 << 19}, {10, 1 << 19, 10}} {
			if (kill+n)%every != 0 {
				continue
			}
			b := new(buckettest.Memory)
			w := newWriter(t, b, 5)
			whole := uint64(0)
			for i, size := range sizes {
				puts := 0
				if i == len(sizes)-1 {
					b.Fail(func(string) error {
						if puts++; puts > kill {
							return killed
						}
						return nil
					})
				}
				w.saves("facts", uint64(i+1), noise(size))
				if err := w.writes("facts"); err == nil {
					whole = uint64(i + 1)
				} else if !errors.Is(err, killed) {
					t.Fatal(err)
				}
			}
			b.Fail(nil)
			mustLoad(t, b, whole, 5)
			// The bus is back, and the process was not killed.
			w.saves("facts", 9, noise(1<<19))
			must.OK(t, w.writes("facts"))
			mustLoad(t, b, 9, 5)
		}
	}
}

// slowBucket counts the readings of a bucket, each of which takes a second.
type slowBucket struct {
	buscopy.Bucket
	reads atomic.Int32
}

func (b *slowBucket) Entries(ctx context.Context, prefix string) ([]buscopy.Entry, error) {
	b.reads.Add(1)
	entries, err := b.Bucket.Entries(ctx, prefix)
	return entries, errors.Join(err, backoff.Pause(ctx, time.Second))
}

// TestStreamsThatStartTogether read the bucket once for the first of them, and once for the others:
// what they have was put before they asked.
func TestStreamsThatStartTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		memory := new(buckettest.Memory)
		first := newWriter(t, memory, 5)
		var streams []buscopy.Stream
		for i := range 20 {
			streams = append(streams, buscopy.Stream{Name: fmt.Sprint("s", i), Release: true})
		}
		slow := &slowBucket{Bucket: memory}
		keeper := func(w *writer) *buscopy.Keeper {
			return buscopy.NewKeeper(buscopy.Options{
				Bucket: slow, Domain: "shop.eu", Streams: streams, IsCommand: stream.IsCommand, Log: slog.New(slog.DiscardHandler),
				Still: func(_ context.Context, do func(store.Store) error) error { return do(w.store) }, Epoch: func(string) uint64 { return 5 },
			})
		}
		k := keeper(first)
		for i := range streams {
			first.saves(streams[i].Name, uint64(i+1))
			must.OK(t, k.Write(t.Context(), streams[i].Name))
		}
		k = keeper(newWriter(t, memory, 6))
		var loading sync.WaitGroup
		for i := range streams {
			loading.Go(func() {
				c, found, err := k.Load(t.Context(), streams[i].Name)
				if err != nil || !found || len(c.Shards) != 1 || c.Shards[0].Progress.Position != uint64(i+1) {
					t.Errorf("stream %d: %+v, %v", i, c, err)
				}
			})
		}
		loading.Wait()
		if n := slow.reads.Load(); n != 2 {
			t.Errorf("the bucket was read %d times", n)
		}
	})
}

// TestAClockThatWentBack: the epochs of processes do not grow, and the later one's copies hold.
func TestAClockThatWentBack(t *testing.T) {
	t.Parallel()
	b := new(buckettest.Memory)
	first := newWriter(t, b, 1000)
	first.saves("facts", 10)
	first.decided("facts")
	second := newWriter(t, b, 5)
	second.loads("facts")
	second.saves("facts", 20)
	second.decided("facts")
	mustLoad(t, b, 20, 1001)
}

// TestProgressThatIsTooLarge: the decisions are on the bus all the same.
func TestProgressThatIsTooLarge(t *testing.T) {
	t.Parallel()
	b := new(buckettest.Memory)
	w := newWriter(t, b, 5)
	w.saves("facts", 10, noise(9<<20))
	asked := (&stream.Republish{Number: 7, From: 1, To: 9, State: stream.Republishing}).Change(store.Key{Stream: "facts", Shard: "t"}, time.UnixMicro(10))
	w.applies(&store.Batch{
		Registrations: []store.Registration{{Number: 1, Stream: "facts", TP: "facts/0", Next: 4}}, Shards: []store.ShardChange{asked},
	})
	w.decided("facts")
	c, _ := newWriter(t, b, 6).loads("facts")
	want := store.Progress{Started: true, Floor: 3, Saved: time.UnixMicro(10).UTC(), ReconcileDue: true}
	if len(c.Shards) != 2 || c.Shards[1].Progress != want || len(c.Shards[1].Parts)+len(c.Registrations) > 0 {
		t.Errorf("the copy is %+v", c)
	}
	// What a command has asked for is nowhere else.
	if parts := c.Shards[0].Parts; len(parts) != 1 || !bytes.Equal(parts[0].Bytes, asked.Parts[0].Bytes) {
		t.Errorf("of the request there is %v", parts)
	}
}

// TestCopiesThatCannotBeRead: those of a newer version, and damaged ones, are not passed over. They
// may have a decision that nothing else has.
func TestCopiesThatCannotBeRead(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		value string
		want  error
	}{
		{`{"form":3}`, buscopy.ErrNewer},
		{`{"form":3,"epoch":"9"}`, buscopy.ErrNewer},
		{`{"form":1,`, buscopy.ErrDamaged},
		{`{"form":1,"epoch":9,"number":1,"part":0,"parts":1,"data":"AAAA"}`, buscopy.ErrDamaged},
		{`{"form":1,"epoch":4611686018427387904,"number":1,"part":0,"parts":2,"data":""}`, buscopy.ErrDamaged},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := new(buckettest.Memory)
			must.OK(t, b.Put(t.Context(), "shop=2Eeu.facts.9.0.0", []byte(c.value)))
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			w := newWriter(t, b, 5)
			if _, _, err := w.Load(ctx, "facts"); err == nil {
				t.Errorf("%s is loaded", c.value)
			}
			if text := fmt.Sprint(w.last()); strings.Contains(text, "entry ") && !strings.Contains(text, `entry "shop`) {
				t.Errorf("the key is not quoted: %s", text)
			}
			if !errors.Is(w.last(), c.want) {
				t.Errorf("%s: %v, want %v", c.value, w.last(), c.want)
			}
		})
	}
}

// TestTheFormOfAnEntry: another version has to read what this one wrote on 2026-11-24.
func TestTheFormOfAnEntry(t *testing.T) {
	t.Parallel()
	b := new(buckettest.Memory)
	const value = `{"form":1,"epoch":9,"number":1,"part":0,"parts":1,"written":"2026-11-24T16:42:55.418293163Z","data":"` +
		`H4sIAAAAAAAE/yzPQUvDUBAE4P8y561s8CAu9KCWgqilNJ6UHp7Ntn2Qvie7G0VC/rsYhDkMDHwwI3Z6yh6WItfikDL0PaE9J+sc8j5iky4KQYCwtXoydYeM2FbPkWuBNE` +
		`x4GMyrQUa81C4fs3YQgPC4gvBEaCNZaAcJG5Sw7ms1yDWhzeWgECY8128IE9qSPv1cAzJinc0D85o8/qn0pX96c3vDC24W3Lwyy5wrZubmDYSdHmo55F5Xg0KOqXedCNtk4f` +
		`Opp1w6SEPYDJcPtbne/4Q6BHq3XGLaT/vpNwAA//8gTU6WHQEAAA=="}`
	must.OK(t, b.Put(t.Context(), "shop=2Eeu.facts.9.0.0", []byte(value)))
	c, _ := newWriter(t, b, 10).loads("facts")
	want := []buscopy.Shard{{
		Name: "t", Progress: store.Progress{Position: 10, Started: true, Floor: 3, Saved: time.UnixMicro(10).UTC()},
		Parts: []store.Part{{Kind: store.Gaps, Number: 1, Bytes: []byte("x")}},
	}}
	if c.Epoch != 9 || c.Number != 1 || c.Written.Minute() != 42 || !reflect.DeepEqual(c.Shards, want) {
		t.Errorf("the copy is %+v", c)
	}
}

// TestRun: a copy is written when something has changed, at most so often, at the end, and where
// the bus has lost it.
func TestRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := new(buckettest.Memory)
		w := newWriter(t, b, 5)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- w.Run(ctx) }()
		step := func(position uint64, seconds int, puts int) {
			t.Helper()
			w.saves("facts", position)
			time.Sleep(time.Duration(seconds) * time.Second)
			synctest.Wait()
			if b.Puts() != puts {
				t.Errorf("%d entries were put, want %d", b.Puts(), puts)
			}
		}
		// At first both streams are written.
		step(1, 6, 2)
		step(1, 60, 2)
		step(2, 5, 3)
		entries, _ := b.Entries(ctx, "")
		must.OK(t, b.Delete(ctx, keys(entries)))
		step(2, 600, 5)
		mustLoad(t, b, 2, 5)
		w.saves("states", 3, noise(1<<20))
		// Three entries: the stream then waits for what the bus can take of it.
		time.Sleep(5 * time.Second)
		w.saves("states", 4, noise(1<<20))
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if b.Puts() != 8 {
			t.Errorf("%d entries were put, want 8", b.Puts())
		}
		cancel()
		must.OK(t, <-ended)
		if b.Puts() != 11 {
			t.Errorf("%d entries were put at the end, want 11", b.Puts())
		}
	})
}

// stuck is a bucket whose calls wait for their context.
type stuck struct{ buckettest.Memory }

func (*stuck) Put(ctx context.Context, _ string, _ []byte) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

// TestABusThatIsAway: it is told, a decision waits for the bus, and the end of the process does not
// for long.
func TestABusThatIsAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWriter(t, new(stuck), 5)
		w.saves("facts", 1)
		ctx, cancel := context.WithCancel(t.Context())
		decided, ended := make(chan error, 1), make(chan error, 1)
		go func() { decided <- w.Decided(ctx, "facts", "t", 0) }()
		go func() { ended <- w.Run(ctx) }()
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(decided) > 0 || w.last() == nil {
			t.Errorf("the decision waits: %v, the fault is %v", len(decided) == 0, w.last())
		}
		began := time.Now()
		cancel()
		must.Fail(t, <-decided, context.Canceled)
		if err := <-ended; err != nil || time.Since(began) > 5*time.Second {
			t.Errorf("the end took %s: %v", time.Since(began), err)
		}
	})
}

// TestDecided: a decision that is on the bus is not written again, a later one is.
func TestDecided(t *testing.T) {
	t.Parallel()
	b := new(buckettest.Memory)
	w := newWriter(t, b, 5)
	w.saves("facts", 1)
	w.decided("facts")
	w.saves("facts", 2)
	w.decided("facts")
	if b.Puts() != 1 {
		t.Errorf("%d entries were put, want 1", b.Puts())
	}
	w.applies(&store.Batch{Shards: []store.ShardChange{{Key: store.Key{Stream: "facts", Shard: "t"}, Progress: &store.Progress{Started: true, Since: 5, Saved: time.UnixMicro(1)}}}})
	if err := w.Decided(t.Context(), "facts", "t", 5); err != nil || b.Puts() != 2 {
		t.Errorf("%v: %d entries were put, want 2", err, b.Puts())
	}
	must.Fail(t, w.Decided(t.Context(), "facts", "other", 0), "other")
	failed := errors.New("away")
	n := 0
	b.Fail(func(string) error {
		if n++; n < 3 {
			return fmt.Errorf("try %d: %w", n, failed)
		}
		return nil
	})
	w.applies(&store.Batch{Shards: []store.ShardChange{{Key: store.Key{Stream: "facts", Shard: "t"}, Progress: &store.Progress{Started: true, Since: 6, Saved: time.UnixMicro(1)}}}})
	if err := w.Decided(t.Context(), "facts", "t", 6); err != nil || w.last() != nil {
		t.Errorf("behind faults: %v, %v", err, w.last())
	}
}

// TestTheBucketInMemory passes the suite of those on a bus.
func TestTheBucketInMemory(t *testing.T) {
	t.Parallel()
	buckettest.Run(t, buckettest.Options{Open: func(*testing.T) func() buscopy.Bucket {
		b := new(buckettest.Memory)
		return func() buscopy.Bucket { return b }
	}})
}
