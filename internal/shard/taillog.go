package shard

import "time"

// tellEvery is how often a long piece of work says in the log how far it has come.
const tellEvery = 10 * time.Second

// tailLog tells the log how far a tail that lags has come.
type tailLog struct {
	opts    *Options
	status  *tracker
	server  *server
	arrival *arrival
	// since is when the tail fell behind, told when the log was told last, id its position then.
	since, told time.Time
	id          uint64
}

// note notes a position, and whether the tail is behind. Ids, unlike rows, need no count of the
// table.
func (p *tailLog) note(position uint64, behind bool) {
	if !behind {
		p.end(position)
		return
	}
	now := time.Now()
	if p.since.IsZero() {
		p.since, p.told, p.id = now, now, position
		return
	}
	elapsed := now.Sub(p.told)
	if elapsed < tellEvery || position <= p.id {
		return
	}
	highest := p.status.highest()
	rate := float64(position-p.id) / elapsed.Seconds()
	left := time.Duration(float64(highest-min(position, highest)) / rate * float64(time.Second))
	p.opts.Logger.Info("catching up", "position", position, "of", highest, "ids_per_second", int(rate), "left", left.Round(time.Second))
	p.told, p.id = now, position
}

// end notes that the tail is not behind.
func (p *tailLog) end(position uint64) {
	highest := p.status.highest()
	if p.server.tailless() {
		highest = position
	}
	before := p.arrival.read(p.opts.Logger, position, highest)
	if before && !p.told.IsZero() && p.told != p.since {
		p.opts.Logger.Info("caught up", "position", position, "after", time.Since(p.since).Round(time.Second))
	}
	p.since, p.told, p.id = time.Time{}, time.Time{}, 0
}
