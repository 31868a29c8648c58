package shard

import "time"

// lag tells how old the oldest committed row is that is not published, as far as the source has
// shown. All times are the host's and come in as arguments. The lock of the tracker guards it. The
// zero value knows nothing yet.
type lag struct {
	// left holds, for each way to find rows, since when the oldest has existed that it found and
	// left for later.
	left [finders]time.Time
	// handed holds the same of the batches that are handed out and not acknowledged, in their
	// order, named of the nominations that the owner has not handed out yet.
	handed []time.Time
	named  map[*nomination]time.Time
	// looked is when all ways were last gone through; zero before the first time and after a stop.
	looked time.Time
	// unreadable says that the source could not be read at the last try, stopped that nobody tries.
	unreadable, stopped bool
	// fresh is how long a look says that nothing waits.
	fresh time.Duration
}

// finder is a way to find rows that wait.
type finder int

// The finders.
const (
	// findTail is the page behind the position, with the late rows of the same poll.
	findTail finder = iota
	// findChanges is the second cursor.
	findChanges
	// findStopped stands for all that waited when the shard stopped, or an attempt ended.
	findStopped
	finders
)

// at returns the lag at now. It is not known while the source cannot be read, and where nothing is
// known to wait but the last look is too old to say so.
func (l *lag) at(now time.Time) (age time.Duration, known bool) {
	if l.unreadable {
		return 0, false
	}
	if oldest := l.oldest(); !oldest.IsZero() {
		return max(0, now.Sub(oldest)), true
	}
	if l.stopped || l.looked.IsZero() || now.Sub(l.looked) > l.fresh {
		return 0, false
	}
	return 0, true
}

// oldest returns since when the oldest row has existed that is known to wait, zero where none is.
func (l *lag) oldest() time.Time {
	var oldest time.Time
	for _, at := range l.left {
		oldest = earlier(oldest, at)
	}
	for _, at := range l.handed {
		oldest = earlier(oldest, at)
	}
	for _, at := range l.named {
		oldest = earlier(oldest, at)
	}
	return oldest
}

// earlier returns the earlier of two moments; a zero one does not count.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// leave notes since when the oldest row has existed that a finder leaves for later, zero for none.
func (l *lag) leave(f finder, since time.Time) { l.left[f] = since }

// hand notes a batch that is handed out and since when its oldest row has existed; acknowledge
// notes that the first of them has arrived, withdraw that the last one is not published.
func (l *lag) hand(since time.Time) { l.handed = append(l.handed, since) }

func (l *lag) acknowledge() { l.handed = l.handed[1:] }

func (l *lag) withdraw() { l.handed = l.handed[:len(l.handed)-1] }

// name notes that rows are nominated, and when; unname that the owner has handed out those that are
// news.
func (l *lag) name(n *nomination, at time.Time) {
	if l.named == nil {
		l.named = make(map[*nomination]time.Time)
	}
	l.named[n] = at
}

func (l *lag) unname(n *nomination) { delete(l.named, n) }

// polled notes that all finders were gone through at a time: what waited at a stop is found again
// by then.
func (l *lag) polled(at time.Time) {
	l.looked = at
	l.left[findStopped] = time.Time{}
}

// fail notes that the source could not be read, answer that it was.
func (l *lag) fail() { l.unreadable = true }

func (l *lag) answer() { l.unreadable, l.stopped = false, false }

// stop notes that the shard reads no more: what is known to wait goes on to wait, and the rest is
// unknown. A table that is gone cannot be read.
func (l *lag) stop(gone bool) {
	l.abandon()
	l.unreadable = l.unreadable || gone
	l.looked, l.stopped = time.Time{}, true
}

// abandon notes that the attempt has ended: what is known to wait goes on to wait until it is found
// again.
func (l *lag) abandon() {
	waits := l.oldest()
	l.left, l.handed = [finders]time.Time{}, nil
	l.left[findStopped] = waits
}

// heights knows when the table was first seen to hold ids up to a height: the age of rows without a
// CREATED. It is exact for a poll, and bounded; where it forgets, rows count as up to a thirtieth
// older.
type heights struct{ list []height }

type height struct {
	id uint64
	at time.Time
}

const maxHeights = 64

// see notes that the table held ids up to highest at a time.
func (h *heights) see(highest uint64, at time.Time) {
	n := len(h.list)
	if n > 0 && highest <= h.list[n-1].id {
		return
	}
	h.list = append(h.list, height{highest, at})
	if n < maxHeights {
		return
	}
	// Those two become one that are the closest.
	least := 0
	for i := range n {
		if h.list[i+1].at.Sub(h.list[i].at) < h.list[least+1].at.Sub(h.list[least].at) {
			least = i
		}
	}
	h.list[least].id = h.list[least+1].id
	h.list = append(h.list[:least+1], h.list[least+2:]...)
}

// pass forgets the heights up to a position.
func (h *heights) pass(position uint64) {
	n := 0
	for n < len(h.list) && h.list[n].id <= position {
		n++
	}
	h.list = append(h.list[:0], h.list[n:]...)
}

// since returns when an id at least as high as id was first seen, zero where none was.
func (h *heights) since(id uint64) time.Time {
	for _, one := range h.list {
		if one.id >= id {
			return one.at
		}
	}
	return time.Time{}
}
