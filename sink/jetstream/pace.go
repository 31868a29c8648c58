package jetstream

import "time"

// When a worker gives up its fences and when it takes them up again.
const (
	// maxBreaks fences may be broken by others, one after the other with littleProgress between
	// them.
	maxBreaks      = 3
	littleProgress = 500
	// cleanAcks acknowledgements in a row without a repeat or a foreign message, and quietTime
	// without a foreign one.
	cleanAcks = 256
	quietTime = 5 * time.Second
	// For this long after a reconnect, the messages in between may be our own: the server still
	// reads what the old connection has sent.
	calmTime = time.Second
)

// pace decides between fenced series, which are strict and fast but need the stream for themselves,
// and unfenced ones.
type pace struct {
	unfenced bool
	breaks   int
	clean    int
	// next is the sequence of the next acknowledgement if nobody else writes; 0 when unknown.
	next uint64
	// foreign is when somebody else's message was last noticed.
	foreign time.Time
}

// ended draws the conclusions from a series. foreign says that somebody else's message ended it.
func (p *pace) ended(r *series, foreign bool, now time.Time) {
	p.next = 0
	if r.stored >= littleProgress {
		p.breaks = 0
	}
	switch {
	case r.moved:
		p.unfenced = false
		r.worker.options.Logger.Debug("publishing with fences again", "stream", r.worker.name)
	case r.fenced && r.sawDup:
		// Repeats seldom come alone, and each of them would end a fenced series.
		p.unfenced, p.clean = true, 0
	case r.fenced && foreign:
		p.broken(r.worker, r.wire.since, now)
	}
}

// broken notes that somebody else's message has shut a fence on a connection that began at since.
func (p *pace) broken(w *worker, since, now time.Time) {
	if now.Sub(since) < calmTime {
		return
	}
	if p.breaks++; p.breaks >= maxBreaks {
		p.unfenced, p.clean, p.breaks, p.foreign = true, 0, 0, now
		w.options.Logger.Info("others publish to the stream as well: one message per key at a time until they pause", "stream", w.name)
	}
}

// acked takes an acknowledgement of an unfenced series and reports whether fences are worth a try
// again.
func (p *pace) acked(a ack, now time.Time) bool {
	if a.duplicate {
		p.clean = 0
		return false
	}
	if p.next != 0 && a.seq != p.next {
		p.clean, p.foreign = 0, now
	}
	p.next = a.seq + 1
	p.clean++
	return p.clean >= cleanAcks && now.Sub(p.foreign) >= quietTime
}
