package demo

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	// drainWithin is how long the last changes may take to the bus, a reconcile included; then they
	// count as lost.
	drainWithin = time.Minute
	// judgeWithin bounds the reading of the stream at the end.
	judgeWithin = time.Minute
)

// Bridge reads the tables of the shop and publishes to a NATS server inside this process.
// [bridge/internal/app.App] is one.
type Bridge interface {
	// Run publishes until ctx ends.
	Run(ctx context.Context) error
	// NATSURL is the address of the server.
	NATSURL() string
}

// Stage is one demo.
type Stage struct {
	// DB is the database of the shop, see [OpenDatabase].
	DB *sql.DB
	// Bridge is open, and publishes to the stream with the name Stream.
	Bridge Bridge
	Stream string
	// Length is how long the shop writes.
	Length time.Duration
	// Out takes the events and the summary, Colour adds colours.
	Out    io.Writer
	Colour bool
	// Kept is the folder that stays after the demo, for the summary; empty where none does.
	Kept string

	record   Record
	received Received
	screen   *Screen
}

// Run runs the bridge, lets the shop write for a while, prints the events as they arrive, and then
// compares the stream with what was written. ctx ends the writing, not the comparison. The error
// says what failed, or what the comparison found.
func (s *Stage) Run(ctx context.Context) error {
	subscriber, err := Subscribe(s.Bridge.NATSURL(), s.Stream)
	if err != nil {
		return err
	}
	defer subscriber.Close()
	if err := s.introduce(s.Bridge.NATSURL()); err != nil {
		return err
	}
	begun := time.Now()
	if err := s.play(ctx, NewWriters(s.DB, &s.record), subscriber); err != nil {
		return err
	}
	ran := time.Since(begun)
	judging, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), judgeWithin, errors.New("the stream cannot be read to its end"))
	defer cancel()
	events, err := subscriber.All(judging)
	if err != nil {
		return err
	}
	return s.verdict(Compare(events, &s.record), ran)
}

// introduce says what happens and how to see it from outside.
func (s *Stage) introduce(at string) error {
	_, err := fmt.Fprintf(s.Out, `A shop writes to an SQLite database, and bridge publishes its rows as events
to NATS, all in this process, for %s. Ctrl-C ends it. A word beside an event
says what noticed it, unless it was the tail: "late", its id is below published
ones; "edit", the second cursor; "scan", a reconcile. To watch from outside:

  nats sub 'eiffel.>' -s %s

`, s.Length, at)
	return err
}

// play runs the engine, the shop and the screen until the length is over, ctx ends or something
// fails, and then until all rows are on the bus.
func (s *Stage) play(ctx context.Context, writers *Writers, subscriber *Subscriber) error {
	s.screen = &Screen{W: s.Out, Colour: s.Colour, Record: &s.record}
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
		return s.Bridge.Run(tails)
	})
	group.Go(func() error {
		return subscriber.Follow(following, func(e Event) error {
			s.received.Add(e)
			return s.screen.Show(e, time.Now())
		})
	})
	group.Go(func() error {
		writing, stop := context.WithTimeout(all, s.Length)
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
