package stream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/internal/panics"
	"example.org/bridge/sink"
)

// A chunk is what is applied in one commit: it ends at the first of these.
const (
	chunkMessages = 2_000
	chunkBytes    = 4 << 20
	// chunkPassed bounds how many messages of others are read again after a kill.
	chunkPassed = 100_000
	// anchorReach is how far before a hole a reading begins to compare a message.
	anchorReach = 1_000
	// messageBytes is about what a message takes beside its key.
	messageBytes = 300
)

// Why a reading ends before its end.
var (
	// errInFlight: it has met a message of ours that has no outcome yet (rule 4).
	errInFlight   = errors.New("a message of ours is in flight")
	errEnough     = errors.New("enough was read for now")
	errAllStopped = errors.New("all streams on the topic or stream have stopped")
)

// reading reads a part of a TP once, for all streams on it. It is used by one goroutine, which
// holds topicPartition.reading.
type reading struct {
	c     *CatchUp
	tp    *topicPartition
	feeds []*served
	// own is our epoch, 0 before there is one; known the highest that the store had at the start.
	own, known uint64
	// budget is how many messages it may read; nil: all.
	budget *int
	slot   *slot
	// before is the first offset of a message right before what a feed has left to read: it is
	// compared with what is covered there (rule 20).
	before uint64
	chunk  chunk
	// unread is why it has left out a feed: a part of the store was not read.
	unread error

	// The message that is being read.
	headers sink.Fields
	parsed  Message
}

type chunk struct {
	// last is the last message; its Hash is 0 where there was none.
	last store.Anchor
	// passed counts messages, ours or not, kept those of the feeds.
	passed, kept, bytes int
	keys                []byte
}

// read reads a part of the TP and applies it, whatever the error, which says why it ends before
// span does.
func (r *reading) read(ctx context.Context, span sink.Span) error {
	for _, f := range r.feeds {
		f.from = max(span.From, f.cursor)
	}
	var at uint64
	refused := false
	watched, unwatch := r.watch(ctx, span)
	whole := span
	whole.From = min(r.before, span.From)
	next, err := r.c.opts.Reader.Read(watched, whole, func(m *sink.Stored) error {
		at = m.Offset
		if refused = r.differs(m); refused {
			// What follows would hide that.
			return errMoved
		}
		if at < span.From {
			return nil
		}
		refused = true
		defer r.slot.end()
		if err := r.slot.begin(ctx); err != nil {
			return err
		}
		if err := r.accept(ctx, m); err != nil {
			return err
		}
		refused = false
		return r.full(ctx, m.Offset+1)
	})
	if errors.Is(context.Cause(watched), errMoved) {
		err = errMoved
	}
	unwatch()
	if refused {
		next = at
	}
	return cmp.Or(r.flush(ctx, max(next, span.From)), err)
}

// differs reports whether m is another message than a feed has covered there, as far as it knows
// that one (rule 20), and notes of which feeds that is true.
func (r *reading) differs(m *sink.Stored) (differs bool) {
	for _, f := range r.feeds {
		if hash := f.covered.hashAt(m.Offset); hash != 0 && hash != hashStored(m) {
			r.c.registrar.wrong.Store(f.number, true)
			differs = true
		}
	}
	return differs
}

// full applies the chunk where it is large enough, and ends the reading where it may go no further.
func (r *reading) full(ctx context.Context, next uint64) error {
	r.chunk.passed++
	if r.budget != nil {
		if *r.budget--; *r.budget <= 0 {
			return errEnough
		}
	}
	if c := &r.chunk; c.kept < chunkMessages && c.bytes < chunkBytes && c.passed < chunkPassed {
		return nil
	}
	return r.flush(ctx, next)
}

// accept adds a message to the chunk. An error says that the message was not read.
func (r *reading) accept(ctx context.Context, m *sink.Stored) error {
	r.headers.Read(m)
	err := r.parsed.parse(&r.headers, m)
	if s := r.writer(err); s != nil {
		if err := r.addOurs(ctx, s, m.Offset, err); err != nil {
			return err
		}
	}
	r.chunk.last = store.Anchor{Offset: m.Offset, Hash: hashOf(m, &r.parsed, err)}
	return nil
}

// writer returns the stream that has written the message, by domain, name and shard (rule 12); nil
// where it is a message of others. A version before catch-up wrote no domain.
func (r *reading) writer(err error) *stream {
	s := r.c.streams[string(r.headers.Stream)]
	if s == nil || string(r.headers.Domain) != r.c.opts.Domain && (len(r.headers.Domain) > 0 || err != errStateless) {
		return nil
	}
	if s.Mine != nil && !s.Mine(r.tp.shard(r.headers.Shard)) {
		return nil
	}
	return s
}

// addOurs adds a message of a stream to its feed. err is the error of its headers.
func (r *reading) addOurs(ctx context.Context, s *stream, offset uint64, err error) error {
	f := r.feed(s)
	if err != nil {
		if f == nil || f.has(offset) || err == errStateless && s.IgnoreBelow > 0 {
			return nil
		}
		return r.refuse(ctx, f, offset, err)
	}
	state := &r.parsed.State
	// Rule 7: what was there when the TP was registered may be of former processes, unless a newer
	// one had published before it.
	older := f != nil && (state.Epoch < f.met || state.Epoch < r.known && offset >= f.reread)
	for _, o := range r.feeds {
		o.met = max(o.met, state.Epoch)
	}
	if r.own != 0 && state.Epoch >= r.own {
		if covered, err := r.sent(f, offset); covered || err != nil {
			return err
		}
	}
	if f == nil || f.has(offset) {
		return nil
	}
	met := newest{state.Epoch, state.Seq, offset, r.tp.name}
	if state.Hash != s.Hash {
		return r.otherHash(ctx, f, met)
	}
	r.parsed.Shard = r.tp.shard(r.headers.Shard)
	if err := r.parsed.check(f.Release); err != nil {
		return r.refuse(ctx, f, offset, err)
	}
	f.right.keepNewer(met)
	r.keep(f, offset, older)
	return nil
}

// sent reports whether a message of our epoch is covered. The error says that it is in flight, or
// that another process has our epoch or a higher one (rules 1, 4 and 8).
func (r *reading) sent(f *served, offset uint64) (covered bool, err error) {
	state := &r.parsed.State
	if own := r.c.Epoch().Number(); state.Epoch > own {
		return false, fmt.Errorf("offset %d of %s: %w: a message of epoch %d was found, this process has epoch %d", offset, r.tp.name, ErrSuperseded, state.Epoch, own)
	}
	var number uint32
	if f != nil {
		number = f.number
	}
	switch r.c.committer.sendState(state.Seq, number, offset) {
	case inFlight:
		return false, errInFlight
	case acknowledged:
		return true, nil
	case notOurs:
		return false, fmt.Errorf("offset %d of %s: %w: its epoch %d is ours, and this process has not sent it", offset, r.tp.name, ErrSuperseded, state.Epoch)
	}
	return false, nil
}

// keep adds the message to its feed. Rule 7: what may be old is late.
func (r *reading) keep(f *served, offset uint64, older bool) {
	m := r.parsed
	m.Stream, m.At.TP, m.At.Offset = f.Name, f.number, offset
	begin := len(r.chunk.keys)
	r.chunk.keys = append(r.chunk.keys, m.Key...)
	m.Key = r.chunk.keys[begin:len(r.chunk.keys):len(r.chunk.keys)]
	m.Late = !f.Release && (older || f.caughtUp && offset >= f.reread)
	f.messages = append(f.messages, m)
	r.chunk.kept++
	r.chunk.bytes += len(m.Key) + messageBytes
}

// otherHash passes over a message with another hash (rule 12). Until Start has found a newer one
// with ours, the offset waits before it.
func (r *reading) otherHash(ctx context.Context, f *served, met newest) error {
	if f.caughtUp || met.epoch < f.IgnoreBelow {
		return nil
	}
	if !f.waits {
		if err := r.flush(ctx, met.offset); err != nil {
			return err
		}
	}
	f.waits = true
	f.wrong.keepNewer(met)
	return nil
}

// refuse stops a stream at a message of it that cannot be read (rule 12), and no other stream.
func (r *reading) refuse(ctx context.Context, f *served, offset uint64, err error) error {
	if err := r.flush(ctx, offset); err != nil {
		return err
	}
	stop := &StopError{Stream: f.Name, TP: r.tp.name, Offset: offset, Err: err}
	switch {
	case errors.Is(err, errStateless):
		stop.Reason = "an older version wrote it, and catch-up cannot tell what it says: give the stream another destination, or " + ignoring(f.stream)
	case errors.Is(err, sink.ErrNewerForm):
		stop.Reason = err.Error() + ": run the version that wrote it, or a newer one"
	default:
		stop.Reason = err.Error() + ": give the stream another destination"
	}
	return r.drop(f, stop)
}

func (r *reading) drop(f *served, err error) error {
	r.c.stop(f.stream, err)
	return r.removeFeed(f, errAllStopped)
}

// removeFeed goes on without a feed. It returns last if no other feed is left.
func (r *reading) removeFeed(f *served, last error) error {
	if r.feeds = slices.DeleteFunc(r.feeds, func(o *served) bool { return o == f }); len(r.feeds) == 0 {
		return last
	}
	return nil
}

func (r *reading) feed(s *stream) *served {
	for _, f := range r.feeds {
		if f.stream == s {
			return f
		}
	}
	return nil
}

// served is what a reading has for one stream.
type served struct {
	*stream
	number uint32
	// epoch is the highest that the registration has met, met that with the chunk (rule 7).
	epoch, met uint64
	// covered is what was read of the registration before, beside all that is below cursor.
	covered *covered
	cursor  uint64
	// caughtUp says that the stream was ready: then its messages are late (rule 7), but for those
	// below reread, which were there when this process registered the TP.
	caughtUp bool
	reread   uint64
	// from is the first offset that the chunk covers.
	from     uint64
	messages []Message
	// waits says that the offset must not pass the chunk before the end of Start.
	waits        bool
	right, wrong newest
}

// before returns the offset of the message right before a hole, which is to be compared when the
// hole is read (rule 20); that of the hole where there is none. Where the offset has passed over
// what other shares publish, the message lies far before: only a lookup compares it.
func (f *served) before(t *topicPartition, hole Range) uint64 {
	if a := f.covered.before(hole.From); a.Hash != 0 && a.Offset >= t.first.Load() && hole.From-a.Offset <= anchorReach {
		return a.Offset
	}
	return hole.From
}

// has reports whether a message was read or acknowledged before the reading began.
func (f *served) has(offset uint64) bool { return offset < f.cursor || f.covered.has(offset) }

// flush applies what was read up to an offset, for each stream in one commit with its offset.
func (r *reading) flush(ctx context.Context, to uint64) error {
	for _, f := range slices.Clone(r.feeds) {
		if err := r.apply(ctx, f, to); err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if errors.Is(err, errStore) {
				return err
			}
			if errors.Is(err, ErrUnread) {
				// What is left is read again for this stream, without a slot meanwhile.
				r.unread = err
				err = r.removeFeed(f, err)
			} else {
				err = r.drop(f, err)
			}
			if err != nil {
				return err
			}
		}
	}
	c := &r.chunk
	*c = chunk{keys: c.keys[:0]}
	return nil
}

func (r *reading) apply(ctx context.Context, f *served, to uint64) error {
	if to <= f.from && len(f.messages) == 0 && f.met <= f.epoch {
		// A commit would wake the reader that waits for a message in flight, over and over.
		return nil
	}
	p := Span{TP: f.number, Range: Range{From: f.from, To: max(to, f.from)}, waits: f.waits, high: r.chunk.last, epoch: f.met}
	if p.high.Offset >= f.from {
		p.Last = p.high
	}
	var err error
	if cover := (Cover{read: []Span{p}}); len(f.messages) == 0 {
		err = r.c.committer.apply(ctx, &store.Batch{}, cover)
	} else {
		disk := &r.c.committer.disk
		err = disk.note(f.stream, partTP+r.tp.name, disk.retry(ctx, func() error {
			// A panic about a message of one stream stops no other.
			if err := panics.Guard(func() error { return f.Feed.Apply(ctx, f.messages, nil, cover) }); err != nil {
				return fmt.Errorf("catch up stream %s: %w", f.Name, err)
			}
			return nil
		}))
	}
	if err != nil {
		return err
	}
	f.stream.read(f, p.To)
	f.messages, f.from, f.waits = f.messages[:0], p.To, false
	f.epoch = max(f.epoch, p.epoch)
	return nil
}
