package app

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"example.org/bridge/client/backoff"
	"example.org/bridge/internal/httpapi"
	"example.org/bridge/internal/null"
	"example.org/bridge/internal/shard"
	"example.org/bridge/internal/stream"
)

// newList returns the request for a full list of shards, which are all of a stream.
func newList(ctx context.Context, h health, request *httpapi.RepublishRequest, shards []*shard.Shard, last *stream.Republish) (*stream.Republish, error) {
	for _, sh := range shards {
		key := keyOf(sh)
		if _, err := mayRepublish(ctx, h.store, key, h.streamOf(key.Stream).feed.Republish(key.Shard)); err != nil {
			return nil, err
		}
	}
	r := requestOf(request)
	r.From, r.To = 0, 0
	r.Behind(last)
	return r, nil
}

const (
	// listRetry is the pause before a list that is due is tried again, as while another request
	// runs.
	listRetry = 10 * time.Second
	// listWarns is the pause between warnings about that.
	listWarns = time.Hour
	// listJitter is the part of the time between two lists that is random.
	listJitter = 10
)

// list asks for a full list of a stream each FULL_LIST_INTERVAL, less up to a tenth, until ctx
// ends. The first one is due at once. The store has when the last one was asked for.
func (a *App) list(ctx context.Context, s *appStream) error {
	if a.recovery.Wait(ctx, s.Name) != nil {
		// The shards say why the stream has stopped.
		return nil
	}
	request := httpapi.RepublishRequest{Stream: s.Name, All: true}
	if s.Rate > 0 {
		// The tails come first.
		half := int(max(1, s.Rate/2))
		request.Rate = &half
	}
	var since time.Time
	every := s.FullListInterval - rand.N(s.FullListInterval/listJitter+1)
	for {
		err := s.feed.Lists().Open(ctx)
		last := s.feed.Lists().Last()
		if err == nil && !last.Running() && (last == nil || time.Since(last.Asked) >= every || time.Since(last.Asked) < 0) {
			if err = a.requestList(ctx, s, &request); err == nil {
				since = time.Time{}
				every = s.FullListInterval - rand.N(s.FullListInterval/listJitter+1)
				continue
			}
		}
		pause := listRetry
		if err != nil && since.IsZero() {
			since = time.Now()
		} else if err != nil && time.Since(since) >= listWarns {
			since = time.Now()
			a.logger.Warn("a full list is due and is tried again", "stream", s.Name, "error", err)
		} else if err == nil && last != nil {
			pause = min(pause, max(time.Millisecond, every-time.Since(last.Asked)))
		}
		if backoff.Pause(ctx, pause) != nil {
			return nil
		}
	}
}

// requestList asks for a full list as a person does.
func (a *App) requestList(ctx context.Context, s *appStream, request *httpapi.RepublishRequest) error {
	h := health{a}
	release, err := backoff.Acquire(ctx, h.pauses)
	if err != nil {
		return err
	}
	defer release()
	shards, err := h.shardsOf(s.Stream, "")
	if err == nil && len(shards) == 0 {
		err = errors.New("it has no table yet")
	}
	if err != nil {
		return err
	}
	if _, err = h.saveRepublish(ctx, request, s.Stream, shards); err == nil {
		// Later the progress is written to the bus all the same.
		_ = h.copyPause(ctx, s.Stream)
	}
	return err
}

// listWaits returns why a full list of a stream does not go on, empty where it does.
func listWaits(lists *stream.Lists, shards []shard.Status) null.Text {
	for i := range shards {
		one := &shards[i]
		switch {
		case !lists.Leads(one.Shard):
		case one.State != shard.Running && one.State != shard.Waiting:
			return null.Text(one.Shard + " is " + string(one.State))
		default:
			return null.Text(one.RepublishWaits)
		}
	}
	return ""
}
