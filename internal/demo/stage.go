package demo

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"example.org/bridge/internal/terminal"
	"example.org/bridge/internal/verify"
	"example.org/bridge/sink"
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

// play ends the shop when the length is over or ctx ends, and the bridge when verify finds nothing
// wrong. It returns verify's last report, and when the shop ended.
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

type event struct {
	// kind is meta.type; origin is how bridge noticed the row.
	kind, origin string
	row          row
	key, state   string
}

// parse reads a message, by the documented format alone.
func parse(m *nats.Msg) (event, error) {
	var body struct {
		Meta struct{ Type string }
		Data struct {
			Row struct {
				Table string
				ID    int64
			}
			SKU, Warehouse, Customer, Reason string
			PriceCents, TotalCents, Quantity int64
		}
	}
	if err := json.Unmarshal(m.Data, &body); err != nil {
		return event{}, fmt.Errorf("read an event on %s: %w", m.Subject, err)
	}
	d := &body.Data
	e := event{kind: body.Meta.Type, origin: m.Header.Get(sink.HeaderOrigin), row: row{d.Row.Table, d.Row.ID}}
	switch d.Row.Table {
	case Products:
		e.key, e.state = d.SKU, money(d.PriceCents)
	case Stock:
		e.key, e.state = d.Warehouse+"+"+d.SKU, fmt.Sprintf("%d left", d.Quantity)
	default:
		e.key, e.state = fmt.Sprint(d.Row.ID), d.Customer+" "+money(d.TotalCents)
	}
	switch d.Reason {
	case "TOMBSTONE":
		e.state = "deleted"
	case "ABSENT_IN_SNAPSHOT":
		e.state = "gone"
	}
	return e, nil
}

func money(cents int64) string { return fmt.Sprintf("%d.%02d", cents/100, cents%100) }

// screen prints events, one a line of at most 79 columns. It is used by one goroutine.
type screen struct {
	w      io.Writer
	colour bool
	when   func(row) (time.Time, bool)

	// origins counts events by what noticed them. latencies leave out those of a reconcile.
	origins   map[string]int
	latencies []time.Duration
	// shown is when each order was shown, until the first late one is explained.
	shown     map[int64]time.Time
	explained bool
}

const (
	kindWidth   = 21
	stateWidth  = 35
	originWidth = 4
)

// originWords are short words for what noticed an event, by origin.
var originWords = map[string]string{"late": "late", "modified": "edit", "reconcile": "scan"}

const (
	plain   = "\x1b[0m"
	dim     = "\x1b[2m"
	red     = "\x1b[31m"
	green   = "\x1b[32m"
	yellow  = "\x1b[33m"
	magenta = "\x1b[35m"
	cyan    = "\x1b[36m"
)

// show prints one event, received now. The error is that of the writer.
func (s *screen) show(e event, now time.Time) error {
	text := ""
	if s.origins == nil {
		s.origins, s.shown = make(map[string]int), make(map[int64]time.Time)
		header := strings.Join([]string{fit("time", len(time.TimeOnly)), fit("event", kindWidth), fit("entity and state", stateWidth+originWidth+1), "latency"}, " ")
		text = s.paint(dim, header) + "\n"
	}
	s.origins[e.origin]++
	latency, committed := "", now
	if at, ok := s.when(e.row); ok {
		committed = at
		took := max(0, now.Sub(at))
		latency = millis(took)
		if e.origin != "reconcile" {
			s.latencies = append(s.latencies, took)
		}
	}
	text += strings.Join([]string{
		s.paint(dim, now.Format(time.TimeOnly)), s.paint(colourOf(e.kind), fit(e.kind, kindWidth)), fit(e.key+"  "+e.state, stateWidth),
		s.paint(magenta, fit(originWords[e.origin], originWidth)), fmt.Sprintf("%7s", latency),
	}, " ")
	if e.row.table == Orders && !s.explained {
		if why := s.explain(e, committed); why != "" {
			text += "\n" + s.paint(magenta, why)
		}
		s.shown[e.row.id] = now
	}
	_, err := fmt.Fprintln(s.w, text)
	return err
}

// explain returns a line about the first late order: the lowest id above it was published so long
// before its commit that the wait shows in seconds.
func (s *screen) explain(e event, committed time.Time) string {
	next := int64(0)
	for id := range s.shown {
		if id > e.row.id && (next == 0 || id < next) {
			next = id
		}
	}
	waited := committed.Sub(s.shown[next])
	if e.origin != "late" || next == 0 || waited < 100*time.Millisecond {
		return ""
	}
	s.explained = true
	return fmt.Sprintf("         └ id %d was committed %.1f s after id %d was published:\n"+
		"           a reader of `id > %d` never sees it", e.row.id, waited.Seconds(), next, next)
}

func (s *screen) sum() string {
	events := 0
	for _, n := range s.origins {
		events += n
	}
	p50, p99 := time.Duration(0), time.Duration(0)
	if n := len(s.latencies); n > 0 {
		slices.Sort(s.latencies)
		p50, p99 = s.latencies[(n-1)/2], s.latencies[(n-1)*99/100]
	}
	return fmt.Sprintf("received   %d events: tail %d, late %d, second cursor %d, reconcile %d\nlatency    p50 %s, p99 %s from COMMIT to the screen, reconcile apart\n",
		events, s.origins["tail"], s.origins["late"], s.origins["modified"], s.origins["reconcile"], millis(p50), millis(p99))
}

func (s *screen) paint(colour, text string) string {
	if !s.colour || colour == "" || strings.TrimSpace(text) == "" {
		return text
	}
	return colour + text + plain
}

func colourOf(kind string) string {
	for part, colour := range map[string]string{"Added": green, "Modified": yellow, "Deleted": red, "Published": cyan} {
		if strings.Contains(kind, part) {
			return colour
		}
	}
	return ""
}

// fit returns text in exactly width columns. The demo has no wide characters.
func fit(text string, width int) string { return fmt.Sprintf("%-*s", width, terminal.Cut(text, width)) }

// millis returns a duration in seven columns at most.
func millis(d time.Duration) string {
	if d < 10*time.Second {
		return fmt.Sprintf("%dms", d.Milliseconds())
	}
	return fmt.Sprintf("%.0fs", d.Seconds())
}
