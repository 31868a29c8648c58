package app

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/client/backoff"
	"example.org/bridge/event"
	"example.org/bridge/internal/config"
	"example.org/bridge/internal/lineage"
	"example.org/bridge/sink"
	"example.org/bridge/source"
)

// mostMessages is how many of the newest messages of a topic-partition are read at a start whose
// checkpoint does not know a table, until rows of each table are found.
const mostMessages = 50_000

func lineageStream(cfg *config.Config, s *config.Stream, tables []string) lineage.Stream {
	return lineage.Stream{
		Name: s.Name, Domain: cfg.DomainID, Kind: s.Kind, Destinations: cfg.Destinations(s), Hash: meaningHash(s), Tables: tables,
		KeyIsID: len(s.Key) == 0 || len(s.Key) == 1 && s.Key[0] == s.ID,
	}
}

func lineageStreams(cfg *config.Config, of *config.Source) (all []lineage.Stream) {
	for i := range cfg.Streams {
		if tables := cfg.TablesOf(&cfg.Streams[i], of); len(tables) > 0 {
			all = append(all, lineageStream(cfg, &cfg.Streams[i], tables))
		}
	}
	return all
}

func tableOf(cfg *config.Config, from *Sources) func(stream, table string) (lineage.Table, error) {
	return func(stream, table string) (lineage.Table, error) {
		s := cfg.Stream(stream)
		encoder, err := cfg.Encoder(s, table)
		if err != nil {
			return lineage.Table{}, fmt.Errorf("stream %s: %w", stream, err)
		}
		return lineage.Table{Name: table, Source: from.Shard(s.Spec(table)), Encoder: encoder}, nil
	}
}

type scanner func(ctx context.Context, s *lineage.Stream, most uint64) (lineage.Found, error)

// scanOnce returns a scanner that reads the messages of each stream once for all databases, until
// they are forgotten.
func (a *admissions) scanOnce() (scan scanner, forget func(stream any)) {
	type scanned struct {
		scanning chan struct{}
		found    *lineage.Found
	}
	var all sync.Map
	return func(ctx context.Context, s *lineage.Stream, most uint64) (lineage.Found, error) {
		kept, _ := all.LoadOrStore(s.Name, &scanned{scanning: make(chan struct{}, 1)})
		one, whole := kept.(*scanned), *s
		release, err := backoff.Acquire(ctx, one.scanning)
		if err != nil {
			return lineage.Found{}, err
		}
		defer release()
		if one.found != nil {
			return *one.found, nil
		}
		whole.Tables = a.cfg.Stream(s.Name).Tables
		found, err := lineage.Scan(ctx, a.reader, &whole, most, nil)
		if err == nil {
			one.found = &found
		}
		return found, err
	}, all.Delete
}

// comes is that of lineage.Options, once that of querySource.
func (a *admissions) newLineage(d *database, scan scanner, comes func(stream string) bool, once bool) *lineage.Check {
	cfg := a.cfg
	o := lineage.Options{Reader: a.reader, Scan: scan, Streams: lineageStreams(cfg, d.Source), Table: tableOf(cfg, a.sources), Since: a.sinceOf, Comes: comes}
	o.Retry = func(ctx context.Context, do func() error) error { return a.querySource(ctx, d, once, do) }
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
			for _, table := range cfg.TablesOf(s.Stream, d.Source) {
				rows, origin := found.Tables[table].List(publishedRows(countTables(cfg)))
				s.feed.SetNewest(table, rows, origin)
			}
		}
	}
	return lineage.NewCheck(o)
}

// knowsTable reports whether the checkpoint has the progress of a table, and the list of the rows
// published last: a standby that never worked has no list, and takes that of the bus.
func (a *admissions) knowsTable(ctx context.Context, key store.Key) bool {
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
func (a *admissions) sinceOf(ctx context.Context, stream string) (map[string]uint64, error) {
	since := make(map[string]uint64)
	for _, table := range a.cfg.Stream(stream).Tables {
		saved, _, err := a.store.Progress(ctx, store.Key{Stream: stream, Shard: table})
		if err != nil {
			return nil, unread(err)
		}
		since[table] = saved.Since
	}
	if a.copies == nil {
		return since, nil
	}
	copied, err := copyOf(ctx, a.copies, a.cfg, a.cfg.Stream(stream))
	for i := range copied.Shards {
		one := &copied.Shards[i]
		since[one.Key.Shard] = max(since[one.Key.Shard], one.Progress.Since)
	}
	return since, err
}

// errAway is returned where a database is not waited for.
var errAway = errors.New("the database does not answer")

// querySource calls do until a database answers it: once, if there are other databases. What does
// not heal by itself is left to the shard of the table.
func (a *admissions) querySource(ctx context.Context, d *database, once bool, do func() error) error {
	pause := backoff.Backoff{Max: 5 * time.Second}
	for {
		err := do()
		_, bad := errors.AsType[*event.BadValueError](err)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err == nil:
			a.faults.OK(d.Label())
			return nil
		case errors.Is(err, errOneServer):
			a.faults.Fail(d.Label(), err)
			return err
		case bad, source.Stops(err), errors.Is(err, sink.ErrUnreadable):
			return nil
		}
		a.faults.Fail(d.Label(), err)
		if err := pause.Wait(ctx); err != nil {
			return err
		}
		if once && len(a.sources.all) > 1 {
			return errAway
		}
	}
}

// readableEvery is how often a stream is read that has stopped because it could not be read.
var readableEvery = 10 * time.Second

// awaitReadable waits until such a stream can be read, or ctx ends: another app has it go on.
func (a *App) awaitReadable(ctx context.Context) bool {
	for backoff.Pause(ctx, readableEvery) == nil {
		for i, one := range a.recovery.Progress().Streams {
			if !errors.Is(one.Err, sink.ErrUnreadable) {
				continue
			}
			s := lineageStream(a.opts.Config, a.streams[i].Stream, nil)
			// Where nothing is left nothing is proved: it may be removed once it is consumed.
			if found, err := lineage.Scan(ctx, a.reader, &s, lineage.Window, nil); err == nil && !found.Expired {
				a.logger.Info("a stream can be read again", "stream", one.Stream)
				return true
			}
		}
	}
	return false
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
		stream := lineageStream(cfg, s, s.Tables)
		return lineage.Values(ctx, p.reader, &stream, table, rows)
	}
}
