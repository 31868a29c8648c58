package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"example.org/bridge/internal/verify"
	"example.org/bridge/sink"
	"example.org/bridge/tests/must"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func message(t *testing.T, kind, origin, table string, id int64, data map[string]any) *nats.Msg {
	t.Helper()
	data["row"] = map[string]any{"source": "app", "table": table, "id": id}
	body := must.Get(json.Marshal(map[string]any{"meta": map[string]any{"type": kind}, "data": data}))(t)
	return &nats.Msg{Subject: "eiffel." + table, Data: body, Header: nats.Header{sink.HeaderOrigin: {origin}}}
}

func gone(t *testing.T, origin string) *nats.Msg {
	return message(t, "StockDeletedEvent", origin, Stock, 1,
		map[string]any{"warehouse": "north", "sku": "a-lamp-with-a-name-that-is-far-too-long", "reason": "ABSENT_IN_SNAPSHOT"})
}

func order(t *testing.T, origin string, id int64) *nats.Msg {
	return message(t, "OrderPublishedEvent", origin, Orders, id, map[string]any{"id": id, "customer": "ada", "totalCents": 1250})
}

type receipt struct {
	m  *nats.Msg
	at time.Time
}

func shown(t *testing.T, s *screen, all ...receipt) []string {
	t.Helper()
	var b strings.Builder
	s.w = &b
	if s.when == nil {
		s.when = func(row) (time.Time, bool) { return noon, true }
	}
	for _, a := range all {
		e, err := parse(a.m)
		if err == nil {
			err = s.show(e, a.at)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
}

func TestScreen(t *testing.T) {
	t.Run("fits a terminal of 80 columns", func(t *testing.T) {
		lines := shown(t, new(screen), receipt{gone(t, "late"), noon.Add(9 * time.Second)}, receipt{order(t, "tail", 1), noon.Add(time.Hour)},
			receipt{message(t, "ProductDeletedEvent", "tail", Products, 3, map[string]any{"sku": "lamp-01", "reason": "TOMBSTONE"}), noon})
		for _, line := range lines {
			if n := utf8.RuneCountInString(line); n > 79 || strings.Contains(line, "\x1b") {
				t.Errorf("%d columns: %q", n, line)
			}
		}
		text := strings.Join(lines, "\n")
		for _, part := range []string{"StockDeletedEvent", "north+a-lamp", " late ", "9000ms", "1  ada 12.50", "3600s", "lamp-01  deleted"} {
			if !strings.Contains(text, part) {
				t.Errorf("no %q in %q", part, text)
			}
		}
	})
	t.Run("says what noticed an event, unless it was the tail", func(t *testing.T) {
		for origin, want := range map[string]string{"tail": "     ", "late": " late ", "modified": " edit ", "reconcile": " scan "} {
			if line := shown(t, new(screen), receipt{gone(t, origin), noon})[1]; !strings.Contains(line, want) {
				t.Errorf("no %q in %q", want, line)
			}
		}
	})
	t.Run("sums up", func(t *testing.T) {
		s := new(screen)
		shown(t, s, receipt{order(t, "tail", 1), noon.Add(10 * time.Millisecond)}, receipt{order(t, "late", 2), noon.Add(30 * time.Millisecond)}, receipt{gone(t, "reconcile"), noon.Add(time.Hour)})
		const want = "received   3 events: tail 1, late 1, second cursor 0, reconcile 1\nlatency    p50 10ms, p99 10ms from COMMIT to the screen, reconcile apart\n"
		if got := s.sum(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

func TestTheFirstLateOrderIsExplained(t *testing.T) {
	at := func(origin string, id int64, after time.Duration) receipt {
		return receipt{order(t, origin, id), noon.Add(after)}
	}
	s := &screen{when: func(r row) (time.Time, bool) { return noon.Add(4 * time.Second), r.id == 8 }}
	lines := shown(t, s, at("tail", 7, 0), at("tail", 11, 2*time.Second), at("tail", 9, time.Second),
		// None of these is a late order below another one.
		at("tail", 8, 4*time.Second), at("late", 12, 4*time.Second), receipt{gone(t, "late"), noon.Add(4 * time.Second)})
	if text := strings.Join(lines, "\n"); strings.Contains(text, "never sees it") {
		t.Errorf("explained too early:\n%s", text)
	}
	lines = shown(t, s, at("late", 8, 4*time.Second), at("late", 8, 4*time.Second))
	const want = "         └ id 8 was committed 3.0 s after id 9 was published:\n           a reader of `id > 9` never sees it"
	if text := strings.Join(lines, "\n"); strings.Count(text, want) != 1 || strings.Count(text, "└") != 1 {
		t.Errorf("explained otherwise than %q once:\n%s", want, text)
	}
}

type quiet struct{ url string }

func (q quiet) Run(ctx context.Context) error { <-ctx.Done(); return nil }
func (q quiet) NATSURL() string               { return q.url }

// TestTheLastWordIsVerifys: what it says is looked at again until it is good or the time is over,
// is printed, and is the result.
func TestTheLastWordIsVerifys(t *testing.T) {
	s := must.Get(server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoLog: true, NoSigs: true}))(t)
	s.Start()
	t.Cleanup(s.Shutdown)
	if !s.ReadyForConnections(time.Minute) {
		t.Fatal("no server")
	}
	bad := func() *verify.Report {
		return &verify.Report{Streams: []verify.Stream{{Stream: Stock, Faults: []verify.Finding{{Fault: "missing", Count: 7}}}}}
	}
	for name, c := range map[string]struct {
		reports []*verify.Report
		within  time.Duration
		says    string
	}{
		"good after a while": {[]*verify.Report{bad(), bad(), {Good: true}}, time.Minute, "nothing is wrong, as far as it can be judged"},
		"bad to the end":     {[]*verify.Report{bad()}, time.Nanosecond, "WRONG: missing 7"},
	} {
		t.Run(name, func(t *testing.T) {
			db := must.Get(OpenDatabase(t.Context(), t.TempDir()+"/app.db"))(t)
			defer db.Close()
			var out strings.Builder
			left := c.reports
			stage := Stage{DB: db, Bridge: quiet{s.ClientURL()}, Length: 50 * time.Millisecond, Out: &out, Kept: "/kept", GoodWithin: c.within,
				Verify: func(context.Context) (*verify.Report, error) {
					if len(left) == 0 {
						return nil, errors.New("asked too often")
					}
					next := left[0]
					left = left[1:]
					return next, nil
				}}
			report, err := stage.Run(t.Context())
			if err != nil || len(left) > 0 || report != c.reports[len(c.reports)-1] {
				t.Fatalf("%v, %v, %d reports are left", report, err, len(left))
			}
			for _, part := range []string{c.says, "kept       /kept", fmt.Sprintf("-s %s\n", s.ClientURL())} {
				if !strings.Contains(out.String(), part) {
					t.Errorf("no %q in\n%s", part, out.String())
				}
			}
		})
	}
}
