package stream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/internal/share"
	"example.org/bridge/sink"
)

// feed is a [Feed], which tests replace by one that fails.
type feed interface {
	Apply(ctx context.Context, facts []Message, read *Read, cover Cover) error
	Ready(ctx context.Context) error
	ForgetDecided(ctx context.Context) error
	Reconcile(ctx context.Context, b *store.Batch, cover Cover) error
	Follow(ctx context.Context) error
	Restore(ctx context.Context, b *store.Batch) error
}

// Stream is a stream that catches up.
type Stream struct {
	Name string
	// Release says that the stream has no view: messages of it are never late, and where a TP is
	// not as the store has it, all is read again (rule 21).
	Release bool
	// Destinations are all topics and subjects that the stream may publish to, with those of dead
	// letters; {key} is a wildcard (rule 10).
	Destinations []string
	// Hash is the hash of kind, key columns and scope (rule 12).
	Hash uint32
	// IgnoreBelow passes over messages of a lower epoch that have another hash and, if it is not 0,
	// over those without a state: what checkpoint set and reset have decided (rule 12).
	IgnoreBelow uint64
	// Mine reports whether this process publishes a shard. Messages of others are those of another
	// process: nothing is concluded from them. Nil: all are.
	Mine func(shard string) bool
	// Ours says that this process has published the stream up to now, before a reload: nobody else
	// has meanwhile, so Start does as without Turn, which is closed.
	Ours bool
	// Stopped, where it is not nil, is why the stream was stopped before a reload, and is still.
	Stopped error
	// Forgets, where it is not nil, returns after what time a topic may have removed what says that
	// an entity is gone, and false where it never does (rule 30). It waits for the bus.
	Forgets func(ctx context.Context, topic string) (after time.Duration, does bool, err error)
	// Feed takes in the messages of the stream.
	Feed feed
}

// Options set up a CatchUp.
type Options struct {
	Reader sink.Reader
	// Fence, where it is not nil, ends what was published and is in doubt, before that is read
	// (sink.Transactional).
	Fence func(context.Context) error
	// Turn, where it is not nil, is closed when this process is to publish. Until then Start reads
	// on, and no stream is ready. It returns ErrStartAgain where a stream is then to be read from
	// the beginning.
	Turn <-chan struct{}
	// Confirm returns an error where a stream must not publish since its
	// source is not the one that the bus has rows of. It is called before anything is written, and
	// where Turn is not nil once more when that is closed (turn). Optional.
	Confirm func(ctx context.Context, stream string, turn bool) error
	// Permit returns an error where this process must not publish any more. It is called when the
	// epoch is durable, before a stream is ready. It waits for the bus. Optional.
	Permit func(ctx context.Context, epoch uint64) error
	// Alone reports whether no process but this one has published its shards since Confirm was
	// called, but for what was in flight: then offsets pass over what other shares publish. Nil: it
	// is read. It waits for the bus.
	Alone func(context.Context) (bool, error)
	// Copy, where it is not nil, returns what the bus has of the progress of a stream beside its
	// messages (decision 23). It waits for the bus.
	Copy      func(ctx context.Context, stream string) (Copy, error)
	Committer *Committer
	// Share is that of the process.
	Share share.Share
	// Image is what the store held when the Committer was made.
	Image   store.Image
	Domain  string
	Streams []Stream
	Log     *slog.Logger
	// Superseded is called once when another process is found to have taken over (rule 8): publish
	// nothing any more.
	Superseded func(error)
	// Stopped is called when a stream stops that was ready.
	Stopped func(stream string, err error)
	// Over, where it is not nil, says that this process was superseded already: all streams are
	// stopped, and nothing is read.
	Over error
	// Workers bounds how many TPs are read side by side. Defaults to 8.
	Workers int
	// ShortRound is how long the last round of Start takes at most, but for the look at the TPs
	// where that takes long each time. Defaults to 2 s.
	ShortRound time.Duration
	// Tick is the time between two looks for holes, IdleEvery that between two of the ends, and
	// AnchorsEvery that between two comparisons of the anchors of a TP with holes. They default to
	// 1 s, 1 min and 10 s.
	Tick, IdleEvery, AnchorsEvery time.Duration
	// Recheck is the pause before a TP that seems to have lost messages is looked up once more.
	// Defaults to 1 s.
	Recheck time.Duration
}

func (o *Options) setDefaults() {
	o.ShortRound = cmp.Or(o.ShortRound, 2*time.Second)
	o.Tick = cmp.Or(o.Tick, time.Second)
	o.IdleEvery = cmp.Or(o.IdleEvery, time.Minute)
	o.AnchorsEvery = cmp.Or(o.AnchorsEvery, 10*time.Second)
	o.Recheck = cmp.Or(o.Recheck, time.Second)
	o.Workers = cmp.Or(o.Workers, 8)
	if o.Confirm == nil {
		o.Confirm = func(context.Context, string, bool) error { return nil }
	}
	if o.Permit == nil {
		o.Permit = func(context.Context, uint64) error { return nil }
	}
	if o.Superseded == nil {
		o.Superseded = func(error) {}
	}
	if o.Stopped == nil {
		o.Stopped = func(string, error) {}
	}
}

// CatchUp reads from the bus what the store lacks: at the start, behind a publish of unknown
// outcome, and in the background.
//
// It acquires in this order: topicPartition.reading, a worker's slot, the Committer. The locks of
// stream, registrar and CatchUp are held for moments.
type CatchUp struct {
	opts      Options
	committer *Committer
	streams   map[string]*stream
	order     []*stream
	// slots bounds how many TPs are read side by side.
	slots chan struct{}
	// becoming is held while a stream becomes ready: the first one has the epoch synced.
	becoming chan struct{}
	// synced is the highest number of a registration that is durable; becoming guards it.
	synced uint32
	epoch  atomic.Pointer[Epoch]
	// known is the highest epoch that the store had; copied that of the copies on the bus, with the
	// epochs below which messages of their shards do not count.
	known  uint64
	copied atomic.Uint64
	fenced atomic.Bool

	registrar registrar

	// over is the error of a process that was superseded.
	over atomic.Pointer[error]
}

// New returns a CatchUp; Start begins it.
func New(opts Options) *CatchUp {
	opts.setDefaults()
	c := &CatchUp{
		opts: opts, committer: opts.Committer, streams: make(map[string]*stream),
		slots: make(chan struct{}, opts.Workers), becoming: make(chan struct{}, 1),
		known: opts.Image.Epoch,
	}
	if opts.Over != nil {
		c.over.Store(&opts.Over)
	}
	c.registrar = registrar{c: c, tps: make(map[string]*topicPartition)}
	for i := range opts.Streams {
		s := &stream{Stream: &c.opts.Streams[i], c: c, ready: make(chan struct{}), stopped: make(chan struct{}), looking: make(chan struct{}, 1),
			rereads: make(map[uint32]uint64)}
		c.streams[s.Name], c.order = s, append(c.order, s)
		if err := cmp.Or(opts.Over, s.Stopped); err != nil {
			s.stop(err)
		}
	}
	return c
}

// Epoch returns the epoch of this process. It is there once Wait has returned nil for a stream.
func (c *CatchUp) Epoch() *Epoch { return c.epoch.Load() }

// EpochOf returns the number of the epoch once a stream has caught up, 0 before.
func (c *CatchUp) EpochOf(name string) uint64 {
	if !c.streams[name].isReady() {
		return 0
	}
	return c.Epoch().Number()
}

// Wait returns nil when a stream has caught up: then it may publish. It waits for the TPs of that
// stream and no others (rule 14). The error is that which stopped the stream, or the cause of ctx.
func (c *CatchUp) Wait(ctx context.Context, name string) error {
	s := c.streams[name]
	if s == nil {
		return fmt.Errorf("the stream %s is not among those that catch up", name)
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-s.stopped:
	case <-s.ready:
	}
	return s.failure()
}

// CatchesUp reports whether a stream is neither ready nor stopped.
func (c *CatchUp) CatchesUp(name string) bool {
	s := c.streams[name]
	return !s.isReady() && s.failure() == nil
}

// NewSession tells that the connection to a TP is a new one, or its leader: its anchors are
// compared with what is there (rule 20). It returns at once.
func (c *CatchUp) NewSession(tp string) {
	g := &c.registrar
	g.mu.Lock()
	defer g.mu.Unlock()
	if t := g.tps[tp]; t != nil {
		t.sessions.Add(1)
		t.compared.Store(nil)
	}
}

// supersede notes that another process has taken over (rule 8). Streams end with err.
func (c *CatchUp) supersede(err error) {
	if !c.over.CompareAndSwap(nil, &err) {
		return
	}
	c.opts.Log.Error("another bridge has taken over: this one publishes nothing any more", "error", err)
	for _, s := range c.order {
		s.stop(err)
	}
	c.opts.Superseded(err)
}

func (c *CatchUp) superseded() error {
	if err := c.over.Load(); err != nil {
		return *err
	}
	return nil
}

// ErrSuperseded is returned when a message of a higher epoch was found: another process publishes
// the same streams (rule 8).
var ErrSuperseded = errors.New("another bridge publishes these streams")

// Epoch is the run of a process, and counts the messages that the process sends: epoch and seq are
// the stamp of a message (rule 1). A process has one, so stamps of all shards compare. It is safe
// for concurrent use.
type Epoch struct {
	number uint64
	seq    atomic.Uint64
	losses atomic.Uint64
}

// NewEpoch returns an epoch above a given one, that is the highest in the store and on the bus. It
// is at least the Unix time in ms, so processes with copies of one store do not meet in an epoch.
// Above sink.MaxEpoch it must not be used.
func NewEpoch(above uint64, now time.Time) *Epoch {
	return &Epoch{number: max(min(above, sink.MaxEpoch)+1, uint64(max(now.UnixMilli(), 0)))}
}

// of returns the first epoch of a share that is not below this one. Two shares of one number never
// have the same, also if they begin in one millisecond.
func (e *Epoch) of(s share.Share) *Epoch {
	n := uint64(max(1, s.Number))
	return &Epoch{number: e.number + (uint64(s.Index)+n-e.number%n)%n}
}

// Number returns the number of the epoch, which is above 0; 0 where there is none yet.
func (e *Epoch) Number() uint64 {
	if e == nil {
		return 0
	}
	return e.number
}

// Next reserves n seqs and returns the first, which is 1 at the first call. No seq is handed out
// twice.
func (e *Epoch) Next(n int) (first uint64) { return e.seq.Add(uint64(n)) - uint64(n) + 1 }

// Last returns the last seq that was reserved, 0 before the first.
func (e *Epoch) Last() uint64 { return e.seq.Load() }

// Losses returns how often the bus was found to have lost messages: each begins terms of the
// shards, so that their messages tell that it was noticed.
func (e *Epoch) Losses() uint64 { return e.losses.Load() }
