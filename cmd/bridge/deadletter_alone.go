package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"bridge/internal/outage"
	"bridge/internal/pipeline"
)

// sendAlone sends letters again without a running bridge. The lines of the log that matter go to stderr.
func (p *process) sendAlone(ctx context.Context, cfg *Config, sent []sentLetter, job deadLetterJob) error {
	// Only the streams that have letters are opened.
	cfg.Streams = slices.DeleteFunc(slices.Clone(cfg.Streams), func(s Stream) bool {
		return !slices.ContainsFunc(sent, func(l sentLetter) bool { return l.Stream == s.Name && slices.Contains(s.Tables, l.Shard) })
	})
	if len(cfg.Streams) == 0 {
		for _, letters := range byTable(sent) {
			mark(letters, notConfigured, "")
		}
		return nil
	}
	if _, err := os.Stat(cfg.CheckpointPath); errors.Is(err, fs.ErrNotExist) {
		// A tail without one would begin where START says.
		return fmt.Errorf("there is no checkpoint at %s: what was published is not known; see to BRIDGE_CHECKPOINT_URL", cfg.CheckpointPath)
	}
	logger := newLogger(p.stderr, max(cfg.LogLevel, slog.LevelWarn), cfg.LogFormat, p.secrets)
	a := &aloneRun{p: p, cfg: cfg, show: p.newReconcileProgress(!job.json)}
	defer a.show.stop()
	if job.dryRun {
		return a.previewLetters(ctx, sent, logger)
	}
	return a.sendLetters(ctx, sent, logger)
}

// sendLetters tails the streams until they have caught up, sends the letters again, and ends in good order.
func (a *aloneRun) sendLetters(ctx context.Context, sent []sentLetter, logger *slog.Logger) (err error) {
	e, err := openEngine(a.cfg, prometheus.NewRegistry(), a.openStore, logger)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.close()) }()
	running, end := context.WithCancel(ctx)
	defer end()
	return e.run(running, func(ctx context.Context) error {
		// The shards publish and save what is in flight.
		defer end()
		return a.eachTable(e.shards, sent, func(shard *pipeline.Shard, letters []*sentLetter) error {
			if err := a.settle(ctx, shard); err != nil {
				mark(letters, notSent, err.Error())
				return ctx.Err()
			}
			stream := a.cfg.stream(letters[0].Stream)
			return sendTable(ctx, letters, false, func(ctx context.Context, request ResendRequest) ([]pipeline.LetterOutcome, error) {
				return resendBy(ctx, stream, []*pipeline.Shard{shard}, request)
			})
		})
	})
}

// eachTable calls do with the letters of each table and the shard that owns it.
func (a *aloneRun) eachTable(shards []*pipeline.Shard, sent []sentLetter, do func(*pipeline.Shard, []*sentLetter) error) error {
	for table, letters := range byTable(sent) {
		at := slices.IndexFunc(shards, func(shard *pipeline.Shard) bool {
			s := shard.Status()
			return s.Stream == table[0] && s.Shard == table[1]
		})
		if at < 0 {
			mark(letters, notConfigured, "")
			continue
		}
		if err := do(shards[at], letters); err != nil {
			return err
		}
	}
	return nil
}

// stream returns the stream with this name, nil where there is none.
func (c *Config) stream(name string) *Stream {
	at := slices.IndexFunc(c.Streams, func(s Stream) bool { return s.Name == name })
	if at < 0 {
		return nil
	}
	return &c.Streams[at]
}

// previewLetters looks at the tables and the checkpoint, without a tail and without a bus.
func (a *aloneRun) previewLetters(ctx context.Context, sent []sentLetter, logger *slog.Logger) (err error) {
	src, err := openSource(a.cfg, logger)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	kept, err := a.openStore(a.cfg.CheckpointPath)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, kept.Close()) }()
	shards, err := newShards(a.cfg, parts{
		source: src, store: kept, logger: logger, faults: outage.New(logger), metrics: pipeline.NewMetrics(prometheus.NewRegistry()),
		limits: pipeline.NewLimits(a.cfg.MaxInflightBytes, len(a.cfg.Streams), maxReads),
	})
	if err != nil {
		return err
	}
	return a.eachTable(shards, sent, func(shard *pipeline.Shard, letters []*sentLetter) error {
		return sendTable(ctx, letters, true, func(ctx context.Context, request ResendRequest) ([]pipeline.LetterOutcome, error) {
			return shard.Preview(ctx, request.Letters)
		})
	})
}
