package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

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

// maxReads bounds the reads of all tails of a source at the same time, each on its own connection,
// where the source has no bound of connections.
const maxReads = 8

// connsOf returns the connections of a source, and how many of them are for tails. The others that
// read are for reconciles, for reads by key and for entities that are asked for: none of these
// takes one from the tails, and none waits for another.
func connsOf(cfg *config.Config, of *config.Source) (conns source.Conns, tails int) {
	others := config.OtherReads(cfg.Serve)
	conns = source.Conns{Readers: maxReads + others, Most: of.Connections}
	if conns.Most > 0 {
		conns.Readers = of.Readers(conns.Most)
	}
	return conns, conns.Readers - others
}

func useOf(cfg *config.Config, logger *slog.Logger) driver.Use {
	u := driver.Use{Share: cfg.Share.Name(), Domain: cfg.DomainID, Streams: cfg.StreamNames(), Logger: cmp.Or(logger, slog.New(slog.DiscardHandler)), Uncompactable: cfg.Uncompactable()}
	if cfg.Sink.Destinations.Topics {
		u.Topics, u.Asked = cfg.Topics(), cfg.AskedTopics()
	} else {
		u.Subjects, u.Published, u.Readable = cfg.Subjects(), cfg.Published(), cfg.Readable()
	}
	return u
}

// shared returns the driver of a bus that several processes can share: the configuration has
// checked that it is one.
func shared(cfg *config.Config) driver.Shared { return cfg.Sink.Driver.(driver.Shared) }

// OpenReading opens the bus of cfg for reading, with connections of its own. logger is told what is
// waited for; nil discards it.
func OpenReading(ctx context.Context, cfg *config.Config, logger *slog.Logger, what driver.Reading) (*verify.Bus, error) {
	bus, able := cfg.Sink.Driver.(driver.Readable)
	if !able {
		return nil, fmt.Errorf("what bridge has printed cannot be read back: %s needs a sink that keeps its messages, as kafka: nats: and embedded: do", what.Command)
	}
	return bus.Read(ctx, useOf(cfg, logger), what)
}

// WithTables returns the configuration with the tables that match patterns of these streams now, of
// all where none is named. The databases of others are not asked.
func WithTables(ctx context.Context, cfg *config.Config, streams ...string) (*config.Config, error) {
	asked := Keep(cfg, func(s *config.Stream) bool { return len(streams) == 0 || slices.Contains(streams, s.Name) })
	if !asked.HasPatterns() {
		return cfg, nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, listWithin, fmt.Errorf("the databases did not list their tables within %v", listWithin))
	defer cancel()
	found, err := matchedNow(ctx, asked)
	matched := make(map[string][]string)
	for _, one := range found {
		matched[one.stream] = append(matched[one.stream], one.tables...)
	}
	cfg = cfg.WithTables(matched)
	for _, one := range found {
		if s := cfg.Stream(one.stream); !one.listed {
			s.Unlisted = append(s.Unlisted, one.pattern)
		}
	}
	return cfg, err
}

// matches are the tables that match a pattern, and none before it in its stream. Unless its
// database is listed they are not known.
type matches struct {
	stream, pattern string
	tables          []string
	listed          bool
}

// matchedNow returns what matches patterns. The error says which databases do not answer.
func matchedNow(ctx context.Context, cfg *config.Config) (found []matches, err error) {
	all, err := OpenSources(cfg, nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, all.Close()) }()
	lists, err := all.listTables(ctx, listWithin, func(*database, error) {})
	for i := range cfg.Streams {
		s := &cfg.Streams[i]
		by, n := make(map[string][]string), len(s.Tables)
		all.eachMatch(s, lists, func(name, pattern string) {
			if cfg.CanPublish(s, name) == nil && n < source.MaxTables {
				by[pattern] = append(by[pattern], name)
				n++
			}
		})
		for _, d := range all.all {
			_, listed := lists[d]
			for _, pattern := range cfg.PatternsOf(s, d.Source) {
				found = append(found, matches{s.Name, pattern, by[pattern], listed})
			}
		}
	}
	return found, err
}

// listTables lists the tables of each database that a pattern is of, as far as they answer in time,
// and calls note with what each one says.
func (s *Sources) listTables(ctx context.Context, within time.Duration, note func(*database, error)) (map[*database]source.TableList, error) {
	var mu sync.Mutex
	lists := make(map[*database]source.TableList)
	errs := s.each(func(d *database) error {
		lister, able := d.from.(source.Lister)
		asked := slices.ContainsFunc(s.cfg.Streams, func(one config.Stream) bool { return len(s.cfg.PatternsOf(&one, d.Source)) > 0 })
		if !able || !asked {
			return nil
		}
		listing, cancel := context.WithTimeoutCause(ctx, within, fmt.Errorf("the database did not list its tables within %v", within))
		defer cancel()
		list, err := lister.Tables(listing)
		if ctx.Err() == nil {
			note(d, err)
		}
		if err != nil {
			return d.named(fmt.Errorf("%s: %w", d.Label(), err))
		}
		mu.Lock()
		defer mu.Unlock()
		lists[d] = list
		return nil
	})
	return lists, errors.Join(errs...)
}

func (s *Sources) eachMatch(stream *config.Stream, lists map[*database]source.TableList, do func(name, pattern string)) {
	for _, d := range s.all {
		match := s.cfg.Matcher(stream, d.Source)
		for _, t := range lists[d].Names {
			if name, pattern, ok := match(t); ok && s.cfg.Share.Owns(stream, name) {
				do(name, pattern)
			}
		}
	}
}

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
	describe := func(s *config.Stream, table string) (contract.Table, error) {
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
	tables, faults := make([]contract.Table, len(keys)), make([]error, len(keys))
	var g errgroup.Group
	g.SetLimit(maxReads)
	for i, key := range keys {
		g.Go(func() error {
			tables[i], faults[i] = describe(cfg.Stream(key.Stream), key.Shard)
			return nil
		})
	}
	// Every error is among the faults.
	_ = g.Wait()
	return tables, faults, src.Close()
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

// Verify is [Verify] beside what the app publishes.
func (a *App) Verify(ctx context.Context, examples int) (*verify.Report, error) {
	return Verify(ctx, a.opts.Config, a.sink, nil, examples, nil)
}

// Verify opens source and bus, and compares them. What it waits for is logged. running is the open
// sink of this process, nil where there is none.
func Verify(ctx context.Context, cfg *config.Config, running sink.Sink, logger *slog.Logger, examples int, progress func(verify.Step)) (report *verify.Report, err error) {
	cfg, err = WithTables(ctx, cfg)
	var unfit []verify.Unfit
	for i := range cfg.Streams {
		if s := &cfg.Streams[i]; len(s.Unlisted) > 0 {
			unfit = append(unfit, verify.Unfit{Stream: s.Name, Shard: s.Unlisted[0], What: config.Text(err)})
		}
	}
	if err != nil && (len(unfit) == 0 || len(unfit) == len(cfg.Streams)) {
		return nil, err
	}
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
	return verify.Run(ctx, verify.Options{Shards: shards, Unfit: unfit, Bus: bus, Domain: cfg.DomainID, Examples: examples, Progress: progress})
}

func verifyShards(cfg *config.Config, src *Sources) ([]verify.Shard, error) {
	var shards []verify.Shard
	for i := range cfg.Streams {
		s := &cfg.Streams[i]
		for _, table := range s.Tables {
			of, _ := src.of(table)
			encoder, err := cfg.Encoder(s, table)
			if err != nil {
				return nil, fmt.Errorf("stream %s: %w", s.Name, err)
			}
			shards = append(shards, verify.Shard{
				Stream: s.Name, Name: table, Kind: s.Kind, Source: src.Shard(s.Spec(table)), Database: of.Label(), Encoder: encoder,
				Zone: s.TimeZone.Location, Window: s.StabilityWindow, Latest: s.Start.Latest, After: s.Start.After,
				Apart: len(s.Key) == 0, Hash: meaningHash(s), Destinations: cfg.Addresses(s, table, ""), Text: config.StreamText(s.Name),
			})
		}
	}
	return shards, nil
}
