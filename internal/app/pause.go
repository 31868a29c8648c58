package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/client/backoff"
	"example.org/bridge/internal/config"
	"example.org/bridge/internal/httpapi"
	"example.org/bridge/internal/null"
	"example.org/bridge/internal/option"
	"example.org/bridge/internal/shard"
	"example.org/bridge/internal/stream"
)

// pauseSave bounds how long a pause is written to the disk, pauseWrite that of the progress to the
// bus, and restWithin the wait for what is in flight: the last two together are shorter than a
// request.
const (
	pauseSave  = 4 * time.Second
	pauseWrite = 4 * time.Second
	restWithin = 4 * time.Second
)

// Pause implements httpapi.Daemon. It returns once the pause, or its end, is durable.
func (h health) Pause(ctx context.Context, request httpapi.PauseRequest) (httpapi.Paused, error) {
	stream, err := h.stream(request.Stream)
	if err != nil {
		return httpapi.Paused{}, err
	}
	concerned, err := h.shardsOf(stream, request.Table)
	if err != nil {
		return httpapi.Paused{}, err
	}
	release, err := backoff.Acquire(ctx, h.pauses)
	if err != nil {
		return httpapi.Paused{}, err
	}
	defer release()
	pauses, err := h.savePause(ctx, &request)
	if err != nil {
		return httpapi.Paused{}, fmt.Errorf("stream %s %w: %w", stream.Name, httpapi.ErrCannotPause, err)
	}
	answer := httpapi.Paused{Stream: stream.Name, PausedAt: null.At(pauses[""])}
	for _, sh := range concerned {
		if since := pauses[keyOf(sh).Shard]; since.After(answer.PausedAt.Time) {
			answer.PausedAt = null.At(since)
		}
	}
	answer.Shards = len(concerned)
	if h.now.Load() != h.App {
		return httpapi.Paused{}, fmt.Errorf("stream %s %w: the configuration was reloaded meanwhile: ask again", stream.Name, httpapi.ErrCannotPause)
	}
	h.logger.Info("a person has paused or resumed tables", "stream", stream.Name, "shards", answer.Shards, "paused", !request.Resume)
	answer.NotOnBus = h.copyPause(ctx, stream)
	if !request.Resume {
		answer.Publishing = awaitRest(ctx, concerned)
	}
	return answer, nil
}

// shardsOf returns the shards of a stream, or of one table of it.
func (h health) shardsOf(stream *config.Stream, table string) (shards []*shard.Shard, err error) {
	if table != "" && !slices.Contains(stream.Tables, table) {
		return nil, noTable(stream, table)
	}
	for _, sh := range h.shards {
		if key := keyOf(sh); key.Stream == stream.Name && (table == "" || table == key.Shard) {
			shards = append(shards, sh)
		}
	}
	return shards, nil
}

func noTable(stream *config.Stream, table string) error {
	return fmt.Errorf("%w with a table %.100q: stream %s has %s", httpapi.ErrNoStream, table, stream.Name, strings.Join(stream.Tables, ", "))
}

// savePause makes a pause durable in the store, or its end, and has the shards of the stream do as
// the store says then. It returns since when each of them is paused, and the stream under no name.
func (h health) savePause(ctx context.Context, request *httpapi.PauseRequest) (since map[string]time.Time, err error) {
	if err := h.refuseCommand(request.Stream); err != nil {
		return nil, err
	}
	image, err := h.store.Load(ctx)
	if err != nil {
		return nil, err
	}
	b, err := stream.SetPause{Stream: request.Stream, Table: request.Table, On: !request.Resume, Now: time.Now()}.Batch(&image)
	if err != nil {
		return nil, err
	}
	// From here on nobody calls it off: the shards are never other than the store.
	ctx = context.WithoutCancel(ctx)
	saving, cancel := context.WithTimeoutCause(ctx, pauseSave, fmt.Errorf("the disk did not take it within %s", pauseSave))
	defer cancel()
	if err := h.applyShards(saving, b); err != nil {
		return nil, err
	}
	if err := h.committer.Sync(saving, &store.Batch{}); err != nil {
		err = fmt.Errorf("it is done in this process, and a crash may undo it: ask again: %w", err)
		_, unset := h.setPaused(ctx, request.Stream)
		return nil, errors.Join(err, unset)
	}
	return h.setPaused(ctx, request.Stream)
}

// refuseCommand returns why nothing of a stream can be changed now.
func (h health) refuseCommand(stream string) error {
	caught := h.recovery.Progress()
	if caught.Superseded != nil {
		return caught.Superseded
	}
	for _, s := range caught.Streams {
		if s.Stream == stream && (!s.Ready || s.Err != nil) {
			// What the bus has of its progress may say something else.
			return errors.New("it has not caught up from the bus, and so publishes nothing: bridge status says how far it is")
		}
	}
	if peer, _ := h.Working(); !peer.Self {
		return errors.New("this process does not work any more in its standby group: ask again once another one does (bridge status)")
	}
	return nil
}

// setPaused has the shards of a stream do as the store says.
func (h health) setPaused(ctx context.Context, name string) (since map[string]time.Time, err error) {
	all, err := stream.LoadPause(ctx, h.store, store.Key{Stream: name})
	since = map[string]time.Time{"": all.Since}
	for _, sh := range h.shards {
		if key := keyOf(sh); key.Stream == name && err == nil {
			var pause stream.Pause
			if pause, err = stream.LoadPause(ctx, h.store, key); err == nil {
				since[key.Shard] = pause.Since
				sh.SetPaused(pause.Since)
			}
		}
	}
	return since, err
}

// copyPause writes the progress of a stream to the bus, and returns why another folder does not
// know of a pause.
func (h health) copyPause(ctx context.Context, stream *config.Stream) null.Text {
	naming := config.Naming(stream.Name)
	switch {
	case h.copies != nil:
		ctx, cancel := context.WithTimeoutCause(ctx, pauseWrite, fmt.Errorf("the bus did not take it within %s", pauseWrite))
		defer cancel()
		if err := h.copies.Write(ctx, stream.Name); err != nil {
			return null.Text(fmt.Sprintf("the progress was not written to the bus: %s: bridge tries again, and until then a process with another folder does not know it", config.Text(err)))
		}
	case h.member != nil:
		return null.Text(option.Sprintf(naming, "a process of the standby group that takes over does not know it: only with progress on the bus (%s=bus:) it would", option.CheckpointURL))
	}
	return ""
}

// awaitRest waits for a while until nothing of shards that are paused is in flight, and returns of
// how many something is.
func awaitRest(ctx context.Context, shards []*shard.Shard) int {
	ctx, cancel := context.WithTimeout(ctx, restWithin)
	defer cancel()
	for {
		shards = slices.DeleteFunc(shards, func(sh *shard.Shard) bool {
			state := sh.Status().State
			return state == shard.Paused || state == shard.Stopped
		})
		if len(shards) == 0 || backoff.Pause(ctx, 10*time.Millisecond) != nil {
			return len(shards)
		}
	}
}
