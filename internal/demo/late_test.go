package demo

import (
	"testing"
	"time"
)

func TestTheFirstLateRowIsExplained(t *testing.T) {
	published := func(id int64, at time.Duration) Event {
		return Event{Table: Orders, Row: id, Origin: "tail", Stored: noon.Add(at)}
	}
	late := Event{Table: Orders, Row: 8, Origin: "late"}
	const want = "         └ id 8 was committed 3.0 s after id 9 was published:\n           a reader of `id > 9` never sees it"

	var l lateRows
	for _, e := range []Event{published(7, 0), published(11, 2*time.Second), published(9, time.Second)} {
		l.add(e)
	}
	for _, e := range []Event{
		{Table: Orders, Row: 8, Origin: "tail"},
		{Table: Stock, Row: 8, Origin: "late"},
		{Table: Orders, Row: 12, Origin: "late"},
	} {
		if got := l.explain(e, noon.Add(4*time.Second)); got != "" {
			t.Errorf("%+v is explained: %q", e, got)
		}
	}
	if got := l.explain(late, noon.Add(4*time.Second)); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := l.explain(late, noon.Add(4*time.Second)); got != "" {
		t.Errorf("explained twice: %q", got)
	}
}
