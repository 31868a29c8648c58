package shard

import (
	"example.org/bridge/internal/null"
	"example.org/bridge/internal/stream"
)

// Republish returns what was asked to be published again of the shard, and how far that is; nil for
// nothing.
func (s *Shard) Republish() *RepublishStatus {
	return RepublishStatusOf(s.opts.Feed.Republish(s.opts.Name))
}

// RepublishStatus is how far a request to publish again is. Times are by the host's clock.
type RepublishStatus struct {
	State stream.RepublishState `json:"state"`
	// From and To are the first and the last id, Keys how many keys were asked for instead; Where
	// is the condition, null for none. Rate is in rows a second, 0 for no bound.
	From  uint64    `json:"from"`
	To    uint64    `json:"to"`
	Keys  int       `json:"keys"`
	Where null.Text `json:"where"`
	Rate  int       `json:"rate"`
	// Cursor is the id, or how many of the keys, up to which all is done.
	Cursor  uint64  `json:"cursor"`
	Percent float64 `json:"percent"`
	// Rows counts events that were published again, Changed those of rows that said something new.
	Rows    uint64    `json:"rows"`
	Changed uint64    `json:"changed"`
	AskedAt null.Time `json:"askedAt"`
	EndedAt null.Time `json:"endedAt"`
	Error   null.Text `json:"error"`
	// List is the id of the full list that the rows are part of, null for none. Waits says why the
	// next rows are tried again, null while they are not.
	List  null.Text `json:"list"`
	Waits null.Text `json:"waits"`
}

// RepublishStatusOf returns how far a request is; nil of nil.
func RepublishStatusOf(r *stream.Republish) *RepublishStatus {
	if r == nil {
		return nil
	}
	s := &RepublishStatus{
		State: r.State, From: r.From, To: r.To, Keys: len(r.Keys), Where: null.Text(r.Where), Rate: int(r.Rate), Cursor: r.Cursor,
		Rows: r.Rows, Changed: r.Changed, AskedAt: null.At(r.Asked), EndedAt: null.At(r.Ended), Error: null.Text(r.Error),
		List: null.Text(r.List),
	}
	first, last := max(1, r.From), r.To
	if len(r.Keys) > 0 {
		first, last = 1, uint64(len(r.Keys))
	}
	switch {
	case r.State == stream.RepublishDone, last < first:
		s.Percent = 100
	case r.Cursor >= first:
		s.Percent = 100 * float64(min(r.Cursor, last)-first+1) / float64(last-first+1)
	}
	return s
}
