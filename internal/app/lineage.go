package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/client/backoff"
	"example.org/bridge/event"
	"example.org/bridge/internal/config"
	"example.org/bridge/internal/lineage"
	"example.org/bridge/internal/shard"
	"example.org/bridge/sink"
	"example.org/bridge/source"
)

// mostMessages is how many of the newest messages of a topic-partition are read at a start whose
// checkpoint does not know a table, until rows of each table are found.
const mostMessages = 50_000

// lineageStream describes a stream to package lineage.
func lineageStream(cfg *config.Config, s *config.Stream) lineage.Stream {
	return lineage.Stream{
		Name: s.Name, Domain: cfg.DomainID, Kind: s.Kind, Destinations: cfg.Destinations(s), Hash: meaningHash(s), Tables: s.Tables,
		KeyIsID: len(s.Key) == 0 || len(s.Key) == 1 && s.Key[0] == s.ID,
	}
}

// lineageStreams describes all streams to package lineage.
func lineageStreams(cfg *config.Config) (all []lineage.Stream) {
	for i := range cfg.Streams {
		all = append(all, lineageStream(cfg, &cfg.Streams[i]))
	}
	return all
}

// tableOf returns what opens the tables of streams for comparisons.
func tableOf(cfg *config.Config, from source.Source) func(stream, table string) (lineage.Table, error) {
	return func(stream, table string) (lineage.Table, error) {
		s := cfg.Stream(stream)
		encoder, err := cfg.Encoder(s, table)
		if err != nil {
			return lineage.Table{}, fmt.Errorf("stream %s: %w", stream, err)
		}
		return lineage.Table{Name: table, Source: from.Shard(s.Spec(table)), Encoder: encoder}, nil
	}
}

// newLineage returns what compares the source with the bus before this process publishes.
func (a *App) newLineage() *lineage.Check {
	cfg := a.opts.Config
	o := lineage.Options{Reader: a.reader, Streams: lineageStreams(cfg), Table: tableOf(cfg, a.source), Since: a.sinceOf, Retry: a.querySource}
	o.Most = func(ctx context.Context, stream string) uint64 {
		for _, table := range cfg.Stream(stream).Tables {
			if !a.knowsTable(ctx, store.Key{Stream: stream, Shard: table}) {
				return mostMessages
			}
		}
		return lineage.Window
	}
	o.Found = func(stream string, found lineage.Found) {
		if found.Expired && o.Most(context.Background(), stream) > lineage.Window {
			a.logger.Warn("all messages of the stream have expired: whether this is the database that they were read from is not known", "stream", stream)
		}
		for _, s := range a.streams {
			if s.Name != stream {
				continue
			}
			for table := range s.shards {
				rows, origin := found.Tables[table].List(publishedRows(countTables(cfg)))
				s.feed.SetNewest(table, rows, origin)
			}
		}
	}
	return lineage.NewCheck(o)
}

// knowsTable reports whether the checkpoint has the progress of a table, and the list of the rows
// published last: a standby that never worked has no list, and takes that of the bus.
func (a *App) knowsTable(ctx context.Context, key store.Key) bool {
	saved, found, err := a.store.Progress(ctx, key)
	if err != nil || !found || saved.Position == 0 {
		return err == nil && found
	}
	for _, err := range a.store.Parts(ctx, key, store.Published, 0) {
		return err == nil
	}
	return false
}

// sinceOf returns the epochs below which messages of the tables of a stream do not count: by the
// checkpoint, or by its copy on the bus.
func (a *App) sinceOf(ctx context.Context, stream string) (map[string]uint64, error) {
	since := make(map[string]uint64)
	for _, table := range a.opts.Config.Stream(stream).Tables {
		saved, _, err := a.store.Progress(ctx, store.Key{Stream: stream, Shard: table})
		if err != nil {
			return nil, err
		}
		since[table] = saved.Since
	}
	if a.copies == nil {
		return since, nil
	}
	copied, _, err := copyOf(ctx, a.copies, a.opts.Config.Stream(stream))
	for i := range copied.Shards {
		one := &copied.Shards[i]
		since[one.Key.Shard] = max(since[one.Key.Shard], one.Progress.Since)
	}
	return since, err
}

// querySource calls do until the source answers it. What does not heal by itself is left to the
// shard of the table.
func (a *App) querySource(ctx context.Context, do func() error) error {
	pause := backoff.Backoff{Max: 5 * time.Second}
	for {
		err := do()
		_, bad := errors.AsType[*event.BadValueError](err)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err == nil:
			a.faults.OK(shard.SourceDependency)
			return nil
		case bad, errors.Is(err, source.ErrMissing), errors.Is(err, source.ErrDenied), errors.Is(err, source.ErrUnfit), errors.Is(err, sink.ErrUnreadable):
			return nil
		}
		a.faults.Fail(shard.SourceDependency, err)
		if err := pause.Wait(ctx); err != nil {
			return err
		}
	}
}

// valuesWithin is how long the values of messages are waited for while a shard runs.
const valuesWithin = 30 * time.Second

// newestOf returns what reads the values of the newest messages of rows of a table; nil where the
// bus cannot be read.
func newestOf(cfg *config.Config, s *config.Stream, table string, p *parts) func(context.Context, []uint64) (map[uint64][]byte, error) {
	if p.reader == nil {
		return nil
	}
	return func(ctx context.Context, rows []uint64) (map[uint64][]byte, error) {
		ctx, cancel := context.WithTimeoutCause(ctx, valuesWithin, fmt.Errorf("the bus did not answer in %s", valuesWithin))
		defer cancel()
		stream := lineageStream(cfg, s)
		return lineage.Values(ctx, p.reader, &stream, table, rows)
	}
}
