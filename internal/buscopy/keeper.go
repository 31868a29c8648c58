package buscopy

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/client/backoff"
	"example.org/bridge/internal/null"
)

// Options set up a Keeper.
type Options struct {
	Bucket Bucket
	Domain string
	// Streams are those of the process.
	Streams []Stream
	// Still calls do with the store while nothing changes it.
	Still func(ctx context.Context, do func(store.Store) error) error
	// IsCommand reports whether what the store has under the name of a shard is what a command asks
	// for: a copy has that, however large the rest is.
	IsCommand func(shard string) bool
	// Slot is that of the process, once it is known. Defaults to the zero value.
	Slot func() Slot
	// Epoch returns that of the process, 0 before a stream has gone on from its last copy: then
	// nothing of it is written, and the copy stays.
	Epoch func(stream string) uint64
	// Permit, where it is not nil, returns an error where this process must not decide about START
	// any more. It is called when such a decision was written. It waits for the bus.
	Permit func(context.Context) error
	// Fault is called with each error that is tried again, and with nil when that has ended.
	// Optional.
	Fault func(error)
	// Ready tells why the bus does not answer. Optional.
	Ready func(context.Context) error
	Log   *slog.Logger
}

// Stream is a stream to a Keeper.
type Stream struct {
	Name string
	// Release says that the stream has no view: its copies have the registrations, too.
	Release bool
	// Placed says where a shard is. Nil: where its name says.
	Placed func(shard string) Placed
}

const (
	// copyEvery is the time between two copies of a stream, againAfter how old one becomes that
	// nothing was to be changed of: the bus may have lost it.
	copyEvery, againAfter = 5 * time.Second, 10 * time.Minute
	// slowAfter is how long the bus may take for one call until that is a fault.
	slowAfter = 3 * time.Second
	// endWithin bounds the last copies of a process.
	endWithin = 2 * time.Second
	// bytesPerSecond bounds what the copies of one stream take of the bus, in the long run.
	bytesPerSecond = 64 << 10
	// maxBytes is how much the parts of a stream may have. Above it a copy has the decisions alone.
	maxBytes = 8 << 20
)

// Keeper writes copies of the progress of all streams of a process, and loads them. It is safe for
// concurrent use.
type Keeper struct {
	opts    Options
	streams map[string]*stream
	// reading is held by the one that reads the bucket; next is for those that wait for it.
	reading chan struct{}
	mu      sync.Mutex
	next    *snapshot
}

// snapshot is what the bucket had after all that share it had asked. It is that of reading.
type snapshot struct {
	entries []Entry
	done    bool
}

// entries returns what the bucket has of a stream. All streams ask for it at a start, and each
// reading is one of all of them.
func (k *Keeper) entries(ctx context.Context, name string) ([]Entry, error) {
	k.mu.Lock()
	l := k.next
	if l == nil {
		l = new(snapshot)
		k.next = l
	}
	k.mu.Unlock()
	release, err := backoff.Acquire(ctx, k.reading)
	if err != nil {
		return nil, err
	}
	defer release()
	if !l.done {
		k.mu.Lock()
		if k.next == l {
			k.next = nil
		}
		k.mu.Unlock()
		if l.entries, err = k.opts.Bucket.Entries(ctx, domainKey(k.opts.Domain)); err != nil {
			// The next one that waits reads by itself.
			return nil, err
		}
		l.done = true
	}
	begin := streamKey(k.opts.Domain, name)
	return slices.DeleteFunc(slices.Clone(l.entries), func(e Entry) bool { return !strings.HasPrefix(e.Key, begin) }), nil
}

type stream struct {
	Stream
	// writing is held by the one that writes.
	writing chan struct{}
	// epoch, number and set are those of the last copy that was tried; above is the highest epoch
	// that was there before. writing guards them, and what follows.
	epoch, number, above uint64
	set                  int
	// former are the keys of other epochs, to be deleted once a copy of ours is there.
	former []string
	// sum is that of the last copy; decided has the shards whose START it has, with their since.
	sum     [sha256.Size]byte
	decided map[string]uint64
	// due is when the next copy may be written.
	due time.Time
	// thin says that the last copy had the decisions alone.
	thin bool

	mu      sync.Mutex
	written time.Time
	bytes   int
}

// NewKeeper returns a Keeper.
func NewKeeper(o Options) *Keeper {
	if o.Fault == nil {
		o.Fault = func(error) {}
	}
	if o.Ready == nil {
		o.Ready = func(context.Context) error { return nil }
	}
	if o.Permit == nil {
		o.Permit = func(context.Context) error { return nil }
	}
	if o.Slot == nil {
		o.Slot = func() Slot { return Slot{} }
	}
	k := &Keeper{opts: o, streams: make(map[string]*stream), reading: make(chan struct{}, 1)}
	for _, s := range o.Streams {
		k.streams[s.Name] = &stream{Stream: s, writing: make(chan struct{}, 1), decided: make(map[string]uint64)}
	}
	return k
}

// Load returns the newest copy of a stream, and false where there is none. It tries again until ctx
// ends.
func (k *Keeper) Load(ctx context.Context, name string) (c Copy, found bool, err error) {
	s := k.streams[name]
	release, err := backoff.Acquire(ctx, s.writing)
	if err != nil {
		return Copy{}, false, err
	}
	defer release()
	var h held
	err = new(backoff.Backoff).Retry(ctx, func() error {
		var entries []Entry
		err := k.watch(ctx, func() (err error) {
			entries, err = k.entries(ctx, name)
			return err
		})
		if err == nil {
			h, err = group(entries)
		}
		return err
	}, func(err error) bool {
		k.opts.Fault(fmt.Errorf("load the progress of stream %s from the bus: %w", name, err))
		return true
	})
	if err != nil {
		return Copy{}, false, err
	}
	k.opts.Fault(nil)
	mine := k.opts.Slot()
	s.above, s.former = max(s.above, h.epoch), h.former(&s.Stream, mine)
	c, found = h.of(&s.Stream, mine)
	return c, found, nil
}

// Decided returns when a copy is on the bus that has the decision about START of a shard, or its
// later since (rule 28). It tries again until ctx ends. Call it when the store has the decision,
// before the first row is published.
func (k *Keeper) Decided(ctx context.Context, name, shard string, since uint64) error {
	s := k.streams[name]
	release, err := backoff.Acquire(ctx, s.writing)
	if err != nil {
		return err
	}
	defer release()
	has := func() bool { at, ok := s.decided[shard]; return ok && at >= since }
	if has() {
		return nil
	}
	err = new(backoff.Backoff).Retry(ctx, func() error {
		if err := k.write(ctx, s); !has() {
			return err
		}
		return nil
	}, func(error) bool { return true })
	switch {
	case err != nil:
		return err
	case !has():
		return fmt.Errorf("the store has no decision about shard %s of stream %s", shard, name)
	}
	return k.opts.Permit(ctx)
}

// Run writes copies of what has changed, and of all now and then, until ctx ends, and once more.
func (k *Keeper) Run(ctx context.Context) error {
	for backoff.Pause(ctx, copyEvery) == nil {
		// A fault was told; it is tried again at the next turn.
		_ = k.each(ctx, func(s *stream) bool { return !time.Now().Before(s.due) })
	}
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), endWithin, fmt.Errorf("the bus did not take it in %s", endWithin))
	defer cancel()
	if err := k.each(ctx, func(*stream) bool { return true }); err != nil {
		k.opts.Log.Warn("the last progress was not written to the bus: the next start reads a little more", "error", err)
	}
	return nil
}

func (k *Keeper) each(ctx context.Context, due func(*stream) bool) (first error) {
	for _, s := range k.opts.Streams {
		s := k.streams[s.Name]
		if k.opts.Epoch(s.Name) == 0 {
			continue
		}
		release, err := backoff.Acquire(ctx, s.writing)
		if err == nil {
			if due(s) {
				err = k.write(ctx, s)
			}
			release()
		}
		if first == nil {
			first = err
		}
	}
	return first
}

// Write writes a copy of a stream, for a command: under an epoch above all that are there. Load
// comes first.
func (k *Keeper) Write(ctx context.Context, name string) error {
	s := k.streams[name]
	release, err := backoff.Acquire(ctx, s.writing)
	if err != nil {
		return err
	}
	defer release()
	s.sum = [sha256.Size]byte{}
	return k.write(ctx, s)
}

// write writes a copy of a stream unless the last one is the same and young, and tells the Fault.
func (k *Keeper) write(ctx context.Context, s *stream) error {
	err := k.watch(ctx, func() error { return k.tryWrite(ctx, s) })
	if err == nil {
		k.opts.Fault(nil)
	} else if ctx.Err() == nil {
		k.opts.Fault(fmt.Errorf("write the progress of stream %s to the bus: %w", s.Name, err))
	}
	return err
}

// watch calls do, and tells a fault while do waits for the bus, which the bucket does for ever.
func (k *Keeper) watch(ctx context.Context, do func() error) error {
	done := make(chan struct{})
	var watching sync.WaitGroup
	defer watching.Wait()
	defer close(done)
	watching.Go(func() {
		tick := time.NewTicker(slowAfter)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-ctx.Done():
				return
			case <-tick.C:
				k.opts.Fault(cmp.Or(k.opts.Ready(ctx), errSlow))
			}
		}
	})
	return do()
}

var errSlow = fmt.Errorf("the bus has not taken, or returned, the progress of a stream for %s", slowAfter)

func (k *Keeper) tryWrite(ctx context.Context, s *stream) error {
	epoch := k.opts.Epoch(s.Name)
	if epoch == 0 {
		return errors.New("the stream has not caught up yet")
	}
	var c content
	thin := false
	err := k.opts.Still(ctx, func(kept store.Store) (err error) {
		if c, thin, err = k.read(ctx, kept, s.Stream, false); thin {
			c, _, err = k.read(ctx, kept, s.Stream, true)
		}
		return err
	})
	if err != nil {
		return err
	}
	if thin && !s.thin {
		k.opts.Log.Warn("the progress of a stream is too large for the bus: a start without a checkpoint reads all of its topics, and leaves ids that are missing far below to reconcile",
			"stream", s.Name, "most_bytes", maxBytes)
	}
	s.thin = thin
	data, err := encode(&c)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(data)
	if sum == s.sum && time.Since(s.written) < againAfter {
		return k.deleteFormer(ctx, s)
	}
	// A clock that went back would let the copies of a former process win.
	if s.epoch == 0 {
		s.epoch = max(epoch, s.above+1)
	}
	if err := k.put(ctx, s, data); err != nil {
		return err
	}
	s.sum = sum
	for i := range c.Shards {
		if p := &c.Shards[i].Progress; p.Started {
			s.decided[c.Shards[i].Name] = p.Since
		}
	}
	return k.deleteFormer(ctx, s)
}

func (k *Keeper) put(ctx context.Context, s *stream, data []byte) error {
	s.number++
	c := &Copy{Epoch: s.epoch, Number: s.number, Written: time.Now().UTC()}
	begin, slot, size := streamKey(k.opts.Domain, s.Name), k.opts.Slot(), 0
	for part, value := range split(c, slot, data) {
		if err := k.opts.Bucket.Put(ctx, entryKey(begin, slot, s.epoch, s.set, part), value); err != nil {
			return err
		}
		size += len(value)
	}
	s.set = 1 - s.set
	s.due = time.Now().Add(time.Duration(size) * time.Second / bytesPerSecond)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.written, s.bytes = c.Written, size
	return nil
}

func (k *Keeper) deleteFormer(ctx context.Context, s *stream) error {
	if err := k.opts.Bucket.Delete(ctx, s.former); err != nil {
		return fmt.Errorf("delete former copies: %w", err)
	}
	s.former = nil
	return nil
}

// Status says when this process has last written the progress of a stream to the bus.
type Status struct {
	Stream string `json:"-"`
	// WrittenAt is null before the first time. It is written when it has changed, and now and then.
	WrittenAt null.Time `json:"writtenAt"`
	Bytes     int       `json:"bytes"`
}

// Status returns the status of each stream.
func (k *Keeper) Status() []Status {
	list := make([]Status, 0, len(k.streams))
	for _, s := range k.opts.Streams {
		s := k.streams[s.Name]
		s.mu.Lock()
		list = append(list, Status{s.Name, null.At(s.written), s.bytes})
		s.mu.Unlock()
	}
	return list
}

// copied are the kinds of parts that a copy has: all but those of a reconcile, which begins again.
var copied = []store.Kind{store.Gaps, store.Ahead, store.Published, store.MeaningPart, store.Noted, store.SchemaPart}

// read reads the content of a copy. A thin one has of each shard what `bridge checkpoint rebuild`
// keeps: what START and commands have decided, and what commands ask for. tooLarge says that the
// parts are too large for one that is not.
func (k *Keeper) read(ctx context.Context, kept store.Store, s Stream, thin bool) (c content, tooLarge bool, err error) {
	image, err := kept.Load(ctx)
	if err != nil {
		return content{}, false, err
	}
	size := 0
	for _, key := range slices.SortedFunc(maps.Keys(image.Shards), store.Key.Compare) {
		if key.Stream != s.Name {
			continue
		}
		p, kinds := image.Shards[key], copied
		if thin {
			p = store.Progress{Started: p.Started, Floor: p.Floor, Since: p.Since, Saved: p.Saved, ReconcileDue: true}
			if kinds = nil; k.opts.IsCommand(key.Shard) {
				kinds = []store.Kind{store.Noted}
			}
		}
		// A view that is rebuilt lacks what was recorded, and what has expired.
		p.ReconcileDue = p.ReconcileDue || !s.Release
		one := Shard{Name: key.Shard, Progress: p}
		for _, kind := range kinds {
			for part, err := range kept.Parts(ctx, key, kind, 0) {
				if err != nil {
					return content{}, false, err
				}
				if size += len(part.Bytes); size > maxBytes && !thin {
					return content{}, true, nil
				}
				one.Parts = append(one.Parts, part)
			}
		}
		c.Shards = append(c.Shards, one)
	}
	if s.Release && !thin {
		c.Registrations = slices.DeleteFunc(image.Registrations, func(r store.Registration) bool { return r.Stream != s.Name || r.Retired })
	}
	return c, false, nil
}
