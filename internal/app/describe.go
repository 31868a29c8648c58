package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"bridge/checkpoint/store"
	"bridge/internal/config"
	"bridge/internal/contract"
	"bridge/internal/progress"
	"bridge/source"
)

// Describe returns what the events of the named streams look like, by the columns that the tables
// have now. It reads one row of each table and uses neither bus nor checkpoint. The error is that
// of the source, or says which columns make no event, of each stream that is therefore left out; if
// that is all of them, of one.
func Describe(ctx context.Context, cfg *config.Config, names []string) (streams []contract.Stream, err error) {
	src, err := OpenSource(cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	all, faults := make([]contract.Stream, len(names)), make([]error, len(names))
	var mu sync.Mutex
	var g errgroup.Group
	g.SetLimit(maxReads)
	for i, name := range names {
		s := cfg.Stream(name)
		all[i] = contract.Stream{
			Name: s.Name, Domain: cfg.DomainID, Kind: s.Kind, Tables: make([]contract.Table, len(s.Tables)),
		}
		for at, table := range s.Tables {
			g.Go(func() error {
				one, err := describeTable(ctx, cfg, s, table, src)
				mu.Lock()
				defer mu.Unlock()
				all[i].Tables[at] = one
				if err != nil && faults[i] == nil {
					faults[i] = errors.New("stream " + s.Name + ": " + config.StreamText(s.Name)(err))
				}
				return nil
			})
		}
	}
	// Every error is among the faults.
	_ = g.Wait()
	for i, fault := range faults {
		if err = errors.Join(err, fault); fault == nil {
			streams = append(streams, all[i])
		}
	}
	if len(streams) == 0 && len(faults) > 0 {
		return nil, faults[0]
	}
	return streams, err
}

func describeTable(ctx context.Context, cfg *config.Config, s *config.Stream, table string, src source.Source) (contract.Table, error) {
	t := contract.Table{Name: table, Destination: func(eventType string) string { return cfg.Address(s, table, eventType) }}
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
	var hosts []string
	protocol := cfg.Sink.Scheme
	switch cfg.Sink.Scheme {
	case "kafka":
		hosts = cfg.Sink.Kafka.Brokers
		if cfg.Sink.Kafka.UseTLS {
			protocol = "kafka-secure"
		}
	case "nats":
		hosts = cfg.Sink.NATS.Servers
	case "embedded":
		if protocol = "nats"; cfg.Sink.Embedded.Listen != "" {
			hosts = []string{cfg.Sink.Embedded.Listen}
		}
	}
	var servers []contract.Server
	for _, host := range hosts {
		// A token stands before the first one.
		host = host[strings.LastIndex(host, "@")+1:]
		servers = append(servers, contract.Server{Host: host, Protocol: protocol})
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
	src, err := OpenSource(cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		return schemas
	}
	// Nothing was written that a failing close could lose.
	defer func() { _ = src.Close() }()
	var mu sync.Mutex
	var g errgroup.Group
	g.SetLimit(maxReads)
	for _, key := range shards {
		g.Go(func() error {
			one, err := describeTable(ctx, cfg, cfg.Stream(key.Stream), key.Shard, src)
			if err == nil {
				mu.Lock()
				defer mu.Unlock()
				schemas[key] = progress.SchemaOf(one.Encoder)
			}
			return nil
		})
	}
	// What cannot be read is left out.
	_ = g.Wait()
	return schemas
}
