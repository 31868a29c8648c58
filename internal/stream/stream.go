package stream

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/client/backoff"
	"example.org/bridge/internal/null"
	"example.org/bridge/internal/outage"
)

// StopError says why a stream cannot catch up: a message of it cannot be applied (rule 12).
type StopError struct {
	Stream, TP string
	Offset     uint64
	// Reason says what is wrong with the message, and what to do.
	Reason string
	Err    error
}

func (e *StopError) Error() string {
	return fmt.Sprintf("catch up stream %s: offset %d of %s: %s", e.Stream, e.Offset, e.TP, e.Reason)
}

// Unwrap returns the error of the message.
func (e *StopError) Unwrap() error { return e.Err }

type stream struct {
	*Stream
	c *CatchUp
	// ready is closed when the stream has caught up, stopped when it does not go on.
	ready, stopped chan struct{}
	// looking is held by the one that looks up the TPs: lookBegan is when the last look began,
	// lookedUp when Register has ended one last, unread says that it has found that the stream
	// cannot be read.
	looking             chan struct{}
	lookBegan, lookedUp time.Time
	unread              bool
	// messages counts those that were read of the stream, passed the offsets.
	messages, passed atomic.Uint64
	// waitsFrom is when a part of the store that readings need was last not read for the stream.
	waitsFrom atomic.Int64
	// isRead says that no offset passes over what was not read: Start could not read the stream
	// (rule 24), or another process of the share has begun.
	isRead atomic.Bool
	// held says that offsets do not pass now (passTo): what is left is read meanwhile.
	held atomic.Bool

	mu  sync.Mutex
	err error
	// followed is when Start has last read to the end, while it reads on until it is our turn; else
	// zero.
	followed time.Time
	// tps are the tps of the destinations, as they were looked up last, found is when that ended.
	tps   []*topicPartition
	found time.Time
	// rereads has the end of each TP that this process has registered, by number, until Rereading
	// finds it read.
	rereads map[uint32]uint64
	// right and wrong are the newest messages with our hash and with another one (rule 12).
	right, wrong newest
	// waits says that offsets wait for the end of Start behind messages with another hash.
	waits bool
	// unknown says that the last message of an entity may have expired unread, in a TP other than
	// the one of its entry.
	unknown bool
	// began and ended are when the stream began to catch up and when it was ready.
	began, ended time.Time
}

type newest struct {
	epoch, seq, offset uint64
	tp                 string
}

func (n *newest) keepNewer(o newest) {
	if o.epoch > n.epoch || o.epoch == n.epoch && o.seq > n.seq {
		*n = o
	}
}

// stop ends the stream with err; the first one counts. It reports whether it was that.
func (s *stream) stop(err error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return false
	}
	s.err = err
	close(s.stopped)
	return true
}

func (s *stream) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

func (s *stream) isReady() bool {
	select {
	case <-s.ready:
		return true
	default:
		return false
	}
}

func (s *stream) partitions() []*topicPartition {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tps
}

func (s *stream) read(f *served, to uint64) {
	s.messages.Add(uint64(len(f.messages)))
	s.passed.Add(to - f.from)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.right.keepNewer(f.right)
	s.wrong.keepNewer(f.wrong)
	s.waits = s.waits || f.waits
}

// checkHash returns an error where the newest message of the stream has another hash (rule 12).
func (s *stream) checkHash() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	newer := s.right
	if newer.keepNewer(s.wrong); s.wrong.tp == "" || newer != s.wrong {
		return nil
	}
	return &StopError{Stream: s.Name, TP: s.wrong.tp, Offset: s.wrong.offset,
		Reason: "the newest message was published with another KIND, KEY or scope of entities: restore that setting, use another destination, or " + ignoring(s)}
}

// ignoring names the commands that have a stream go on without what was published before (rule 12).
func ignoring(s *stream) string {
	return fmt.Sprintf("stop bridge, then to ignore what was published and begin at START again: bridge checkpoint reset %s; "+
		"to ignore it and go on behind an id, for each table: bridge checkpoint set %s <table> <id>", s.Name, s.Name)
}

type topicPartition struct {
	name string
	// reading is held by the one that reads it.
	reading chan struct{}

	// What follows belongs to the one that holds reading.

	// cursors are how far Start has read, by registration. It passes messages with another hash.
	cursors map[uint32]uint64
	// shards has names of shards, at most mostNames.
	shards map[string]string

	// What follows may be used by anyone.

	// first and end are as they were looked up last.
	first, end atomic.Uint64
	// compared is when the anchors were compared; nil: they are due.
	compared atomic.Pointer[time.Time]
	// sessions counts those of the sink.
	sessions atomic.Uint64
	// busy says that Run reads it.
	busy atomic.Bool
}

func (t *topicPartition) isDue(every time.Duration) bool {
	at := t.compared.Load()
	return at == nil || time.Since(*at) >= every
}

const mostNames = 1000

// shard returns the name of a shard, without a copy where it is known.
func (t *topicPartition) shard(name []byte) string {
	known, ok := t.shards[string(name)]
	if !ok {
		if len(t.shards) >= mostNames {
			// Each of many partitions may have messages of all tables.
			clear(t.shards)
		}
		known = string(name)
		t.shards[known] = known
	}
	return known
}

const logEvery = 10 * time.Second

// CatchUpProgress says how far catch-up has come, for the log, status and readiness.
type CatchUpProgress struct {
	// Streams are in the order of the configuration.
	Streams []StreamProgress
	// Epoch is the epoch of this process, 0 before it is known.
	Epoch uint64
	// Superseded is the error of a process that another one has taken over from.
	Superseded error
}

// StreamProgress is how far a stream has read from the bus what the checkpoint lacks, as
// /api/v1/status shows it.
type StreamProgress struct {
	Stream string `json:"-"`
	// Ready says that the stream has caught up.
	Ready bool `json:"ready"`
	// Error is why it does not go on, null while it does. The daemon makes it of Err.
	Error null.Text `json:"error"`
	Err   error     `json:"-"`
	// Following says that it has read what there was a moment ago, and reads on until it is the
	// turn of this process.
	Following bool `json:"-"`
	// Messages counts those of the stream that were read, Left the offsets that are left to read,
	// those of other messages included; some may be gone.
	Messages uint64 `json:"messages"`
	Left     uint64 `json:"left"`
	// OffsetsPerSecond is how many were read a second, SecondsLeft how long the rest takes at that
	// rate, 0 where it is not known.
	OffsetsPerSecond float64 `json:"offsetsPerSecond"`
	SecondsLeft      float64 `json:"secondsLeft"`
	// Seconds is how long the stream has been catching up, or took.
	Seconds float64 `json:"seconds"`
}

// Progress returns how far catch-up has come.
func (c *CatchUp) Progress() CatchUpProgress {
	p := CatchUpProgress{Epoch: c.Epoch().Number(), Superseded: c.superseded()}
	for _, s := range c.order {
		p.Streams = append(p.Streams, s.progress())
	}
	return p
}

func (s *stream) progress() StreamProgress {
	p := StreamProgress{Stream: s.Name, Ready: s.isReady(), Err: s.failure(), Messages: s.messages.Load()}
	for _, t := range s.partitions() {
		var next uint64
		if covered := s.c.committer.snapshot(s.Name, t.name); covered != nil {
			next = covered.Next
		}
		p.Left += max(t.end.Load(), next) - next
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p.Following = !s.followed.IsZero() && time.Since(s.followed) <= followEvery+s.c.opts.IdleEvery
	if p.Ready {
		p.Left = 0
	}
	if !s.began.IsZero() {
		end := s.ended
		if end.IsZero() {
			end = time.Now()
		}
		p.Seconds = end.Sub(s.began).Seconds()
	}
	if p.Seconds > 0 {
		p.OffsetsPerSecond = float64(s.passed.Load()) / p.Seconds
	}
	if p.OffsetsPerSecond > 0 {
		p.SecondsLeft = float64(p.Left) / p.OffsetsPerSecond
	}
	return p
}

func logProgress(ctx context.Context, c *CatchUp) {
	for backoff.Pause(ctx, logEvery) == nil {
		for _, p := range c.Progress().Streams {
			if !p.Ready && !p.Following && p.Err == nil {
				args := []any{"stream", p.Stream, "messages", p.Messages, "left", p.Left, "offsets_per_second", int(p.OffsetsPerSecond)}
				if p.SecondsLeft > 0 {
					args = append(args, "eta", time.Duration(p.SecondsLeft*float64(time.Second)).Round(time.Second))
				}
				c.opts.Log.Info("reading the bus", args...)
			}
		}
	}
}

func logEnd(c *CatchUp) {
	messages, ready, seconds := uint64(0), 0, 0.0
	p := c.Progress()
	for i := range p.Streams {
		messages, seconds = messages+p.Streams[i].Messages, max(seconds, p.Streams[i].Seconds)
		if p.Streams[i].Ready {
			ready++
		}
	}
	elapsed := time.Duration(seconds * float64(time.Second)).Round(time.Millisecond)
	c.opts.Log.Info("the bus was read", "streams", ready, "stopped", len(p.Streams)-ready, "messages", messages, "elapsed", elapsed, "epoch", p.Epoch)
}

// storeName is what the outage log calls the store as a whole.
const storeName = "checkpoint"

// disk tells the outage log when the store takes no writes, and when it does again.
type disk struct{ faults *outage.Log }

// retry calls write until it succeeds, fails otherwise than by an outage, or ctx ends.
func (d *disk) retry(ctx context.Context, write func() error) error {
	failed := false
	pause := backoff.Backoff{First: firstOfOutage, Max: outagePause}
	err := pause.Retry(ctx, write, func(err error) bool {
		away := errors.Is(err, store.ErrOutage)
		if failed = failed || away; away {
			d.faults.Fail(storeName, err)
		}
		return away
	})
	if failed && err == nil {
		d.faults.OK(storeName)
	}
	return err
}

// untilRead calls do until all was read of the store that it needs for a part of a stream.
func (d *disk) untilRead(ctx context.Context, s *stream, part string, do func() error) error {
	pause := backoff.Backoff{First: firstOfOutage, Max: outagePause}
	return pause.Retry(ctx, func() error { return d.note(s, part, do()) }, func(err error) bool { return errors.Is(err, ErrUnread) })
}

// wholeStream is the stream as a whole to note, partTP and a name a TP of it, partLate its late
// messages, which no reading of the bus needs.
const (
	wholeStream = ""
	partTP      = "/tp/"
	partLate    = "/late"
)

// note tells the outage log if err says that the store was not read for a part of a stream, and
// when it was. It returns err.
func (d *disk) note(s *stream, part string, err error) error {
	name := storeName + "/" + s.Name + part
	if err == nil {
		d.faults.OK(name)
	} else if errors.Is(err, ErrUnread) {
		if part != partLate {
			s.waitsFrom.Store(time.Now().UnixNano())
		}
		d.faults.Fail(name, err)
	}
	return err
}
