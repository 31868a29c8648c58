package demo

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func event(id int64) Event {
	return Event{
		Type: "StpCapabilityDeletedEvent", Origin: "late", Table: Capabilities, Row: id,
		Members: []Member{{"id", "1"}, {"stpName", "stp-01"}, {"capabilityKey", "os.version-that-is-long"}, {"capabilityValue", "rocky-9.4"}},
	}
}

func TestScreen(t *testing.T) {
	t.Run("fits a terminal of 80 columns", func(t *testing.T) {
		var b strings.Builder
		r := new(Record)
		if err := r.commit(change{table: Capabilities, states: []state{{"stp-01+os.version-that-is-long", 1, "rocky-9.4"}}}, func() error { return nil }); err != nil {
			t.Fatal(err)
		}
		s := &Screen{W: &b, Record: r}
		if err := s.Show(event(1), time.Now().Add(9*time.Second)); err != nil {
			t.Fatal(err)
		}
		line := strings.TrimSuffix(b.String(), "\n")
		if n := utf8.RuneCountInString(line); n > 79 || strings.Contains(line, "\x1b") {
			t.Errorf("%d columns: %q", n, line)
		}
		for _, part := range []string{"StpCapabilityDeletedEvent", "stp-01+os.version", "late", "000ms"} {
			if !strings.Contains(line, part) {
				t.Errorf("no %q in %q", part, line)
			}
		}
	})
	t.Run("says what noticed an event, unless it was the tail", func(t *testing.T) {
		for origin, want := range map[string]string{"tail": "     ", "late": " late ", "modified": " edit ", "reconcile": " scan "} {
			e := event(1)
			e.Origin = origin
			line := (&Screen{Record: new(Record)}).line(e, noon)
			if !strings.Contains(line, want) || utf8.RuneCountInString(line) > 79 {
				t.Errorf("no %q in %q", want, line)
			}
		}
	})
	t.Run("paints where it may", func(t *testing.T) {
		var b strings.Builder
		s := &Screen{W: &b, Colour: true, Record: new(Record)}
		if err := s.Show(event(1), noon); err != nil || !strings.Contains(b.String(), red+"StpCapabilityDeletedEvent") {
			t.Errorf("%q, %v", b.String(), err)
		}
	})
	t.Run("leaves out what nobody can read, and says how much", func(t *testing.T) {
		var b strings.Builder
		s := &Screen{W: &b, Record: new(Record)}
		for i := range 50 {
			if err := s.Show(event(int64(i)), noon); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 {
			if err := s.Show(event(99), noon.Add(time.Second)); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Flush(); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSpace(b.String()), "\n")
		if want := linesPerSecond + 1 + 2; len(lines) != want || !strings.Contains(lines[linesPerSecond], fmt.Sprintf("and %d more", 50-linesPerSecond)) {
			t.Errorf("%d lines, want %d:\n%s", len(lines), want, b.String())
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
	revisions, releases := newRevisions(w), &releases{w}
	for i := range 200 {
		for _, write := range []error{
			revisions.write(t.Context()), releases.write(t.Context()), newContainer(w, i%containers).write(t.Context()),
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
		if v.ended.IsZero() && v.state != gone {
			kept++
		}
		for ; v != nil; v = v.before {
			seen[v.state] = true
		}
	}
	if states, quiet := r.Counts(); kept != there || quiet == 0 || states <= kept || !seen[gone] || !seen[marked] {
		t.Errorf("%d states recorded, %d of them kept, %d without news; the tables hold %d", states, kept, quiet, there)
	}
}
