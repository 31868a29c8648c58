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

// sendLetters tails the streams until they have caught up, and sends the letters again.
func (a *aloneRun) sendLetters(ctx context.Context, sent []sentLetter, logger *slog.Logger) error {
	return a.tailing(ctx, logger, func(ctx context.Context, e *engine) error {
		return a.eachTable(e.shards, sent, func(shard *pipeline.Shard, letters []*sentLetter) error {
			if err := a.settle(ctx, shard); err != nil {
				mark(letters, notSent, err.Error())
				return ctx.Err()
			}
			stream := streamNamed(a.cfg.Streams, letters[0].Stream)
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

// previewLetters looks at the tables and the checkpoint.
func (a *aloneRun) previewLetters(ctx context.Context, sent []sentLetter, logger *slog.Logger) error {
	return a.looking(logger, func(p parts) error {
		p.faults, p.metrics = outage.New(logger), pipeline.NewMetrics(prometheus.NewRegistry())
		p.limits = pipeline.NewLimits(a.cfg.MaxInflightBytes, len(a.cfg.Streams), maxReads)
		shards, err := newShards(a.cfg, p)
		if err != nil {
			return err
		}
		return a.eachTable(shards, sent, func(shard *pipeline.Shard, letters []*sentLetter) error {
			return sendTable(ctx, letters, true, func(ctx context.Context, request ResendRequest) ([]pipeline.LetterOutcome, error) {
				return shard.Preview(ctx, request.Letters)
			})
		})
	})
}
