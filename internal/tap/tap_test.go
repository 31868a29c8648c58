package tap

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"example.org/bridge/sink"
	"example.org/bridge/tests/must"
)

// offer offers events with the rows from up to before to.
func offer(t *Tap, stream string, from, to uint64, value string) {
	t.Offer(stream, int(to-from), func(i int) Event {
		return Event{Message: sink.Message{Stream: stream, RowID: from + uint64(i), Value: []byte(value)}}
	})
}

func rows(events []*Event) (rows []uint64) {
	for _, e := range events {
		rows = append(rows, e.Message.RowID)
	}
	return rows
}

func listen(t *testing.T, of *Tap, stream string) *Listener {
	t.Helper()
	l := must.Get(of.Listen(stream))(t)
	return l
}

func TestListening(t *testing.T) {
	t.Run("costs nothing while nobody does", func(t *testing.T) {
		var one Tap
		if one.Listened() || (*Tap)(nil).Listened() {
			t.Error("somebody listens")
		}
		one.Offer("a", 1, func(int) Event { t.Error("an event was asked for"); return Event{} })
		if n := testing.AllocsPerRun(100, func() { one.Listened() }); n > 0 {
			t.Errorf("%v allocations", n)
		}
	})
	t.Run("to a stream, or to all", func(t *testing.T) {
		var one Tap
		a, all := listen(t, &one, "a"), listen(t, &one, "")
		offer(&one, "a", 1, 3, "x")
		offer(&one, "b", 3, 4, "x")
		<-a.Ready()
		if got, left := a.Drain(); fmt.Sprint(rows(got)) != "[1 2]" || left != 0 {
			t.Errorf("%v, %d left out", rows(got), left)
		}
		if got, left := all.Drain(); fmt.Sprint(rows(got)) != "[1 2 3]" || left != 0 {
			t.Errorf("%v, %d left out", rows(got), left)
		}
	})
	t.Run("ends", func(t *testing.T) {
		var one Tap
		a, b := listen(t, &one, ""), listen(t, &one, "")
		a.Close()
		offer(&one, "a", 1, 2, "x")
		if got, _ := a.Drain(); len(got) > 0 || !one.Listened() {
			t.Errorf("%v, listened %t", got, one.Listened())
		}
		b.Close()
		b.Close()
		if one.Listened() {
			t.Error("somebody listens")
		}
	})
	t.Run("by a few at a time", func(t *testing.T) {
		var one Tap
		for range MaxListeners {
			listen(t, &one, "")
		}
		if _, err := one.Listen(""); !errors.Is(err, ErrTooMany) {
			t.Error(err)
		}
	})
}

// TestASlowListener is told how much it has missed, and keeps a bounded part of the rest.
func TestASlowListener(t *testing.T) {
	var one Tap
	l := listen(t, &one, "")
	offer(&one, "a", 0, maxEvents-10, "x")
	offer(&one, "a", maxEvents-10, maxEvents+20, "x")
	offer(&one, "a", maxEvents+20, maxEvents+120, "x")
	got, left := l.Drain()
	if len(got) != maxEvents || got[maxEvents-1].Message.RowID != maxEvents-1 || left != 120 {
		t.Errorf("%d events up to %d, %d left out", len(got), got[len(got)-1].Message.RowID, left)
	}
	offer(&one, "a", 5000, 5001, "x")
	if got, left := l.Drain(); len(got) != 1 || left != 0 {
		t.Errorf("then %v, %d left out", rows(got), left)
	}
	t.Run("by bytes", func(t *testing.T) {
		large := string(make([]byte, 2*maxBytes))
		offer(&one, "a", 1, 3, large)
		if got, left := l.Drain(); len(got) != 1 || left != 1 {
			t.Errorf("%d large ones, %d left out", len(got), left)
		}
	})
}

// TestListenersComeAndGo while events are published.
func TestListenersComeAndGo(t *testing.T) {
	var one Tap
	var all sync.WaitGroup
	quit := make(chan struct{})
	all.Go(func() {
		for i := uint64(0); ; i++ {
			select {
			case <-quit:
				return
			default:
				offer(&one, "a", i, i+1, "x")
			}
		}
	})
	for range 4 {
		l := listen(t, &one, "a")
		<-l.Ready()
		events, _ := l.Drain()
		for i := range events[1:] {
			if events[i+1].Message.RowID != events[i].Message.RowID+1 {
				t.Error("an event is missing in the middle")
			}
		}
		l.Close()
	}
	close(quit)
	all.Wait()
}

func TestBorn(t *testing.T) {
	at := time.UnixMilli(1700000000123).UTC()
	for name, c := range map[string]struct {
		event Event
		ok    bool
	}{
		"eiffel":         {Event{Timed: true, Message: sink.Message{Value: []byte(`{"meta":{"time":1700000000123},"data":{"meta":[1]}}`)}}, true},
		"cloudevents":    {Event{Timed: true, Message: sink.Message{Format: sink.FormatCloudEvents, Value: []byte(`{"time":"x","data":{"meta":{"time":1700000000123}}}`)}}, true},
		"row":            {Event{Timed: true, Message: sink.Message{Format: sink.FormatRow, Value: []byte(`{"meta":1}`), Bare: &sink.Bare{Time: 1700000000123}}}, true},
		"not timed":      {Event{Message: sink.Message{Value: []byte(`{"meta":{"time":1700000000123}}`)}}, false},
		"a row is gone":  {Event{Timed: true, Message: sink.Message{Value: []byte(`{"meta":{"time":1700000000123}}`), State: sink.State{Kind: sink.StateAbsent}}}, false},
		"is not a value": {Event{Timed: true, Message: sink.Message{Value: []byte(`x`)}}, false},
	} {
		if got, ok := c.event.Born(); ok != c.ok || ok && got != at {
			t.Errorf("%s: %s, %t", name, got, ok)
		}
	}
	e := Event{Acknowledged: at.Add(time.Second)}
	if e.Delay(at) != time.Second || e.Delay(at.Add(time.Minute)) != 0 {
		t.Error("the delay")
	}
}
