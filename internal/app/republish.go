package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/client/backoff"
	"example.org/bridge/event"
	"example.org/bridge/internal/config"
	"example.org/bridge/internal/httpapi"
	"example.org/bridge/internal/null"
	"example.org/bridge/internal/shard"
	"example.org/bridge/internal/stream"
	"example.org/bridge/source"
)

// Republish implements httpapi.Daemon. It returns once the request, or its end, is durable.
func (h health) Republish(ctx context.Context, request httpapi.RepublishRequest) (httpapi.Republished, error) {
	answer, err := republish(ctx, h, &request)
	if err == nil {
		h.logger.Info("a person has asked to publish rows again, or cancelled that", "stream", answer.Stream, "shards", answer.Shards, "cancelled", request.Cancel)
	}
	return answer, err
}

func republish(ctx context.Context, h health, request *httpapi.RepublishRequest) (answer httpapi.Republished, err error) {
	of, err := h.stream(request.Stream)
	if err != nil {
		return answer, err
	}
	shards, err := h.shardsOf(of, request.Table)
	if err == nil && len(shards) == 0 {
		err = noTable(of, request.Table)
	}
	if err != nil {
		return answer, err
	}
	release, err := backoff.Acquire(ctx, h.pauses)
	if err != nil {
		return answer, err
	}
	defer release()
	if answer, err = h.saveRepublish(ctx, request, of, shards); err == nil && h.now.Load() != h.App {
		err = errors.New("the configuration was reloaded meanwhile: ask again")
	}
	if err != nil {
		return httpapi.Republished{}, fmt.Errorf("stream %s %w: %w", of.Name, httpapi.ErrCannotRepublish, err)
	}
	answer.NotOnBus = h.copyPause(ctx, of)
	return answer, nil
}

func (h health) saveRepublish(ctx context.Context, request *httpapi.RepublishRequest, of *config.Stream, shards []*shard.Shard) (answer httpapi.Republished, err error) {
	if err := h.refuseCommand(of.Name); err != nil {
		return answer, err
	}
	if why := h.opts.Config.ListFault(of); request.All && why != "" {
		return answer, errors.New("a full list " + why)
	}
	if len(request.Keys) > 0 && of.Kind == event.Release {
		return answer, fmt.Errorf("it is a release stream, whose rows are facts and no entities: name rows by their ids, with from and to")
	}
	if of.IDFormat() != "" && (request.From > 0 || request.To > 0) {
		return answer, fmt.Errorf("its ids are no numbers (ID_FORMAT=%s): name rows by their keys or with where", of.IDFormat())
	}
	byTable := make(map[string]*shard.Shard)
	for _, sh := range shards {
		byTable[keyOf(sh).Shard] = sh
	}
	answer.Stream = of.Name
	// From here on nobody calls it off.
	ctx = context.WithoutCancel(ctx)
	saving, cancel := context.WithTimeoutCause(ctx, pauseSave, fmt.Errorf("the disk did not take it within %s", pauseSave))
	defer cancel()
	feed := streamOf(h.streams, of.Name).feed
	change := func(table string, last *stream.Republish) (next *stream.Republish, err error) {
		switch {
		case request.Cancel:
			if next = last; !next.Cancel(time.Now()) {
				return nil, nil
			}
		case request.All:
			for _, sh := range shards {
				if _, err := mayRepublish(saving, h.store, keyOf(sh), feed.Republish(keyOf(sh).Shard)); err != nil {
					return nil, err
				}
			}
			next = requestOf(request, last)
		default:
			if next, err = h.newRepublish(saving, request, byTable[table], last); err != nil {
				return nil, err
			}
		}
		if answer.Shards, answer.To = min(answer.Shards+1, len(shards)), max(answer.To, next.To); table == stream.ListName {
			answer.Shards = len(shards)
		}
		return next, nil
	}
	tables := slices.Sorted(maps.Keys(byTable))
	switch runs := feed.Lists().Last().Running(); {
	case runs && !request.Cancel:
		return answer, fmt.Errorf("a full list of it is being published: bridge republish %s shows how far that is, with --cancel it ends", of.Name)
	case runs && request.Table != "":
		return answer, errors.New("a full list of it is being published, of all its tables: cancel that without a table")
	case request.All:
		tables = []string{stream.ListName}
	case runs:
		tables = append(tables, stream.ListName)
	}
	if err := feed.ChangeRepublish(saving, tables, change); err != nil {
		return answer, err
	}
	if err := h.committer.Sync(saving, &store.Batch{}); err != nil {
		return answer, fmt.Errorf("it is done in this process, and a crash may undo it: ask again: %w", err)
	}
	for _, sh := range shards {
		sh.Republishes()
	}
	if answer.Shards == 0 {
		return answer, fmt.Errorf("nothing of it is being published again")
	}
	return answer, nil
}

// mayRepublish returns the progress of a table of which last was asked last, and why nothing else
// may be asked now.
func mayRepublish(ctx context.Context, s store.Store, key store.Key, last *stream.Republish) (saved store.Progress, err error) {
	saved, _, err = s.Progress(ctx, key)
	switch {
	case err != nil:
		return saved, err
	case last.Running():
		return saved, fmt.Errorf("%s is being published again, since %s: bridge republish %s shows how far that is, with --cancel it ends",
			key.Shard, last.Asked.UTC().Format(time.RFC3339), key.Stream)
	case !saved.Started:
		return saved, fmt.Errorf("%s has not begun: nothing of it is published", key.Shard)
	}
	return saved, nil
}

// requestOf returns the request behind last.
func requestOf(request *httpapi.RepublishRequest, last *stream.Republish) *stream.Republish {
	r := &stream.Republish{
		Keys: request.Keys, Where: request.Where, Rate: httpapi.DefaultRepublishRate, Asked: time.Now(), State: stream.Republishing,
	}
	if len(request.Keys) == 0 && !request.All {
		r.From, r.To = max(1, request.From), cmp.Or(request.To, math.MaxUint64)
	}
	if request.Rate != nil {
		r.Rate = int64(*request.Rate)
	}
	r.Behind(last)
	return r
}

func (h health) newRepublish(ctx context.Context, request *httpapi.RepublishRequest, sh *shard.Shard, last *stream.Republish) (*stream.Republish, error) {
	key := keyOf(sh)
	saved, err := mayRepublish(ctx, h.store, key, last)
	if err != nil {
		return nil, err
	}
	r := requestOf(request, last)
	if epoch := h.recovery.Epoch(); epoch != nil {
		r.Epoch, r.Seq = epoch.Number(), epoch.Last()
	}
	if !sh.Status().NoTail {
		// What comes later the tail brings.
		r.To = min(r.To, saved.Position)
	}
	if r.From > r.To {
		return nil, fmt.Errorf("nothing from id %d on is published of %s yet: it is published up to id %d", r.From, key.Shard, saved.Position)
	}
	return r, nil
}

// streamOf returns the stream with a name, which is there.
func streamOf(streams []*appStream, name string) *appStream {
	return streams[slices.IndexFunc(streams, func(s *appStream) bool { return s.Name == name })]
}

// matcher returns what makes readers of the ids of a table by a condition.
func (s *appStream) matcher(p *parts, table string) func(condition string) source.Shard {
	return func(condition string) source.Shard {
		spec := s.Spec(table)
		spec.Filter, spec.Fields, spec.Exclude, spec.Masks, spec.StaleAfter = condition, []string{}, nil, nil, 0
		return p.sources.Shard(spec)
	}
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
	interval := func() time.Duration { return s.FullListInterval - rand.N(s.FullListInterval/listJitter+1) }
	lists, every, well := s.feed.Lists(), interval(), time.Now()
	for pause := time.Duration(0); backoff.Pause(ctx, pause) == nil; {
		err := lists.Open(ctx)
		last, left := lists.Last(), time.Duration(0)
		if last != nil {
			left = every - time.Since(last.Asked)
		}
		switch pause = listRetry; {
		case err != nil:
		case left > 0 && left <= every:
			pause = min(pause, left)
		case last.Running():
			pause = time.Second
		default:
			request := httpapi.RepublishRequest{Stream: s.Name, All: true}
			if rate := s.rate.PerSecond(); rate > 0 {
				// The tails come first.
				request.Rate = new(int(max(1, rate/2)))
			}
			if _, err = republish(ctx, health{a}, &request); err == nil {
				every, pause = interval(), 0
			}
		}
		if err == nil {
			well = time.Now()
		} else if time.Since(well) >= listWarns {
			well = time.Now()
			a.logger.Warn("a full list is due and is tried again", "stream", s.Name, "error", err)
		}
	}
	return nil
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
