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
	"example.org/bridge/internal/deadletter"
	"example.org/bridge/internal/driver"
	"example.org/bridge/internal/httpapi"
	"example.org/bridge/internal/null"
	"example.org/bridge/internal/option"
	"example.org/bridge/internal/shard"
	"example.org/bridge/internal/stream"
	"example.org/bridge/internal/terminal"
	"example.org/bridge/sink"
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

// It returns since when each of the shards is paused, and the stream under no name.
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

// Resend sends dead letters of one table again. It returns httpapi.ErrNoStream where the table is
// not configured.
type Resend func(ctx context.Context, request httpapi.ResendRequest) ([]shard.ResendOutcome, error)

// Resent is a dead letter and what became of it.
type Resent struct {
	deadletter.Message
	shard.ResendOutcome
}

// maxResendSize bounds the events of one request, as httpapi.MaxDeadLetters does.
const maxResendSize = 32 << 20

// ResendEach sends dead letters again, a table after the other, and returns them in their order.
// The error is that of ctx.
func ResendEach(ctx context.Context, found []deadletter.Message, dryRun bool, send Resend) ([]Resent, error) {
	all := make([]Resent, len(found))
	var order [][2]string
	tables := make(map[[2]string][]*Resent)
	for i := range found {
		all[i].Message = found[i]
		table := [2]string{found[i].Stream, found[i].Shard}
		if tables[table] == nil {
			order = append(order, table)
		}
		tables[table] = append(tables[table], &all[i])
	}
	for _, table := range order {
		if err := resendTable(ctx, tables[table], dryRun, send); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// What the owner cannot do is left; the error is that of ctx.
func resendTable(ctx context.Context, left []*Resent, dryRun bool, send Resend) error {
	for len(left) > 0 {
		request := httpapi.ResendRequest{Stream: left[0].Stream, Shard: left[0].Shard, DryRun: dryRun}
		n, size := 0, 0
		for n < len(left) && n < httpapi.MaxDeadLetters && (n == 0 || size+left[n].Size <= maxResendSize) {
			request.DeadLetters = append(request.DeadLetters, shard.DeadLetterOf(&left[n].DeadLetterDocument))
			size += left[n].Size
			n++
		}
		outcomes, err := send(ctx, request)
		if err == nil && len(outcomes) != n {
			err = fmt.Errorf("it answers for %s, not %d", terminal.Count(len(outcomes), "dead letter"), n)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			outcome := shard.ResendOutcome{State: shard.ResendLeft, Why: config.Text(err)}
			if errors.Is(err, httpapi.ErrNoStream) {
				outcome.Why = "no such stream and table is configured"
			}
			for _, l := range left {
				l.ResendOutcome = outcome
			}
			return nil
		}
		for i, outcome := range outcomes {
			left[i].ResendOutcome = outcome
		}
		left = left[n:]
	}
	return nil
}

func (h health) ResendAll(ctx context.Context, name string, dryRun bool) (httpapi.ResentAll, error) {
	stream, err := h.stream(name)
	if err != nil {
		return httpapi.ResentAll{}, err
	}
	if stream.DeadLetter == "" {
		return httpapi.ResentAll{}, fmt.Errorf("stream %s %w: %s is not set, so no row was put aside", name, httpapi.ErrCannotResend, config.Naming("")(option.DeadLetter))
	}
	found, more, err := h.deadLettersOf(ctx, stream)
	if err != nil {
		return httpapi.ResentAll{}, fmt.Errorf("read the dead letters at %s: %w", stream.DeadLetter, err)
	}
	if more && !dryRun {
		// They stay where they are: another request would send the first ones again.
		return httpapi.ResentAll{}, fmt.Errorf("stream %s %w: it has more than %d, type bridge deadletter resend --stream %s", name, httpapi.ErrCannotResend, httpapi.MaxResentAll, name)
	}
	all, err := ResendEach(ctx, found, dryRun, h.Resend)
	if err != nil {
		return httpapi.ResentAll{}, err
	}
	report := httpapi.ResentAll{Found: len(all), More: more, States: make(map[shard.ResendState]int), DeadLetters: []httpapi.ResentDeadLetter{}}
	for i := range all {
		l := &all[i]
		report.States[l.State]++
		if i < httpapi.MaxResentShown {
			report.DeadLetters = append(report.DeadLetters, httpapi.ResentDeadLetter{Shard: l.Shard, Row: l.RowID, Key: l.Key, Reason: l.Reason, ResendOutcome: l.ResendOutcome})
		}
	}
	return report, nil
}

// deadLettersOf reads the dead letters of a stream from the bus, at most httpapi.MaxResentAll.
func (h health) deadLettersOf(ctx context.Context, stream *config.Stream) (found []deadletter.Message, more bool, err error) {
	reading := driver.Reading{Destinations: []string{stream.DeadLetter}, Command: "resend", Running: h.sink}
	deadLetters, err := OpenReading(ctx, h.opts.Config, nil, reading)
	if err != nil {
		return nil, false, err
	}
	defer func() { err = errors.Join(err, deadLetters.Close()) }()
	type identity struct{ shard, event string }
	kept := make(map[identity]bool)
	read, err := deadletter.Read(ctx, deadLetters, h.opts.Config.DomainID, func(l *sink.DeadLetterDocument) bool {
		one := identity{l.Shard, l.EventID}
		switch {
		case l.Stream != stream.Name:
			return false
		case !kept[one] && len(kept) == httpapi.MaxResentAll:
			more = true
			return false
		}
		kept[one] = true
		return true
	}, func(uint64, uint64) {})
	return read.Messages, more, err
}
