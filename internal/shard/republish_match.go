package shard

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"example.org/bridge/internal/stream"
	"example.org/bridge/source"
)

// matchWithin bounds the time that a condition takes of the tail.
const matchWithin = 5 * time.Second

var errSlowCondition = fmt.Errorf("the condition took more than %s", matchWithin)

// match returns the ids of at most so many rows that q names and that match the condition, and up
// to which id it has looked. It tries once: what the condition does is no outage of the table.
func (r *republishing) match(ctx context.Context, asked *stream.Republish, q source.Query, most int) (ids []source.Range, through uint64, err error) {
	if r.matcher == nil {
		r.matcher = r.opts.Matcher(asked.Where)
	}
	p := &r.matched
	// How many match is not known.
	q.Limit = r.scan
	running, end := r.whileAsked(ctx, asked.Number)
	defer end()
	err = r.reader.query(running, new(span), func() error { return r.matcher.Read(running, q, p) })
	if err != nil {
		return nil, 0, err
	}
	r.failures = 0
	defer p.Reset()
	if through = q.Through; p.More && len(p.Rows) > 0 {
		through = p.Rows[len(p.Rows)-1].ID
	}
	var found []uint64
	if r.only = nil; p.Columns.IDFormat != "" {
		r.only = make(map[string]bool)
	}
	for _, row := range p.Rows {
		if row.Filtered {
			continue
		}
		if n := len(found); n >= most && row.ID != found[n-1] {
			return source.RangesOf(found), found[n-1], nil
		}
		if found = append(found, row.ID); r.only != nil {
			r.only[string(row.Values[p.Columns.ID])] = true
		}
	}
	return source.RangesOf(found), through, nil
}

// whileAsked returns a context that ends with the request of a number, too, and with the time that
// a condition has.
func (r *republishing) whileAsked(ctx context.Context, number uint64) (running context.Context, end func()) {
	running, cancel := context.WithTimeoutCause(ctx, matchWithin, errSlowCondition)
	var watch sync.WaitGroup
	watch.Go(func() {
		for {
			select {
			case <-running.Done():
				return
			case <-r.asked:
			}
			if !r.runs(number) {
				cancel()
			}
		}
	})
	return running, func() { cancel(); watch.Wait() }
}

// runs reports whether the request with a number is running.
func (r *republishing) runs(number uint64) bool {
	asked := r.gaps.state.Republish()
	return asked.Running() && asked.Number == number
}

// refused reports whether an error of the condition is to end the request: it is none that passes,
// or the source has failed to answer it several times although it is there, each time about fewer
// rows.
func (r *republishing) refused(ctx context.Context, asked *stream.Republish, err error) bool {
	if permanent(err) {
		return true
	}
	if !r.runs(asked.Number) || errors.Is(err, source.ErrAltered) || r.reader.retrier.unreadable(ctx) != r.reader.retrier.table {
		return false
	}
	r.failures++
	r.scan = max(1, r.scan/matchPart)
	return r.failures >= matchFailures
}
