package shard

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"time"
)

// Traffic is what a shard has published since the process began. It is part of a Status.
type Traffic struct {
	Published Published `json:"published"`
	// Late counts the rows that appeared inside a gap.
	Late uint64 `json:"late"`
	// DeadLetters counts the rows that were put aside.
	DeadLetters DeadLetters `json:"deadLetters"`
}

// Published says how many rows were published and acknowledged.
type Published struct {
	Rows uint64 `json:"rows"`
	// RowsPerSecond is the rate over the last 30 s.
	RowsPerSecond float64 `json:"rowsPerSecond"`
	// LastHour has the rows of each of the last 60 minutes, the oldest first; the last one has not
	// ended. Null where there was none.
	LastHour []uint32 `json:"lastHour"`
}

// DeadLetters counts the rows that were put aside. Reasons are the most frequent ones, with N for
// each number.
type DeadLetters struct {
	Count   uint64            `json:"count"`
	Reasons []DeadLetterCount `json:"reasons"`
}

// DeadLetterCount counts the dead letters of a reason.
type DeadLetterCount struct {
	Reason string `json:"reason"`
	Count  uint64 `json:"count"`
}

const (
	// rateSpan is the time over which rates are shown, sampleEvery the time between two samples.
	rateSpan    = 30 * time.Second
	sampleEvery = 5 * time.Second
	// trafficMinutes is how many minutes are counted one by one.
	trafficMinutes = 60
	// shortLag is the lag up to which a shard counts as drained, beside its stability window.
	shortLag = 5 * time.Second
	// mostReasons bounds the reasons of dead letters that are counted one by one, and mostReason
	// the bytes of one. Others count as otherReason.
	mostReasons = 8
	mostReason  = 160
	otherReason = "other reasons"
)

// traffic counts what a shard publishes. The lock of the tracker guards it. The zero value has
// counted nothing, and takes little memory until something is published.
type traffic struct {
	recent *recentTraffic
	late   uint64
	// reasons is nil until a row is put aside.
	reasons map[string]uint64
	// drained is the position at which the shard was last drained; known says that there is one.
	drained uint64
	known   bool
}

// recentTraffic has about 400 bytes.
type recentTraffic struct {
	rows uint64
	// samples are what was counted before, the oldest first.
	samples [int(rateSpan/sampleEvery) + 1]sample
	// minutes counts rows by Unix minute modulo its length; minute is the current one.
	minutes [trafficMinutes]uint32
	minute  int64
}

// sample is what was counted at a time, in Unix milliseconds.
type sample struct {
	at             int64
	rows, position uint64
}

// publish counts rows that are on the bus, at a time; position is the saved one.
func (t *traffic) publish(rows int, position uint64, now time.Time) {
	if rows == 0 {
		return
	}
	if t.recent == nil {
		t.recent = &recentTraffic{minute: minuteOf(now)}
		for i := range t.recent.samples {
			t.recent.samples[i] = sample{at: now.UnixMilli(), position: position}
		}
	}
	r := t.recent
	last := &r.samples[len(r.samples)-1]
	if since := now.UnixMilli() - last.at; since < 0 || since >= sampleEvery.Milliseconds() {
		copy(r.samples[:], r.samples[1:])
		*last = sample{at: now.UnixMilli(), rows: r.rows, position: position}
	}
	r.roll(now)
	r.rows += uint64(rows)
	r.minutes[r.minute%trafficMinutes] += uint32(rows)
}

// roll begins the minute of now, and drops those that are an hour old.
func (r *recentTraffic) roll(now time.Time) {
	minute := minuteOf(now)
	for next := max(r.minute+1, minute-trafficMinutes+1); next <= minute; next++ {
		r.minutes[next%trafficMinutes] = 0
	}
	// A clock that was set back counts on in the minute where it was.
	r.minute = max(r.minute, minute)
}

func minuteOf(t time.Time) int64 { return t.Unix() / 60 }

// rates returns how many rows are published and how many ids the position advances, a second.
func (r *recentTraffic) rates(position uint64, now time.Time) (rows, ids float64) {
	for _, s := range r.samples {
		age := now.Sub(time.UnixMilli(s.at))
		if age < 0 || age > rateSpan {
			// The clock was set back, or that is too long ago.
			continue
		}
		seconds := max(age, time.Second).Seconds()
		return float64(r.rows-s.rows) / seconds, float64(position-min(position, s.position)) / seconds
	}
	return 0, 0
}

// list returns the counts of the last minutes, nil where all are 0.
func (r *recentTraffic) list(now time.Time) []uint32 {
	r.roll(now)
	all := make([]uint32, 0, trafficMinutes)
	for i := int64(1); i <= trafficMinutes; i++ {
		all = append(all, r.minutes[(r.minute+i)%trafficMinutes])
	}
	if slices.Max(all) == 0 {
		return nil
	}
	return all
}

// save notes the saved position; drained says that the lag is short there.
func (t *traffic) save(position uint64, drained bool) {
	if drained || !t.known || position < t.drained {
		t.drained, t.known = position, true
	}
}

func (t *traffic) putAside(reason string) {
	if t.reasons == nil {
		t.reasons = make(map[string]uint64)
	}
	shape := []rune(digits.ReplaceAllString(reason, "N"))
	if len(shape) > mostReason {
		shape = append(shape[:mostReason], '…')
	}
	reason = string(shape)
	if _, known := t.reasons[reason]; !known && len(t.reasons) >= mostReasons {
		reason = otherReason
	}
	t.reasons[reason]++
}

// digits are what reasons that differ in sizes alone do not have in common.
var digits = regexp.MustCompile("[0-9]+")

// at returns what was counted until now, and how many ids the saved position advances a second.
func (t *traffic) at(position uint64, now time.Time) (shown Traffic, ids float64) {
	shown = Traffic{Late: t.late, DeadLetters: DeadLetters{Reasons: []DeadLetterCount{}}}
	if r := t.recent; r != nil {
		shown.Published.Rows, shown.Published.LastHour = r.rows, r.list(now)
		shown.Published.RowsPerSecond, ids = r.rates(position, now)
	}
	d := &shown.DeadLetters
	for _, reason := range slices.Sorted(maps.Keys(t.reasons)) {
		d.Count += t.reasons[reason]
		d.Reasons = append(d.Reasons, DeadLetterCount{reason, t.reasons[reason]})
	}
	slices.SortStableFunc(d.Reasons, func(a, b DeadLetterCount) int { return cmp.Compare(b.Count, a.Count) })
	return shown, ids
}

func (t *traffic) backlog(position, highest uint64, idsPerSecond float64) *Backlog {
	b := &Backlog{IDs: highest - position, IDsPerSecond: idsPerSecond}
	if from := min(t.drained, position); highest > from {
		b.Percent = 100 * float64(position-from) / float64(highest-from)
	}
	if idsPerSecond > 0 {
		left := float64(b.IDs) / idsPerSecond
		b.SecondsLeft = &left
	}
	return b
}

// lag tells how old the oldest committed row is that is not published, as far as the source has
// shown. All times are the host's and come in as arguments. The lock of the tracker guards it. The
// zero value knows nothing yet.
type lag struct {
	// left holds, for each way to find rows, since when the oldest has existed that it found and
	// left for later.
	left [finders]time.Time
	// handed is the same of the batch that is handed over and not committed.
	handed time.Time
	// looked is when all ways were last gone through; zero before the first time and after a stop.
	looked time.Time
	// unreadable says that the source could not be read at the last try, stopped that nobody tries.
	unreadable, stopped bool
	// fresh is how long a look says that nothing waits.
	fresh time.Duration
}

// finder is a way to find rows that wait.
type finder int

const (
	// findTail is the page behind the position, with the late rows of the same poll.
	findTail finder = iota
	// findChanges is the second cursor.
	findChanges
	// findMoves is what waits to be read in all tables of the stream.
	findMoves
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
	oldest := l.handed
	for _, at := range l.left {
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
	l.left, l.handed = [finders]time.Time{}, time.Time{}
	l.left[findStopped] = waits
}

// Left is what a shard leaves to the one of the same table in the next app of a process, where the
// configuration is the same: what it has counted and, if it has stopped, all that its status says.
// The zero value is that of a shard without a former one.
type Left struct {
	traffic traffic
	// stop is why it has stopped, nil if it has not; the others are of that.
	stop   error
	status Status
	since  time.Time
	lag    lag
}

// Leave returns what a shard leaves that does not run any more. Its status may still be read.
func (s *Shard) Leave() Left {
	t := &s.status
	t.mu.Lock()
	defer t.mu.Unlock()
	l := Left{traffic: t.traffic}
	// No memory is shared: the lock of another tracker guards it.
	l.traffic.reasons = maps.Clone(t.traffic.reasons)
	if t.traffic.recent != nil {
		recent := *t.traffic.recent
		l.traffic.recent = &recent
	}
	if t.stopped {
		l.stop, l.since, l.lag = t.err, t.since, t.lag
		l.status, _ = t.at(time.Now())
	}
	return l
}

// goOn has the shard count on, and stay stopped.
func (s *Shard) goOn(l *Left) {
	t := &s.status
	t.traffic = l.traffic
	if l.stop != nil {
		t.status, t.err, t.stopped, t.since, t.lag = l.status, l.stop, true, l.since, l.lag
	}
}
