package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"bridge/internal/demo"
	"bridge/internal/outage"
	"bridge/internal/pipeline"
	"bridge/reconcile"
)

// demoAddress is where the demo's NATS server listens: a free port of the loopback.
const demoAddress = "127.0.0.1:0"

// reconcileEvery is the demo's interval: what only a reconcile sees is on the bus while somebody looks.
const reconcileEvery = 3 * time.Second

// environ is the configuration of the demo, as bridge run would read it.
func (s *demoStage) environ() []string {
	path := func(scheme, name string) string {
		return (&url.URL{Scheme: scheme, Path: filepath.Join(s.dir, name)}).String()
	}
	stream := func(table string, settings ...string) []string {
		for i := range settings {
			settings[i] = variablePrefix(table) + settings[i]
		}
		return append(settings, variablePrefix(table)+"TABLE="+table, variablePrefix(table)+"CREATED=gmt_create")
	}
	return slices.Concat(
		[]string{
			prefix + "SOURCE_URL=" + path("sqlite", "app.db"),
			prefix + "SINK_URL=" + path("embedded", "nats") + "?listen=" + url.QueryEscape(demoAddress),
			prefix + "CHECKPOINT_URL=" + path("file", "bridge.db"),
			prefix + "STREAMS=" + strings.Join(demo.Tables, ","),
			prefix + "DOMAIN_ID=demo",
			prefix + "POLL_INTERVAL=100ms",
			// SQLite has one writer: no row commits behind a higher id that was handed out after its own.
			prefix + "STABILITY_WINDOW=0s",
			prefix + "RECONCILE_INTERVAL=" + reconcileEvery.String(),
		},
		stream(demo.Revisions, "KIND=capability", "KEY=data_center,revision", "MODIFIED=gmt_modified", "DELETED=deleted", "FAMILY=registry"),
		stream(demo.Capabilities, "KIND=capability", "KEY=stp_name,capability_key", "DELETED=deleted", "ID_ORDER=segmented", "FAMILY=lab"),
		stream(demo.Releases, "KIND=release", "KEY=app_id,cluster,namespace", "FAMILY=config", "EVENT=AppRelease"),
	)
}

// run sets the stage, lets the application write for a while, and judges. ctx ends the writing, not the judging.
func (s *demoStage) run(ctx context.Context) (err error) {
	environ := s.environ()
	cfg, err := loadConfig(environ, &redactor{})
	if err != nil {
		return fmt.Errorf("configure the demo: %w", err)
	}
	if s.keep {
		if err := os.WriteFile(filepath.Join(s.dir, "bridge.env"), []byte(strings.Join(environ, "\n")+"\n"), 0o600); err != nil {
			return fmt.Errorf("keep the configuration: %w", err)
		}
	}
	db, err := demo.OpenDatabase(ctx, cfg.Source.SQLite.Path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	bridge, err := s.openBridge(cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, bridge.close()) }()
	subscriber, err := demo.Subscribe(bridge.url, cfg.Sink.Embedded.Stream)
	if err != nil {
		return err
	}
	defer subscriber.Close()
	if err := s.greet(bridge.url); err != nil {
		return err
	}
	begun := time.Now()
	if err := s.play(ctx, demo.NewWriters(db, &s.record), bridge, subscriber); err != nil {
		return err
	}
	ran := time.Since(begun)
	judging, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), judgeWithin, errors.New("the stream cannot be read to its end"))
	defer cancel()
	events, err := subscriber.All(judging)
	if err != nil {
		return err
	}
	return s.verdict(demo.Judge(events, &s.record), ran)
}

// greet says what happens and how to see it from outside.
func (s *demoStage) greet(at string) error {
	_, err := fmt.Fprintf(s.out, `An application writes to an SQLite database, and bridge publishes its rows as
events to NATS, all in this process, for %s. Ctrl-C ends it.
Beside the latency stands what noticed an event, unless the tail did: "late",
its id is below earlier ones; "edit", the second cursor; "scan", a reconcile.
To see the events from outside:

  nats sub 'eiffel.>' -s %s

time     event                      entity and state                    latency
`, s.length, at)
	return err
}

// play runs the pipeline, the application and the screen until the length is over, ctx ends or something fails, and then until
// all rows are on the bus.
func (s *demoStage) play(ctx context.Context, writers *demo.Writers, bridge *demoBridge, subscriber *demo.Subscriber) error {
	s.screen = &demo.Screen{W: s.out, Colour: s.colour, Record: &s.record}
	all, abort := context.WithCancel(context.WithoutCancel(ctx))
	defer abort()
	group, all := errgroup.WithContext(all)
	tails, stopTails := context.WithCancel(all)
	defer stopTails()
	following, stopFollowing := context.WithCancel(all)
	defer stopFollowing()

	ended := make(chan struct{})
	group.Go(func() error {
		defer close(ended)
		return bridge.run(tails)
	})
	group.Go(func() error {
		return subscriber.Follow(following, func(e demo.Event) error {
			s.seen.Add(e)
			return s.screen.Show(e, time.Now())
		})
	})
	group.Go(func() error {
		writing, stop := context.WithTimeout(all, s.length)
		defer stop()
		defer context.AfterFunc(ctx, stop)()
		if err := writers.Run(writing); err != nil {
			return err
		}
		draining, cancel := context.WithTimeout(all, drainWithin)
		defer cancel()
		s.seen.Drained(draining, &s.record)
		stopTails()
		<-ended
		stopFollowing()
		return s.screen.Flush()
	})
	return group.Wait()
}

// demoBridge is the pipeline of bridge run, without its pages.
type demoBridge struct {
	shards    []*pipeline.Shard
	scheduler *reconcile.Scheduler
	// url is that of the NATS server.
	url string
	// closers are closed last to first.
	closers []func() error
}

// openBridge opens source, checkpoint and sink as bridge run does.
func (s *demoStage) openBridge(cfg *Config) (_ *demoBridge, err error) {
	b := &demoBridge{}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.close())
		}
	}()
	src, err := openSource(cfg, s.logger)
	if err != nil {
		return nil, err
	}
	b.closers = append(b.closers, src.Close)
	store, err := openBolt(cfg.CheckpointPath)
	if err != nil {
		return nil, err
	}
	b.closers = append(b.closers, store.Close)
	metrics := pipeline.NewMetrics(prometheus.NewRegistry())
	bus, err := openEmbedded(cfg, s.logger, metrics.Retry)
	if err != nil {
		return nil, err
	}
	b.closers = append(b.closers, bus.Close)
	b.url = embeddedURL(bus)
	shared := parts{
		source: src, sink: bus, store: store, limits: pipeline.NewLimits(cfg.MaxInflightBytes, len(cfg.Streams), maxReads),
		faults: outage.New(s.logger), metrics: metrics, logger: s.logger,
	}
	if b.shards, err = newShards(cfg, shared); err != nil {
		return nil, err
	}
	reconcilers, err := newReconcilers(cfg, shared, b.shards)
	if err != nil {
		return nil, err
	}
	b.scheduler = reconcile.NewScheduler(s.logger, reconcilers...)
	return b, nil
}

// run tails all tables, and compares them with what was published, until ctx ends.
func (b *demoBridge) run(ctx context.Context) error {
	var tails errgroup.Group
	tails.Go(func() error { return b.scheduler.Run(ctx) })
	for _, shard := range b.shards {
		tails.Go(func() error { return shard.Run(ctx) })
	}
	return tails.Wait()
}

func (b *demoBridge) close() error {
	var errs []error
	for _, one := range slices.Backward(b.closers) {
		errs = append(errs, one())
	}
	return errors.Join(errs...)
}
