package logburst

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"sync"
	"time"
)

// Options say what a burst is.
type Options struct {
	// Lines is how many shards of a stream write the same message before the further ones are
	// counted. Defaults to 20.
	Lines int
	// Window is how long they are counted, from the first line on. Defaults to 10 s.
	Window time.Duration
}

// The keys of attributes: those that shards log with, and those of the line about further shards.
const (
	streamKey = "stream"
	shardKey  = "shard"
	// MoreShards counts the shards that said the same and have no line of their own, Among names
	// the first of them.
	MoreShards = "more_shards"
	Among      = "among"
)

// named is how many of the further shards have their names in the line about them.
const named = 10

// A line that names a row is about that row, and passes: nothing else tells of it.
const (
	rowKey   = "id"
	eventKey = "event_id"
)

// Handler passes records on to another handler, save those of a burst. It is safe for concurrent
// use; all that WithAttrs and WithGroup return share their bursts.
type Handler struct {
	next          slog.Handler
	stream, shard string
	// row says that a row is named.
	row bool
	// grouped says that attributes are in a group: they name no shard.
	grouped bool
	all     *bursts
}

var _ slog.Handler = (*Handler)(nil)

// New returns a Handler. Flush writes what is counted when the process ends.
func New(next slog.Handler, o Options) *Handler {
	o.Lines = cmp.Or(o.Lines, 20)
	o.Window = cmp.Or(o.Window, 10*time.Second)
	return &Handler{next: next, all: &bursts{opts: o, root: next, open: make(map[key]*burst)}}
}

// Enabled implements slog.Handler.
func (h *Handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

// WithAttrs implements slog.Handler.
func (h *Handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	with := *h
	with.next = h.next.WithAttrs(attrs)
	for _, a := range attrs {
		with.note(a)
	}
	return &with
}

// WithGroup implements slog.Handler.
func (h *Handler) WithGroup(name string) slog.Handler {
	with := *h
	with.next, with.grouped = h.next.WithGroup(name), true
	return &with
}

// Handle implements slog.Handler.
func (h *Handler) Handle(ctx context.Context, r slog.Record) error {
	says := *h
	r.Attrs(func(a slog.Attr) bool { says.note(a); return true })
	if says.shard != "" && !says.row && !h.all.passes(says.stream, says.shard, r) {
		return nil
	}
	return h.next.Handle(ctx, r)
}

// Flush writes the lines about further shards that are due at the end of their windows.
func (h *Handler) Flush() {
	h.all.mu.Lock()
	open := maps.Clone(h.all.open)
	h.all.mu.Unlock()
	for k, b := range open {
		h.all.close(k, b)
	}
}

func (h *Handler) note(a slog.Attr) {
	if h.grouped {
		return
	}
	switch a.Key {
	case streamKey:
		h.stream = a.Value.String()
	case shardKey:
		h.shard = a.Value.String()
	case rowKey, eventKey:
		h.row = true
	}
}

// key is what shards have in common that say the same.
type key struct {
	level           slog.Level
	message, stream string
}

// bursts are those whose windows are open.
type bursts struct {
	opts Options
	root slog.Handler

	mu   sync.Mutex
	open map[key]*burst
}

// burst is the shards that have said the same within a window.
type burst struct {
	// own are the shards with lines of their own, of all shards.
	own, shards map[string]bool
	// among are the names of the first others.
	among []string
	// last is what one of the others said last.
	last slog.Record
	end  *time.Timer
}

// passes reports whether a record gets a line of its own.
func (a *bursts) passes(stream, shard string, r slog.Record) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	k := key{r.Level, r.Message, stream}
	b := a.open[k]
	if b == nil {
		b = &burst{own: make(map[string]bool), shards: make(map[string]bool)}
		b.end = time.AfterFunc(a.opts.Window, func() { a.close(k, b) })
		a.open[k] = b
	}
	if len(b.shards) < a.opts.Lines || b.own[shard] {
		b.shards[shard], b.own[shard] = true, true
		return true
	}
	if !b.shards[shard] && len(b.among) < named {
		b.among = append(b.among, shard)
	}
	b.shards[shard] = true
	b.last = r.Clone()
	return false
}

// close ends the window of b, and writes the line about the further shards.
func (a *bursts) close(k key, b *burst) {
	a.mu.Lock()
	if a.open[k] != b {
		a.mu.Unlock()
		return
	}
	delete(a.open, k)
	a.mu.Unlock()
	b.end.Stop()
	more := len(b.shards) - len(b.own)
	if more == 0 {
		return
	}
	r := slog.NewRecord(b.last.Time, k.level, k.message, b.last.PC)
	if k.stream != "" {
		r.AddAttrs(slog.String(streamKey, k.stream))
	}
	r.AddAttrs(slog.Int(MoreShards, more), slog.Any(Among, b.among))
	b.last.Attrs(func(attr slog.Attr) bool {
		if attr.Key != streamKey && attr.Key != shardKey {
			r.AddAttrs(attr)
		}
		return true
	})
	// As for a line of a logger: nobody hears of a log that cannot be written.
	_ = a.root.Handle(context.Background(), r)
}
