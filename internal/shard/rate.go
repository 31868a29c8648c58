package shard

import (
	"math"
	"sync"
	"time"
)

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
