package shard

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"example.org/bridge/internal/null"
	"example.org/bridge/internal/stream"
	"example.org/bridge/sink"
)

// turn returns the request that a page of is to be published now, nil for none. Of a full list it
// does what comes before the rows and behind them. Nothing of the shard is on its way.
func (r *republishing) turn(ctx context.Context) (asked *stream.Republish, pause time.Duration, err error) {
	lists := r.opts.Feed.Lists()
	list, asked := lists.Last(), r.opts.Feed.Republish(r.opts.Name)
	leads := lists.Leads(r.opts.Name)
	switch {
	case asked.Running() && asked.List == "":
		return asked, 0, nil
	case !list.Running() && asked.Running():
		// The list has ended without this table.
		return nil, 0, r.finish(ctx, &stream.Republished{Number: asked.Number, Cursor: asked.Cursor, State: stream.RepublishCancelled})
	case !list.Running():
		return nil, 0, nil
	case leads && r.opts.ListFault != "":
		return nil, 1, r.listEnded(ctx, list, stream.RepublishFailed, "a full list "+r.opts.ListFault)
	case list.List == "" && leads:
		return nil, 1, r.beginList(ctx, list)
	case list.List == "":
	case asked == nil || asked.List != list.List:
		return nil, 1, r.saveList(ctx, func() error { return lists.Begin(ctx, list.Number, list, r.opts.Name) })
	case asked.Running():
		return asked, 0, nil
	case leads:
		return nil, againPause, r.endList(ctx, list)
	}
	return nil, againPause, nil
}

func (r *republishing) saveList(ctx context.Context, change func() error) error {
	return r.reader.retrier.wait(owning, forEver, func() error { return r.reader.retrier.writeStore(ctx, owning, change) })
}

// beginList sends the boundaries that begin a list. Its id is a stamp, which no message has. What
// is made once they are acknowledged, and so lies behind them, has a higher stamp than the list.
func (r *republishing) beginList(ctx context.Context, list *stream.Republish) error {
	epoch := r.opts.Recovery.Epoch()
	begun := &stream.Republish{Epoch: epoch.Number(), List: fmt.Sprintf("%x-%x", epoch.Number(), epoch.Next(1))}
	boundaries, tps, err := r.boundaries(ctx, sink.ListBegins, begun.List)
	if err != nil {
		return err
	}
	refused, err := r.publishAll(ctx, boundaries)
	if err != nil {
		return err
	}
	if refused != "" {
		return r.listEnded(ctx, list, stream.RepublishFailed, refused)
	}
	begun.TPs, begun.Seq = tps, epoch.Next(1)
	r.opts.Logger.Info("a full list of the stream begins", "list", begun.List, "boundaries", len(boundaries))
	return r.saveList(ctx, func() error { return r.opts.Feed.Lists().Begin(ctx, list.Number, begun, stream.ListName) })
}

// endList sends the boundaries that end a list once all tables are published again, and all TPs are
// those that it began in: else it begins again.
func (r *republishing) endList(ctx context.Context, list *stream.Republish) error {
	state := stream.RepublishDone
	left, why := r.opts.Feed.Lists().Unlisted(list)
	if len(left) > 0 && why == "" {
		return later("the full list waits for %s", strings.Join(left[:min(3, len(left))], ", "))
	}
	if why != "" {
		state = stream.RepublishFailed
	} else {
		boundaries, tps, err := r.boundaries(ctx, sink.ListEnds, list.List)
		if err != nil {
			return err
		}
		if !slices.Equal(tps, list.TPs) {
			r.opts.Logger.Warn("a full list begins again: topics, partitions or streams are not those that it began in", "list", list.List)
			state = ""
		} else if why, err = r.publishAll(ctx, boundaries); err != nil {
			return err
		} else if why != "" {
			state = stream.RepublishFailed
		}
	}
	return r.listEnded(ctx, list, state, why)
}

// listEnded notes that a list has ended or, with no state, begins again.
func (r *republishing) listEnded(ctx context.Context, list *stream.Republish, state stream.RepublishState, why string) error {
	if why != "" {
		r.opts.Logger.Warn("a full list of the stream has failed", "list", list.List, "error", why)
	} else {
		r.opts.Logger.Info("a full list of the stream has ended", "list", list.List, "state", state)
	}
	return r.saveList(ctx, func() error { return r.opts.Feed.Lists().End(ctx, list.Number, state, why) })
}

// boundaries returns those of a list in each TP that takes messages of the stream, and the numbers
// of these TPs. The error is a laterError where the bus does not tell now.
func (r *republishing) boundaries(ctx context.Context, kind, id string) (boundaries []sink.Message, numbers []uint32, err error) {
	now := time.Now()
	for _, destination := range r.opts.Lists {
		var tps []sink.TP
		err := r.reader.retrier.wait(owning, forEver, func() (err error) {
			looking, end := context.WithTimeout(ctx, r.opts.LastWithin)
			defer end()
			tps, err = r.opts.Reader.TPs(looking, []string{destination})
			return err
		})
		if err != nil {
			return nil, nil, later("the bus does not tell where %s lies: %w", destination, err)
		}
		for i := range tps {
			number, err := r.reader.retrier.number(ctx, owning, r.opts, sink.TPRef{Name: tps[i].Name, Incarnation: tps[i].Incarnation})
			if err != nil || number == 0 {
				return nil, nil, later("%s is not registered yet: %v", tps[i].Name, err)
			}
			if r.opts.Committer.Lost(number, tps[i].End) {
				return nil, nil, later("%s has lost messages, or does not show them yet", tps[i].Name)
			}
			numbers = append(numbers, number)
			if at := tps[i].Name; tps[i].Destination != "" {
				boundaries = append(boundaries, sink.ListBoundary(kind, id, r.opts.Domain, r.opts.Stream, destination, at, now))
			}
		}
		if len(tps) > 0 && tps[0].Destination == "" {
			boundaries = append(boundaries, sink.ListBoundary(kind, id, r.opts.Domain, r.opts.Stream, destination, "", now))
		}
	}
	if len(boundaries) == 0 {
		return nil, nil, later("the bus has no topic or stream for it yet")
	}
	if r.opts.Recovery.Rereading(r.opts.Stream) {
		return nil, nil, later("a topic or stream is read again")
	}
	slices.Sort(numbers)
	return boundaries, slices.Compact(numbers), nil
}

// publishAll sends them, which catch-up reads as messages of others, until all of them are
// acknowledged. It returns why the bus refuses one for good.
func (r *republishing) publishAll(ctx context.Context, boundaries []sink.Message) (refused string, err error) {
	var outcome sink.Outcome
	err = r.reader.retrier.wait(owning, forEver, func() (err error) {
		outcome, err = r.opts.Sink.Publish(ctx, boundaries)
		return err
	})
	switch {
	case errors.Is(err, sink.ErrUnknownOutcome) || errors.Is(err, sink.ErrFenced):
		return "", &unresolvedError{fmt.Errorf("%w: %w", stream.ErrReadBack, err)}
	case err != nil:
		return "", err
	case len(outcome.Rejected) > 0:
		return "the bus refuses a boundary of the list: " + outcome.Rejected[0].Reason, nil
	case !outcome.AllAcked():
		return "", later("the bus has taken a part of the boundaries")
	}
	return "", nil
}

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
	Cursor uint64 `json:"cursor"`
	// Percent is 0 until the end where To is the highest number: the last id is not known.
	Percent float64 `json:"percent"`
	// Rows counts events that were published again, Changed those of rows that said something new.
	Rows    uint64 `json:"rows"`
	Changed uint64 `json:"changed"`
	// Refused counts the entities that a full list lacks: their only events are dead letters.
	Refused uint64    `json:"refused"`
	AskedAt null.Time `json:"askedAt"`
	EndedAt null.Time `json:"endedAt"`
	Error   null.Text `json:"error"`
	// List is the id of the full list that the rows are part of, null for none. Waits says why the
	// next rows wait, null while they do not.
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
		Rows: r.Rows, Changed: r.Changed, Refused: r.Refused, AskedAt: null.At(r.Asked), EndedAt: null.At(r.Ended), Error: null.Text(r.Error),
		List: null.Text(r.List),
	}
	first, last := max(1, r.From), r.To
	if len(r.Keys) > 0 {
		first, last = 1, uint64(len(r.Keys))
	}
	switch {
	case r.State == stream.RepublishDone, last < first:
		s.Percent = 100
	case r.Cursor >= first && last < math.MaxUint64:
		s.Percent = 100 * float64(min(r.Cursor, last)-first+1) / float64(last-first+1)
	}
	return s
}
