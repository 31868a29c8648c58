package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/internal/config"
	"example.org/bridge/internal/contract"
	"example.org/bridge/internal/driver"
	"example.org/bridge/internal/stream"
	"example.org/bridge/internal/verify"
	"example.org/bridge/sink"
	"example.org/bridge/source"
)

// Describe returns what the events of the named streams look like, by the columns that the tables
// have now. It reads one row of each table and uses neither bus nor checkpoint. The error is that
// of the source, or says which columns make no event, of each stream that is therefore left out; if
// that is all of them, of one.
func Describe(ctx context.Context, cfg *config.Config, names []string) (streams []contract.Stream, err error) {
	var keys []store.Key
	for _, name := range names {
		for _, table := range cfg.Stream(name).Tables {
			keys = append(keys, store.Key{Stream: name, Shard: table})
		}
	}
	tables, faults, err := describeAll(ctx, cfg, keys)
	if err != nil {
		return nil, err
	}
	var first error
	for _, name := range names {
		s := cfg.Stream(name)
		n := len(s.Tables)
		var fault error
		if i := slices.IndexFunc(faults[:n], func(err error) bool { return err != nil }); i >= 0 {
			fault = errors.New("stream " + s.Name + ": " + config.StreamText(s.Name)(faults[i]))
		} else if n == 0 {
			fault = fmt.Errorf("stream %s: no table matches %s", s.Name, strings.Join(s.Patterns, ", "))
		} else {
			streams = append(streams, contract.Stream{Name: s.Name, Domain: cfg.DomainID, Kind: s.Kind, Tables: tables[:n:n]})
		}
		first, err = cmp.Or(first, fault), errors.Join(err, fault)
		tables, faults = tables[n:], faults[n:]
	}
	if len(streams) == 0 && first != nil {
		return nil, first
	}
	return streams, err
}

// describeAll returns what the events of tables look like by the columns that they have now, or why
// there are none. It reads a few tables at a time.
func describeAll(ctx context.Context, cfg *config.Config, keys []store.Key) ([]contract.Table, []error, error) {
	src, err := OpenSources(cfg, nil)
	if err != nil {
		return nil, nil, err
	}
	tables, faults := make([]contract.Table, len(keys)), make([]error, len(keys))
	var g errgroup.Group
	g.SetLimit(maxReads)
	for i, key := range keys {
		g.Go(func() error {
			tables[i], faults[i] = describeTable(ctx, cfg, cfg.Stream(key.Stream), key.Shard, src)
			return nil
		})
	}
	// Every error is among the faults.
	_ = g.Wait()
	return tables, faults, src.Close()
}

func describeTable(ctx context.Context, cfg *config.Config, s *config.Stream, table string, src source.Source) (contract.Table, error) {
	t := contract.Table{Name: table, Destinations: func(eventType string) []string { return cfg.Addresses(s, table, eventType) }}
	var page source.Page
	err := src.Shard(s.Spec(table)).Read(ctx, source.Query{Limit: 1}, &page)
	if err != nil {
		return t, fmt.Errorf("read the columns of %s: %w", table, err)
	}
	t.Columns = page.Columns
	if t.Encoder, err = cfg.Encoder(s, table); err != nil {
		return t, err
	}
	return t, t.Encoder.Bind(t.Columns)
}

// ServersOf returns the servers of the bus as AsyncAPI names them; none where it has no address.
func ServersOf(cfg *config.Config) []contract.Server {
	var servers []contract.Server
	for _, host := range cfg.Sink.Servers {
		servers = append(servers, contract.Server{Host: host, Protocol: cfg.Sink.Protocol, KeyBinding: cfg.Sink.KeyBinding})
	}
	return servers
}

// schemasOf returns what the events of shards would look like by the columns that the tables have
// now. It leaves out those whose columns cannot be read or make no event: the inspection of the
// source says why.
func schemasOf(ctx context.Context, cfg *config.Config, shards []store.Key) map[store.Key]*store.Schema {
	schemas := make(map[store.Key]*store.Schema)
	if len(shards) == 0 {
		return schemas
	}
	// Where the sources cannot be opened there are none.
	tables, faults, _ := describeAll(ctx, cfg, shards)
	for i := range tables {
		if faults[i] == nil {
			schemas[shards[i]] = stream.SchemaOf(tables[i].Encoder)
		}
	}
	return schemas
}

// Verify opens source and bus, and compares them. What it waits for is logged.
func Verify(ctx context.Context, cfg *config.Config, logger *slog.Logger, examples int, progress func(verify.Step)) (*verify.Report, error) {
	return verifyBeside(ctx, cfg, nil, logger, examples, progress)
}

// Verify is [Verify] beside what the app publishes.
func (a *App) Verify(ctx context.Context, examples int) (*verify.Report, error) {
	return verifyBeside(ctx, a.opts.Config, a.sink, nil, examples, nil)
}

// verifyBeside is Verify with the open sink of this process, nil where there is none.
func verifyBeside(ctx context.Context, cfg *config.Config, running sink.Sink, logger *slog.Logger, examples int, progress func(verify.Step)) (report *verify.Report, err error) {
	src, err := OpenSources(cfg, nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	bus, err := OpenReading(ctx, cfg, logger, driver.Reading{Destinations: cfg.Readable(), Command: "bridge verify", Running: running})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, bus.Close()) }()
	shards, err := verifyShards(cfg, src)
	if err != nil {
		return nil, err
	}
	if examples == 0 {
		// None at all; zero would be the default.
		examples = -1
	}
	return verify.Run(ctx, verify.Options{Shards: shards, Bus: bus, Domain: cfg.DomainID, Examples: examples, Progress: progress})
}

// verifyShards returns every table with what its events look like.
func verifyShards(cfg *config.Config, src source.Source) ([]verify.Shard, error) {
	var shards []verify.Shard
	for i := range cfg.Streams {
		s := &cfg.Streams[i]
		for _, table := range s.Tables {
			encoder, err := cfg.Encoder(s, table)
			if err != nil {
				return nil, fmt.Errorf("stream %s: %w", s.Name, err)
			}
			shards = append(shards, verify.Shard{
				Stream: s.Name, Name: table, Kind: s.Kind, Source: src.Shard(s.Spec(table)), Encoder: encoder,
				Zone: s.TimeZone.Location, Window: s.StabilityWindow, Latest: s.Start.Latest, After: s.Start.After,
				Apart: len(s.Key) == 0, Hash: meaningHash(s), Destinations: cfg.Addresses(s, table, ""), Text: config.StreamText(s.Name),
			})
		}
	}
	return shards, nil
}
