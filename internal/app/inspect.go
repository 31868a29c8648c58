package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/checkpoint/store/pebble"
	"example.org/bridge/internal/check"
	"example.org/bridge/internal/config"
	"example.org/bridge/internal/driver"
	"example.org/bridge/internal/httpapi"
	"example.org/bridge/internal/inspect"
	"example.org/bridge/internal/lineage"
	"example.org/bridge/internal/null"
	"example.org/bridge/internal/option"
	"example.org/bridge/internal/shard"
	"example.org/bridge/internal/terminal"
	"example.org/bridge/sink"
	"example.org/bridge/source"
)

// Examine inspects everything that cfg names.
func Examine(ctx context.Context, cfg *config.Config) []check.Group {
	// Only a defect is an error in the log of a source.
	logger := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	sources, err := OpenSources(cfg, logger)
	if err == nil {
		// Nothing was written that a failing close could lose.
		defer func() { _ = sources.Close() }()
	}
	return check.Examine(ctx, cfg, check.Subjects{
		Source: func(ctx context.Context, of *config.Source, tables []source.Expected) (found source.Inspection) {
			if err != nil {
				found.Server.Add(inspect.Unsafe, inspect.SourceUnreachable, of.Label(), "cannot be opened: "+config.Text(err)).Says("correct %s", of.Setting())
				return found
			}
			return inspectSource(ctx, cfg, sources, of, tables, logger)
		},
		Schemas: schemasOf,
		Lineage: inspectLineage,
		Sink: func(ctx context.Context) inspect.Report {
			r := inspectSink(ctx, cfg)
			unreached := func(f inspect.Finding) bool { return f.Code == inspect.SinkUnreachable || f.Code == inspect.SinkLogin }
			if !slices.ContainsFunc(r.Findings, unreached) {
				inspectStandby(ctx, cfg, &r)
				inspectCopies(ctx, cfg, &r)
			}
			return r
		},
		Store: func(ctx context.Context) store.Inspection {
			path := cfg.CheckpointPath
			if above := filepath.Dir(path); cfg.Share.One() {
				if _, err := os.Stat(above); err != nil {
					// It is made with that of the share.
					path = above
				}
			}
			return pebble.Inspect(ctx, path)
		},
		HTTP: inspectHTTP,
	})
}

func inspectSource(ctx context.Context, cfg *config.Config, sources *Sources, of *config.Source, tables []source.Expected, logger *slog.Logger) source.Inspection {
	d := sources.all[slices.IndexFunc(sources.all, func(d *database) bool { return d.Source == of })]
	conns, tails := connsOf(cfg, of)
	found := d.inspect(ctx, cfg, tables, tails, logger)
	inspectRows(ctx, cfg, sources.Shard, tables, tails, &found)
	most := cmp.Or(conns.Most, conns.Readers)
	if n := cfg.Share.Number; n > 1 {
		found.Server.Summary += fmt.Sprintf(", up to %d connections of all %d shares", n*most, n)
	}
	if len(sources.all) == 1 {
		return found
	}
	found.Server.Summary += ", up to " + terminal.Count(most, "connection")
	if slices.ContainsFunc(found.Server.Findings, func(f inspect.Finding) bool { return f.Code == inspect.Replica }) {
		for _, rival := range d.rivals {
			found.Server.Add(inspect.Warning, inspect.Replica, d.Label(), "is a replica, and has a database named "+cfg.SharedDatabase(of, rival.Source)+" as "+rival.Label()+
				" has: where one of the two replicates the other, they have the same rows, and each is published twice").
				Says("unset %s or %s where one replicates the other, and neither where their rows differ", of.Setting(), rival.Setting())
		}
	}
	return found
}

func inspectSink(ctx context.Context, cfg *config.Config) inspect.Report {
	if unopened, ok := cfg.Sink.Driver.(driver.Inspector); ok {
		return unopened.Inspect(ctx, useOf(cfg, nil))
	}
	bus, err := cfg.Sink.Driver.Open(useOf(cfg, nil))
	if err != nil {
		var r inspect.Report
		r.Add(inspect.Unsafe, inspect.SinkUnreachable, "sink", "cannot be opened: "+config.Text(err)).Says("correct %s and the variables of the bus", option.SinkURL)
		return r
	}
	// Nothing was written that a failing close could lose.
	defer func() { _ = bus.Close() }()
	if inspector, ok := bus.(sink.Inspector); ok {
		return inspector.Inspect(ctx)
	}
	return inspect.Report{Summary: cfg.Sink.Scheme + ": prints events"}
}

// livenessTimeout is how long a bridge at the address of the HTTP server may take to answer.
const livenessTimeout = 2 * time.Second

// inspectHTTP reports a bridge that answers at the address of the HTTP server, or why nothing can
// listen there, and who would be refused. The report of a free address on loopback is empty. It
// listens for a moment only if no bridge answers; ofStreams is what one says of streams of cfg.
func inspectHTTP(ctx context.Context, cfg *config.Config) (r inspect.Report, ofStreams map[string][]inspect.Finding) {
	switch {
	case cfg.HTTPToken != nil:
	case cfg.Standby.Group != "" && onlyOwnHost(cfg.HTTPAddr):
		r.Summary = cfg.HTTPAddr
		r.Add(inspect.Note, inspect.HTTPToken, "standby group "+standbyGroup(cfg), "has no token: a reconcile or a resend that is requested of a process that waits is refused").
			Says("set %s, the same in all processes", option.HTTPToken)
	case !onlyOwnHost(cfg.HTTPAddr):
		r.Summary = cfg.HTTPAddr
		r.Add(inspect.Note, inspect.HTTPToken, cfg.HTTPAddr, "can be reached from other hosts, and no token is set: their requests for a reconcile or a resend are refused, also those that a standby forwards").
			Says("set %s where such requests are to be served", option.HTTPToken)
	}
	asking, cancel := context.WithTimeoutCause(ctx, livenessTimeout, errors.New("no answer from the address of the HTTP server"))
	defer cancel()
	client := &httpapi.Client{Addr: config.Reachable(cfg.HTTPAddr), Setting: config.HTTPVariable, TLS: cfg.HTTPTLS}
	// A bridge that is not live answers, too.
	if _, _, err := client.Live(asking); err == nil {
		r.Summary = cfg.HTTPAddr + ", where a bridge answers"
		ofStreams := inspectRunning(ctx, cfg, client, &r)
		return r, ofStreams
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", cfg.HTTPAddr)
	if err == nil {
		// Nothing was accepted that a failing close could lose.
		_ = listener.Close()
		return r, nil
	}
	r.Summary = cfg.HTTPAddr
	if errors.Is(err, syscall.EADDRINUSE) {
		r.Add(inspect.Unsafe, inspect.HTTPAddress, cfg.HTTPAddr, "is taken by another process, and no bridge answers there").
			Says("end that process, or set %s to another port", config.HTTPVariable)
	} else {
		r.Add(inspect.Unsafe, inspect.HTTPAddress, cfg.HTTPAddr, "cannot be listened on: "+err.Error()).Says("correct %s", config.HTTPVariable)
	}
	return r, nil
}

// inspectRunning adds why a bridge that runs is not ready, and returns what it says of streams of
// cfg.
func inspectRunning(ctx context.Context, cfg *config.Config, client *httpapi.Client, r *inspect.Report) map[string][]inspect.Finding {
	status, err := client.StatusOf(ctx, "", string(shard.Stopped))
	ready, _, failed := client.Ready(ctx)
	if err = cmp.Or(err, failed); err != nil {
		r.Add(inspect.Warning, inspect.NotReady, cfg.HTTPAddr, "does not say whether it is ready: "+config.Text(err)).Says("see its log")
		return nil
	}
	ofStreams := make(map[string][]inspect.Finding)
	add := func(severity inspect.Severity, stream, table, what string, remedy null.Text) {
		var one inspect.Report
		one.Add(severity, inspect.NotReady, cmp.Or(table, stream, cfg.HTTPAddr), what).Says("%s", cmp.Or(string(remedy), "see its log, and type bridge status"))
		if cfg.Stream(stream) == nil {
			r.Findings = append(r.Findings, one.Findings...)
			return
		}
		ofStreams[stream] = append(ofStreams[stream], one.Findings...)
	}
	stopped := make(map[store.Key]bool)
	for i := range status.Streams {
		of := &status.Streams[i]
		for j := range of.Shards {
			s := &of.Shards[j]
			stopped[store.Key{Stream: of.Name, Shard: s.Shard}] = true
			// The configuration that is checked may be the one that repairs it.
			add(inspect.Warning, of.Name, s.Shard, "is stopped in the bridge that runs: "+string(s.Reason), s.Remedy)
		}
	}
	for _, one := range ready.Reasons {
		if !stopped[store.Key{Stream: one.Stream, Shard: one.Shard}] {
			add(inspect.Warning, one.Stream, one.Shard, "is not ready: "+one.Reason, "")
		}
	}
	return ofStreams
}

func inspectCopies(ctx context.Context, cfg *config.Config, r *inspect.Report) {
	if cfg.CheckpointTopic == "" {
		return
	}
	bucket, bus, err := shared(cfg).Progress(cfg.CheckpointTopic, 0, useOf(cfg, nil))
	if err != nil {
		r.Add(inspect.Unsafe, inspect.SinkUnreachable, "progress on the bus", "cannot be opened: "+config.Text(err)).Says("correct %s", option.CheckpointURL)
		return
	}
	// Nothing was written that a failing close could lose.
	defer func() { _ = bucket.Close() }()
	found := bus.Inspect(ctx)
	r.Findings = append(r.Findings, found.Findings...)
	r.Summary += "; progress in " + cfg.CheckpointTopic
}

// It takes no part in the election.
func inspectStandby(ctx context.Context, cfg *config.Config, r *inspect.Report) {
	if cfg.Standby.Group == "" {
		return
	}
	ctx, cancel := context.WithTimeoutCause(ctx, cfg.Standby.Timeout, errors.New("the bus does not answer"))
	defer cancel()
	elector, err := openElector(cfg, nil)
	if err == nil {
		err = errors.Join(elector.Check(ctx), elector.Close())
	}
	if err == nil {
		r.Summary += "; standby group " + standbyGroup(cfg)
		return
	}
	found := r.Add(inspect.Unsafe, inspect.StandbyGrant, "standby group "+standbyGroup(cfg), "cannot be joined: "+config.Text(err)).
		Says("see to the rights of the login, or unset %s", option.Standby)
	if grant := shared(cfg).Grant(groupOf(cfg)); grant != "" {
		found.Types("%s", grant)
	}
}

// It says nothing about what cannot be read: the inspections of source and bus do.
func inspectLineage(ctx context.Context, cfg *config.Config, of *config.Source, since map[store.Key]uint64) (r inspect.Report) {
	if _, ok := cfg.Sink.Driver.(driver.Inspector); ok {
		return r
	}
	src, err := OpenSources(cfg, nil)
	if err != nil {
		return r
	}
	// Nothing was written that a failing close could lose.
	defer func() { _ = src.Close() }()
	bus, err := cfg.Sink.Driver.Open(useOf(cfg, nil))
	if err != nil {
		return r
	}
	defer func() { _ = bus.Close() }()
	reader, able := bus.(sink.Reader)
	if !able {
		return r
	}
	o := lineage.Options{Reader: reader, Streams: lineageStreams(cfg, of), Table: tableOf(cfg, src)}
	o.Most = func(context.Context, string) uint64 { return mostMessages }
	o.Since = func(_ context.Context, stream string) (map[string]uint64, error) {
		of := make(map[string]uint64)
		for key, epoch := range since {
			if key.Stream == stream {
				of[key.Shard] = epoch
			}
		}
		return of, nil
	}
	o.Retry = func(_ context.Context, do func() error) error {
		// A table that cannot be read shows nothing.
		_ = do()
		return nil
	}
	other, found := errors.AsType[*lineage.OtherError](lineage.NewCheck(o).All(ctx))
	if found {
		r.Add(inspect.Unsafe, inspect.OtherDatabase, of.Label(), "is not the database that the rows on the bus were read from: "+other.What()).Says(other.Remedy(), option.DomainID)
	}
	return r
}
