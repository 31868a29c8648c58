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

	"golang.org/x/sync/errgroup"

	"bridge/internal/app"
	"bridge/internal/config"
	"bridge/internal/demo"
)

// demoAddress is where the demo's NATS server listens: a free port of the loopback.
const demoAddress = "127.0.0.1:0"

// reconcileEvery is the demo's interval, short enough for its finds to show.
const reconcileEvery = 3 * time.Second

// environ is the configuration of the demo, as bridge run would read it.
func (s *demoStage) environ() []string {
	path := func(scheme, name string) string {
		return (&url.URL{Scheme: scheme, Path: filepath.Join(s.dir, name)}).String()
	}
	stream := func(table string, settings ...string) []string {
		for i := range settings {
			settings[i] = config.StreamPrefix(table) + settings[i]
		}
		return append(settings, config.StreamPrefix(table)+"TABLE="+table, config.StreamPrefix(table)+"CREATED=created")
	}
	return slices.Concat(
		[]string{
			"BRIDGE_SOURCE_URL=" + path("sqlite", "app.db"),
			"BRIDGE_SINK_URL=" + path("embedded", "nats") + "?listen=" + url.QueryEscape(demoAddress),
			"BRIDGE_CHECKPOINT_URL=" + path("file", "bridge.db"),
			"BRIDGE_STREAMS=" + strings.Join(demo.Tables, ","),
			"BRIDGE_DOMAIN_ID=demo",
			"BRIDGE_POLL_INTERVAL=100ms",
			// A young row need not wait: the ledger finds what is committed late.
			"BRIDGE_STABILITY_WINDOW=0s",
			"BRIDGE_RECONCILE_INTERVAL=" + reconcileEvery.String(),
		},
		stream(demo.Products, "KIND=capability", "KEY=sku", "MODIFIED=modified", "DELETED=deleted", "FAMILY=shop", "EVENT=Product"),
		stream(demo.Stock, "KIND=capability", "KEY=warehouse,sku", "FAMILY=shop"),
		// The shop draws the ids of orders itself, so that one can be committed late.
		stream(demo.Orders, "KIND=release", "ID_ORDER=segmented", "FAMILY=shop", "EVENT=Order"),
	)
}

// run opens everything, lets the shop write for a while, and judges. ctx ends the writing, not the
// judging.
func (s *demoStage) run(ctx context.Context) (err error) {
	environ := s.environ()
	cfg, err := config.Load(environ, &config.Redactor{})
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
	bridge, err := app.Open(ctx, app.Options{Config: cfg, Logger: s.logger, Build: appBuild()})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, bridge.Close()) }()
	subscriber, err := demo.Subscribe(bridge.NATSURL(), cfg.Sink.Embedded.Stream)
	if err != nil {
		return err
	}
	defer subscriber.Close()
	if err := s.introduce(bridge.NATSURL()); err != nil {
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
	return s.verdict(demo.Compare(events, &s.record), ran)
}

// introduce says what happens and how to see it from outside.
func (s *demoStage) introduce(at string) error {
	_, err := fmt.Fprintf(s.out, `A shop writes to an SQLite database, and bridge publishes its rows as events
to NATS, all in this process, for %s. Ctrl-C ends it. A word beside an event
says what noticed it, unless it was the tail: "late", its id is below published
ones; "edit", the second cursor; "scan", a reconcile. To watch from outside:

  nats sub 'eiffel.>' -s %s

`, s.length, at)
	return err
}

// play runs the engine, the shop and the screen until the length is over, ctx ends or something
// fails, and then until all rows are on the bus.
func (s *demoStage) play(ctx context.Context, writers *demo.Writers, bridge *app.App, subscriber *demo.Subscriber) error {
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
		return bridge.Run(tails)
	})
	group.Go(func() error {
		return subscriber.Follow(following, func(e demo.Event) error {
			s.received.Add(e)
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
		s.received.WaitDrained(draining, &s.record)
		stopTails()
		<-ended
		stopFollowing()
		return nil
	})
	return group.Wait()
}
