package catchup

import (
	"cmp"
	"time"
)

// logEvery is the time between two lines of the log while Start runs.
const logEvery = 10 * time.Second

// Progress says how far catch-up has come, for the log, status and readiness.
type Progress struct {
	// Streams are in the order of the configuration.
	Streams []StreamProgress
	// Epoch is that of this process, 0 before it is known.
	Epoch uint64
	// Superseded is the error of a process that another one has taken over from.
	Superseded error
}

// StreamProgress is how far a stream has come.
type StreamProgress struct {
	Stream string
	// Ready says that the stream has caught up; Err why it does not go on. Following says that it
	// has read what there was a moment ago, and reads on until it is the turn of this process.
	Ready, Following bool
	Err              error
	// Messages counts those of the stream that were read, Left the offsets that Start has to read:
	// messages of others are among them, and some may be gone.
	Messages, Left uint64
	// Rate is how many offsets a second were read since Start, ETA how long the rest takes at that
	// rate; 0 where it is not known.
	Rate float64
	ETA  time.Duration
	// Elapsed is how long the stream has been catching up, or took.
	Elapsed time.Duration
}

// Progress returns how far catch-up has come.
func (c *CatchUp) Progress() Progress {
	p := Progress{Epoch: c.own(), Superseded: c.superseded()}
	for _, s := range c.order {
		p.Streams = append(p.Streams, c.progress(s))
	}
	return p
}

// progress returns how far a stream has come.
func (c *CatchUp) progress(s *stream) StreamProgress {
	p := StreamProgress{Stream: s.Name, Ready: s.isReady(), Err: s.failure(), Messages: s.messages.Load()}
	tps := s.partitions()
	ends := c.registrar.ends(tps)
	stored := make([]uint64, len(tps))
	for i, t := range tps {
		if _, covered := c.committer.snapshot(s.Name, t.name); covered != nil {
			stored[i] = covered.Next
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p.Following = !s.followed.IsZero() && time.Since(s.followed) <= c.opts.FollowEvery+c.opts.IdleEvery
	var read uint64
	for i, t := range tps {
		at, begun := s.positions[t.name]
		if !begun {
			at.from, at.to = stored[i], stored[i]
		}
		read += at.to - at.from
		p.Left += max(ends[i], at.to) - at.to
	}
	if p.Ready {
		p.Left = 0
	}
	if !s.began.IsZero() {
		end := s.ended
		if end.IsZero() {
			end = time.Now()
		}
		p.Elapsed = end.Sub(s.began)
	}
	if seconds := p.Elapsed.Seconds(); seconds > 0 {
		p.Rate = float64(read) / seconds
	}
	if p.Rate > 0 {
		p.ETA = time.Duration(cmp.Or(float64(p.Left)/p.Rate, 0) * float64(time.Second))
	}
	return p
}

// logProgress writes a line for each stream that catches up, every 10 s, until done is closed.
func logProgress(c *CatchUp, done <-chan struct{}) {
	ticker := time.NewTicker(logEvery)
	defer ticker.Stop()
	for {
		select {
		case <-done:
			return
		case <-ticker.C:
		}
		for _, p := range c.Progress().Streams {
			if !p.Ready && !p.Following && p.Err == nil {
				args := []any{"stream", p.Stream, "messages", p.Messages, "left", p.Left, "offsets_per_second", int(p.Rate)}
				if p.ETA > 0 {
					args = append(args, "eta", p.ETA.Round(time.Second))
				}
				c.opts.Log.Info("reading the bus", args...)
			}
		}
	}
}

// logEnd writes what Start has read.
func logEnd(c *CatchUp) {
	var messages uint64
	ready := 0
	p := c.Progress()
	for i := range p.Streams {
		messages += p.Streams[i].Messages
		if p.Streams[i].Ready {
			ready++
		}
	}
	c.mu.Lock()
	elapsed := time.Since(c.begun)
	c.mu.Unlock()
	c.opts.Log.Info("the bus was read", "streams", ready, "stopped", len(p.Streams)-ready, "messages", messages,
		"elapsed", elapsed.Round(time.Millisecond), "epoch", p.Epoch)
}
