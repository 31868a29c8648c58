package catchup

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"bridge/checkpoint/store"
	"bridge/internal/panics"
)

// feed is what a reading has for one stream.
type feed struct {
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
	// began is the first offset that the reading covers, from that of the chunk.
	began, from uint64
	messages    []Message
	// waits says that the offset must not pass the chunk before the end of Start.
	waits        bool
	right, wrong newest
}

// has reports whether a message was read or acknowledged before the reading began.
func (f *feed) has(offset uint64) bool { return offset < f.cursor || f.covered.has(offset) }

// older reports whether a message of an epoch is late in catch-up (rule 7). What was there when the
// TP was registered may be of former processes, unless a newer one had published before it.
func (f *feed) older(epoch, offset, known uint64) bool {
	return epoch < f.met || epoch < known && offset >= f.reread
}

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
			if err := r.drop(f, err); err != nil {
				return err
			}
		}
	}
	c := &r.chunk
	c.seen, c.passed, c.kept, c.bytes, c.keys = false, 0, 0, 0, c.keys[:0]
	return nil
}

// apply applies what was read for a stream, and its offset.
func (r *reading) apply(ctx context.Context, f *feed, to uint64) error {
	if to <= f.from && len(f.messages) == 0 && f.met <= f.epoch {
		// A commit would wake the reader that waits for a message in flight, over and over.
		return nil
	}
	p := piece{tp: f.number, Range: Range{From: f.from, To: max(to, f.from)}, waits: f.waits, epoch: f.met}
	if r.chunk.seen {
		p.high = r.chunk.last.anchor()
		if p.high.Offset >= f.from {
			p.Last = p.high
		}
	}
	commits := 0
	commit := func(b *store.Batch) error {
		commits++
		return r.c.committer.cover(ctx, b, p)
	}
	err := r.c.committer.disk.retry(ctx, func() error {
		if commits = 0; len(f.messages) == 0 {
			return commit(&store.Batch{})
		}
		return f.feedTo(ctx, commit)
	})
	if err == nil && commits != 1 {
		err = fmt.Errorf("catch up stream %s: its feed has committed %d times", f.Name, commits)
	}
	if err != nil {
		return err
	}
	f.stream.read(f, p.To, r.tp.name)
	f.stream.messages.Add(uint64(len(f.messages)))
	f.messages, f.from, f.waits = f.messages[:0], p.To, false
	f.epoch = max(f.epoch, p.epoch)
	return nil
}

// feedTo hands the messages to the feed.
func (f *feed) feedTo(ctx context.Context, commit func(*store.Batch) error) error {
	// A panic about a message of one stream stops no other.
	if err := panics.Guard(func() error { return f.Feed.Apply(ctx, f.messages, commit) }); err != nil {
		return fmt.Errorf("catch up stream %s: %w", f.Name, err)
	}
	return nil
}
