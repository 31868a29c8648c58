package shard

import "time"

// tellEvery is how often a long piece of work says in the log how far it has come.
const tellEvery = 10 * time.Second

// catching is a tail that is behind, as it was when the log was told last.
type catching struct {
	since, told time.Time
	id          uint64
}

// catchUp tells the log now and then how far a tail that is behind has come. Ids, unlike rows, need no count of the table.
func (s *Shard) catchUp(position uint64, behind bool) {
	c := &s.catching
	if !behind {
		highest := s.status.highest()
		if s.server.tailless() {
			highest = position
		}
		before := s.arrival.read(s.opts.Logger, position, highest)
		if before && !c.told.IsZero() && c.told != c.since {
			s.opts.Logger.Info("caught up", "position", position, "after", time.Since(c.since).Round(time.Second))
		}
		*c = catching{}
		return
	}
	now := time.Now()
	if c.since.IsZero() {
		*c = catching{since: now, told: now, id: position}
		return
	}
	elapsed := now.Sub(c.told)
	if elapsed < tellEvery || position <= c.id {
		return
	}
	highest := s.status.highest()
	rate := float64(position-c.id) / elapsed.Seconds()
	left := time.Duration(float64(highest-min(position, highest)) / rate * float64(time.Second))
	s.opts.Logger.Info("catching up", "position", position, "of", highest, "ids_per_second", int(rate), "left", left.Round(time.Second))
	c.told, c.id = now, position
}
