package demo

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"example.org/bridge/internal/terminal"
	"example.org/bridge/internal/verify"
)

// Bridge reads the tables of the shop and publishes to a NATS server inside this process.
// [example.org/bridge/internal/app.App] is one.
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
	// Bridge is open. Verify compares its tables and its bus while it runs.
	Bridge Bridge
	Verify func(ctx context.Context) (*verify.Report, error)
	// Length is how long the shop writes.
	Length time.Duration
	// Out takes the events and the summary, Colour adds colours.
	Out    io.Writer
	Colour bool
	// Kept is the folder that stays after the demo, for the summary; empty where none does.
	Kept string
	// GoodWithin is how long the last changes may take to the bus, a reconcile included: what
	// Verify finds then is wrong. Defaults to a minute.
	GoodWithin time.Duration
}

// Run runs the bridge, lets the shop write for a while, prints the events as they arrive, and then
// what verify says, which it returns. ctx ends the writing, not the comparison.
func (s *Stage) Run(ctx context.Context) (*verify.Report, error) {
	at := s.Bridge.NATSURL()
	nc, err := nats.Connect(at, nats.Name("bridge demo"))
	if err != nil {
		return nil, fmt.Errorf("subscribe at %s: %w", at, err)
	}
	defer nc.Close()
	subscription, err := nc.SubscribeSync("eiffel.>")
	if err == nil {
		// The server has it before bridge publishes.
		err = nc.Flush()
	}
	if err != nil {
		return nil, fmt.Errorf("subscribe at %s: %w", at, err)
	}
	if _, err := fmt.Fprintf(s.Out, `A shop writes to an SQLite database, and bridge publishes its rows as events
to NATS, all in this process, for %s. Ctrl-C ends it. A word beside an event
says what noticed it, unless it was the tail: "late", its id is below published
ones; "edit", the second cursor; "scan", a reconcile. To watch from outside:

  nats sub 'eiffel.>' -s %s

`, s.Length, at); err != nil {
		return nil, err
	}
	shop, begun := &shop{db: s.DB}, time.Now()
	screen := &screen{w: s.Out, colour: s.Colour, when: shop.when}
	report, wrote, err := s.play(ctx, shop, screen, subscription)
	if err != nil {
		return nil, err
	}
	var text strings.Builder
	fmt.Fprintf(&text, "\nwritten    %s in %s\n%s", terminal.Count(shop.writes, "change"), wrote.Sub(begun).Round(100*time.Millisecond), screen.sum())
	if s.Kept != "" {
		fmt.Fprintf(&text, "kept       %s\n", s.Kept)
	}
	text.WriteString("\nbridge verify reads the bus from its beginning, and says:\n\n")
	for line := range strings.Lines(report.Text()) {
		words := strings.TrimLeft(line, " ")
		indent := len(line) - len(words)
		fmt.Fprintln(&text, strings.Repeat(" ", indent)+terminal.Wrap(words, indent))
	}
	_, err = io.WriteString(s.Out, text.String())
	return report, err
}

// play runs the bridge, the shop and the screen until the length is over, ctx ends or something
// fails, and then until verify finds nothing wrong. It returns its last report, and when the shop
// ended.
func (s *Stage) play(ctx context.Context, shop *shop, screen *screen, subscription *nats.Subscription) (report *verify.Report, wrote time.Time, err error) {
	group, all := errgroup.WithContext(context.WithoutCancel(ctx))
	publishing, stopPublishing := context.WithCancel(all)
	defer stopPublishing()
	showing, stopShowing := context.WithCancel(all)
	defer stopShowing()
	group.Go(func() error {
		defer stopShowing()
		return s.Bridge.Run(publishing)
	})
	group.Go(func() error {
		for {
			m, err := subscription.NextMsgWithContext(showing)
			if showing.Err() != nil {
				return nil
			}
			var e event
			if err == nil {
				e, err = parse(m)
			}
			if err == nil {
				err = screen.show(e, time.Now())
			}
			if err != nil {
				return err
			}
		}
	})
	group.Go(func() (err error) {
		defer stopPublishing()
		writing, stop := context.WithTimeout(all, s.Length)
		defer stop()
		defer context.AfterFunc(ctx, stop)()
		if err := shop.run(writing); err != nil {
			return err
		}
		wrote = time.Now()
		for {
			if report, err = s.Verify(all); err != nil || report.Good || time.Since(wrote) > cmp.Or(s.GoodWithin, time.Minute) {
				return err
			}
		}
	})
	err = group.Wait()
	return report, wrote, err
}
