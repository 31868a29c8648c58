package demo

import (
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func deleted() Event {
	return Event{
		Type: "StockDeletedEvent", Origin: "late", Table: Stock, Row: 1,
		Members: []Member{{"id", "1"}, {"warehouse", "north"}, {"sku", "a-lamp-with-a-name-that-is-far-too-long"}, {"reason", "ABSENT_IN_SNAPSHOT"}},
	}
}

func ordered(id int64) Event {
	return Event{
		Type: "OrderPublishedEvent", Origin: "tail", Table: Orders, Row: id, Stored: noon,
		Members: []Member{{"id", strconv.FormatInt(id, 10)}, {"customer", "ada"}, {"totalCents", "1250"}},
	}
}

// recorded returns a record of one transaction with orders.
func recorded(t *testing.T, ids ...int64) *Record {
	t.Helper()
	r, c := new(Record), change{table: Orders}
	for _, id := range ids {
		c.states = append(c.states, order(id, "ada", 1250))
	}
	if err := r.commit(c, func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	return r
}

// shown returns the lines that a screen prints for events, all received at noon.
func shown(t *testing.T, s *Screen, events ...Event) []string {
	t.Helper()
	var b strings.Builder
	s.W = &b
	for _, e := range events {
		if err := s.Show(e, noon); err != nil {
			t.Fatal(err)
		}
	}
	return strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
}

func TestScreen(t *testing.T) {
	t.Run("fits a terminal of 80 columns", func(t *testing.T) {
		s := &Screen{Record: recorded(t, 1)}
		var b strings.Builder
		s.W = &b
		for _, e := range []Event{deleted(), ordered(1)} {
			if err := s.Show(e, time.Now().Add(9*time.Second)); err != nil {
				t.Fatal(err)
			}
		}
		for line := range strings.Lines(b.String()) {
			if n := utf8.RuneCountInString(line) - 1; n > 79 || strings.Contains(line, "\x1b") {
				t.Errorf("%d columns: %q", n, line)
			}
		}
		for _, part := range []string{"StockDeletedEvent", "north+a-lamp", "late", "1  ada 12.50", "000ms"} {
			if !strings.Contains(b.String(), part) {
				t.Errorf("no %q in %q", part, b.String())
			}
		}
	})
	t.Run("says what noticed an event, unless it was the tail", func(t *testing.T) {
		for origin, want := range map[string]string{"tail": "     ", "late": " late ", "modified": " edit ", "reconcile": " scan "} {
			e := deleted()
			e.Origin = origin
			if line := shown(t, &Screen{Record: new(Record)}, e)[1]; !strings.Contains(line, want) {
				t.Errorf("no %q in %q", want, line)
			}
		}
	})
	t.Run("paints on a terminal", func(t *testing.T) {
		if lines := shown(t, &Screen{Colour: true, Record: new(Record)}, deleted()); !strings.Contains(lines[1], red+"StockDeletedEvent") {
			t.Errorf("%q", lines)
		}
	})
	t.Run("repeats the header before it scrolls away", func(t *testing.T) {
		var events []Event
		for id := range int64(headerEvery + 1) {
			events = append(events, ordered(id))
		}
		lines := shown(t, &Screen{Record: new(Record)}, events...)
		for i, line := range lines {
			if got, want := strings.HasPrefix(line, "time"), i%(headerEvery+1) == 0; got != want {
				t.Errorf("line %d: %q", i, line)
			}
		}
		if want := headerEvery + 3; len(lines) != want {
			t.Errorf("%d lines, want %d", len(lines), want)
		}
	})
	t.Run("prints one line for a large transaction, when all of it has arrived", func(t *testing.T) {
		s := &Screen{Record: recorded(t, 1, 2, 3, 4, 5)}
		lines := shown(t, s, ordered(1), ordered(2), ordered(9), ordered(3), ordered(4), ordered(5))
		if len(lines) != 3 || !strings.Contains(lines[1], " 9  ada") || !strings.Contains(lines[2], "5 orders in one transaction") {
			t.Errorf("%s", strings.Join(lines, "\n"))
		}
	})
}

func TestWritersWriteWhatTheyRecord(t *testing.T) {
	db, err := OpenDatabase(t.Context(), t.TempDir()+"/app.db")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	r := new(Record)
	w := NewWriters(db, r)
	products, stock, orders := &products{Writers: w}, &stock{w}, &orders{w}
	for range 200 {
		for _, write := range []error{
			products.write(t.Context()), stock.write(t.Context()), orders.write(t.Context()),
		} {
			if write != nil {
				t.Fatal(write)
			}
		}
	}
	there := 0
	for _, table := range Tables {
		var n int
		if err := db.QueryRow("SELECT COUNT(*) FROM " + table).Scan(&n); err != nil || n == 0 {
			t.Fatalf("%s has %d rows, %v", table, n, err)
		}
		there += n
	}
	kept, seen := 0, map[string]bool{}
	for _, v := range r.last {
		if v.ended.IsZero() && v.state != goneState {
			kept++
		}
		for ; v != nil; v = v.before {
			seen[v.state] = true
		}
	}
	if states, silent := r.Counts(); kept != there || silent == 0 || states <= kept || !seen[goneState] || !seen[deletedState] {
		t.Errorf("%d states recorded, %d of them kept, %d without news; the tables hold %d", states, kept, silent, there)
	}
}
