package shard

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
)

// Limits bounds what all shards of a database use together: the bytes of batches that are read,
// wait or are in flight, and the number of concurrent reads. Half of the bytes belongs to the
// streams in equal parts, the other half is first come, first served: a stream whose bus does not
// answer cannot stop the others. It is safe for concurrent use.
// Invariant 7: memory is bounded whatever the backlog and the number of shards.
type Limits struct {
	common *semaphore.Weighted
	// reads bounds the reads that begin; one that was begun goes back to where it came from.
	reads atomic.Pointer[semaphore.Weighted]
	// big is held by the one batch that is larger than a share, as of a huge row, and needs none.
	big *semaphore.Weighted
	// part is what belongs to one stream, share what a read reserves.
	part, share int64
	used        atomic.Int64
}

// A read reserves a share before it knows how many bytes it returns. The values of its page may use
// a sixth of that: there can be a page of late rows, too, and events and messages need the rest.
const (
	maxShare     = 4 << 20
	shareDivisor = 8
	valuesPart   = 6
)

// NewLimits returns limits of maxBytes in flight for the given number of streams, and of maxReads
// concurrent reads. All must be at least 1.
func NewLimits(maxBytes int64, streams, maxReads int) *Limits {
	part := max(1, maxBytes/2/int64(streams))
	l := &Limits{
		common: semaphore.NewWeighted(maxBytes / 2),
		big:    semaphore.NewWeighted(1),
		part:   part,
		share:  max(1, min(maxShare, maxBytes/shareDivisor, part)),
	}
	l.SetReads(maxReads)
	return l
}

// SetReads has at most n reads begin at the same time from now on.
func (l *Limits) SetReads(n int) { l.reads.Store(semaphore.NewWeighted(int64(n))) }

// InFlight returns the bytes that are reserved at the moment.
func (l *Limits) InFlight() int64 { return l.used.Load() }

// Stream returns the limits of one stream, which its shards share.
func (l *Limits) Stream() *StreamLimits {
	return &StreamLimits{Limits: l, own: semaphore.NewWeighted(l.part)}
}

// StreamLimits is what the shards of one stream may use. It is safe for concurrent use.
type StreamLimits struct {
	*Limits
	own *semaphore.Weighted
}

type hold struct {
	from  *semaphore.Weighted
	bytes int64
	big   bool
}

// pageBytes is the bound for the values of one page.
func (l *StreamLimits) pageBytes() int { return int(max(1, l.share/valuesPart)) }

// reserve blocks until a share is free, of what belongs to the stream or to all: tables that wait
// for their topics may hold either for ever.
func (l *StreamLimits) reserve(ctx context.Context) (hold, error) {
	for _, from := range [...]*semaphore.Weighted{l.own, l.common} {
		if from.TryAcquire(l.share) {
			l.used.Add(l.share)
			return hold{from: from, bytes: l.share}, nil
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	first := make(chan *semaphore.Weighted)
	for _, from := range [...]*semaphore.Weighted{l.own, l.common} {
		go func() {
			if from.Acquire(ctx, l.share) != nil {
				return
			}
			select {
			case first <- from:
			case <-ctx.Done():
				from.Release(l.share)
			}
		}()
	}
	select {
	case from := <-first:
		l.used.Add(l.share)
		return hold{from: from, bytes: l.share}, nil
	case <-ctx.Done():
		return hold{}, context.Cause(ctx)
	}
}

// resize gives back what a batch of need bytes leaves of its share. It reports false if need is
// more than the share and another such batch is in flight: then the batch must be dropped, and read
// again once big is acquired.
func (l *StreamLimits) resize(h *hold, need int64) bool {
	if need > h.bytes {
		h.big = h.big || l.big.TryAcquire(1)
		return h.big
	}
	l.free(h, h.bytes-need)
	return true
}

func (l *StreamLimits) free(h *hold, n int64) {
	if n > 0 {
		h.bytes -= n
		// First, or it would count twice what another takes at once.
		l.used.Add(-n)
		h.from.Release(n)
	}
}

// release gives back all of h. It may be called again.
func (l *StreamLimits) release(h *hold) {
	l.free(h, h.bytes)
	if h.big {
		h.big = false
		l.big.Release(1)
	}
}

// Rate bounds the rows a second that the tails of a stream hand over, all shards together. Late
// rows come first: they may use what tails will get next. It is safe for concurrent use.
//
// A limiter of golang.org/x/time/rate grants all or nothing: here a page is cut.
type Rate struct {
	mu sync.Mutex
	// perSecond is 0 where there is no bound.
	perSecond float64
	// rows are those that may pass now, at is when they were counted.
	rows float64
	at   time.Time
}

// NewRate returns a bound of so many rows a second; 0 is none.
func NewRate(perSecond int64) *Rate { return &Rate{perSecond: float64(perSecond)} }

// Set changes the bound. It counts at once.
func (r *Rate) Set(perSecond int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count(time.Now())
	r.perSecond = float64(perSecond)
	r.rows = max(-r.burst(), min(r.rows, r.burst()))
}

// PerSecond returns the bound in rows a second, 0 where there is none.
func (r *Rate) PerSecond() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return int64(r.perSecond)
}

// burst is how many rows may pass at once, at least one: there are several pages a second, so that
// the flow is even.
func (r *Rate) burst() float64 { return max(1, r.perSecond/4) }

func (r *Rate) count(now time.Time) {
	if elapsed := now.Sub(r.at); elapsed > 0 {
		r.rows, r.at = min(r.burst(), r.rows+elapsed.Seconds()*r.perSecond), now
	}
}

// admit returns how many of n rows may pass. Late ones may leave a debt, which the tails wait for.
func (r *Rate) admit(n int, late bool) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.perSecond == 0 {
		return n
	}
	r.count(time.Now())
	room := r.rows
	if late {
		room += r.burst()
	}
	n = max(0, min(n, int(room)))
	r.rows -= float64(n)
	return n
}

// put takes back n rows that were to pass and did not.
func (r *Rate) put(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rows = min(r.burst(), r.rows+float64(n))
}

// page returns how many rows a tail reads where it would read at most n: those that may pass, and
// at least one, which shows that there are more.
func (r *Rate) page(n int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.perSecond == 0 {
		return n
	}
	r.count(time.Now())
	return max(1, min(n, int(r.rows)))
}

// wait returns how long it takes until a tail may go on with a page that is worth its statement.
func (r *Rate) wait() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.perSecond == 0 {
		return 0
	}
	r.count(time.Now())
	rows := max(1, math.Floor(r.burst()/2)) - r.rows
	return time.Duration(max(0, rows/r.perSecond) * float64(time.Second))
}
