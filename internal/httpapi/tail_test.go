package httpapi_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"example.org/bridge/internal/httpapi"
	"example.org/bridge/internal/httpapi/httpapitest"
	"example.org/bridge/internal/tap"
	"example.org/bridge/sink"
)

var ackedAt = time.UnixMilli(1700000001123).UTC()

// publish offers an event of orders with this value to those who listen.
func publish(d *httpapitest.Daemon, value string) {
	d.Tap.Offer("orders", 1, func(int) tap.Event {
		return tap.Event{Acknowledged: ackedAt, Timed: true, Message: sink.Message{
			Stream: "orders", Shard: "t_0", RowID: 1<<64 - 1, Key: []byte("a+b"), ID: "id-1", Type: "OrderAddedEvent", Version: "1.0.0",
			Origin: sink.FromLate, Destination: "orders", Value: []byte(value),
		}}
	})
}

type listening struct {
	items chan httpapi.TailItem
	ended chan error
	stop  func()
}

// listenTo begins a tail and returns once it listens.
func listenTo(t *testing.T, client *httpapi.Client, stream string) *listening {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	l := &listening{items: make(chan httpapi.TailItem, 10000), ended: make(chan error, 1), stop: cancel}
	t.Cleanup(cancel)
	began := make(chan struct{})
	go func() {
		l.ended <- client.Tail(ctx, stream, func() { close(began) }, func(one httpapi.TailItem) error { l.items <- one; return nil })
	}()
	select {
	case <-began:
	case err := <-l.ended:
		t.Fatal(err)
	}
	return l
}

const value = `{"meta":{"time":1700000000123},"data":{"n":12345678901234567890.10,"html":"<b>"}}`

func wantEvent(t *testing.T, l *listening) {
	t.Helper()
	one := <-l.items
	e := one.Event
	if e == nil || e.Stream != "orders" || e.Shard != "t_0" || e.Row != 1<<64-1 || e.Key != "a+b" || e.Origin != "late" || e.ID != "id-1" || e.Type != "OrderAddedEvent" ||
		!e.AcknowledgedAt.Equal(ackedAt) || *e.DelaySeconds != 1 || string(e.Value) != value || !strings.Contains(string(one.Text), `"value":`+value) {
		t.Errorf("got %s", one.Text)
	}
}

func TestTail(t *testing.T) {
	d := &httpapitest.Daemon{}
	addr, _ := serve(t, d, httpapi.Access{}, io.Discard)
	client := &httpapi.Client{Addr: httpapitest.Serve(t, d), Setting: "HTTP"}
	t.Run("shows events as they were published", func(t *testing.T) {
		l := listenTo(t, client, "orders")
		publish(d, value)
		wantEvent(t, l)
		l.stop()
		if err := <-l.ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	t.Run("shows a value that is not JSON as a text, in one line", func(t *testing.T) {
		l := listenTo(t, client, "")
		publish(d, "a\nb")
		publish(d, "{\"meta\": {},\n\n\"data\": 1}")
		for _, want := range []string{`"a\nb"`, `{"meta":{},"data":1}`} {
			if one := <-l.items; one.Event == nil || string(one.Event.Value) != want {
				t.Errorf("got %s, want %s", one.Text, want)
			}
		}
	})
	t.Run("tells how many events are left out", func(t *testing.T) {
		l := listenTo(t, client, "orders")
		// No batch of this size fits.
		d.Tap.Offer("orders", 100_000, func(int) tap.Event { return tap.Event{Message: sink.Message{Value: []byte("{}")}} })
		left := 0
		for events := 0; left == 0; events++ {
			if left = (<-l.items).LeftOut; left > 0 && left+events != 100_000 {
				t.Errorf("%d events, %d left out", events, left)
			}
		}
	})
	t.Run("tells a slow listener how many it has missed, and does not wait for it", func(t *testing.T) {
		response, err := http.Get("http://" + addr + "/api/v1/tail?stream=orders")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = response.Body.Close() }()
		large := `{"meta":{},"data":"` + strings.Repeat("x", 1<<20) + `"}`
		// More than the buffers of connections take.
		for range 64 {
			publish(d, large)
		}
		text := make([]byte, 128<<20)
		for n := 0; !strings.Contains(string(text[max(0, n-200):n]), `data: {"leftOut":`); {
			more, err := response.Body.Read(text[n:])
			if n += more; err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestATailOverAStandby comes from the process that works.
func TestATailOverAStandby(t *testing.T) {
	works := &httpapitest.Daemon{Peer: httpapi.Peer{Self: true, Member: "a"}}
	at, _ := serve(t, works, httpapitest.Access, io.Discard)
	addr, _ := serve(t, &httpapitest.Daemon{Peer: httpapi.Peer{Member: "a", Name: "a on host", Addr: at}}, httpapitest.Access, io.Discard)
	l := listenTo(t, &httpapi.Client{Addr: addr}, "")
	for range 3 {
		publish(works, value)
		wantEvent(t, l)
	}
}

// TestTheEndOfTheServerEndsTails at once, of one that works and one that waits, with the reason.
func TestTheEndOfTheServerEndsTails(t *testing.T) {
	works := &httpapitest.Daemon{Peer: httpapi.Peer{Self: true, Member: "a"}}
	at, stop := serve(t, works, httpapitest.Access, io.Discard)
	waiting, stopWaiting := serve(t, &httpapitest.Daemon{Peer: httpapi.Peer{Member: "a", Addr: at}}, httpapitest.Access, io.Discard)
	one, other := listenTo(t, &httpapi.Client{Addr: at}, ""), listenTo(t, &httpapi.Client{Addr: waiting}, "")
	stopWaiting()
	if err := <-other.ended; !errors.Is(err, httpapi.ErrEnded) {
		t.Errorf("one that waits: %v", err)
	}
	stop()
	if err := <-one.ended; !errors.Is(err, httpapi.ErrEnded) || !strings.Contains(err.Error(), "this bridge stops") {
		t.Error(err)
	}
}

// deadlines is a writer that counts the deadlines it gets, as that of a connection has them.
type deadlines struct {
	*httptest.ResponseRecorder
	set atomic.Int32
}

func (d *deadlines) SetWriteDeadline(at time.Time) error {
	if time.Until(at) > 0 {
		d.set.Add(1)
	}
	return nil
}

// TestATailOutlivesTheTimeoutOfAnswers: each write has a deadline of its own.
func TestATailOutlivesTheTimeoutOfAnswers(t *testing.T) {
	d := &httpapitest.Daemon{}
	ctx, cancel := context.WithCancel(t.Context())
	w, ended := &deadlines{ResponseRecorder: httptest.NewRecorder()}, make(chan struct{})
	go func() {
		defer close(ended)
		httpapi.Handler(d, prometheus.NewRegistry(), httpapi.Access{}).ServeHTTP(w, httpapitest.NewRequest(t, "GET", "/api/v1/tail", nil).WithContext(ctx))
	}()
	for limit := time.Now().Add(2 * time.Minute); w.set.Load() < 5; publish(d, value) {
		if time.Now().After(limit) {
			t.Error("writes have no deadlines of their own")
			break
		}
	}
	cancel()
	<-ended
	if got, events := int(w.set.Load()), strings.Count(w.Body.String(), "data: "); got < events+1 {
		t.Errorf("%d deadlines for %d events", got, events)
	}
}
