package httpapi

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"example.org/bridge/internal/null"
	"example.org/bridge/internal/tap"
)

// signEvery is the longest time between two lines of a tail: a comment shows that the daemon is
// there, and that the listener is.
const signEvery = 5 * time.Second

// Kinds of events of a tail besides the published ones, which have none.
const (
	// tailLeft counts events that were left out.
	tailLeft = "left"
	// tailEnd is the last one: the daemon stops.
	tailEnd = "end"
)

// TailEvent is an event that the bus has acknowledged.
type TailEvent struct {
	Stream string `json:"stream"`
	Shard  string `json:"shard"`
	// Row is the id of the row, Key that of the entity.
	Row uint64 `json:"row"`
	Key string `json:"key"`
	// ID, Type and Version are those of the event's meta.
	ID      string `json:"id"`
	Type    string `json:"type"`
	Version string `json:"version"`
	// Origin says why the row was read: tail, late, modified, reconcile or snapshot.
	Origin string `json:"origin"`
	// Destination is the topic or subject.
	Destination string `json:"destination"`
	// Time is the time of the row, null where it has none. DelaySeconds is the time from then to
	// AcknowledgedAt, by the clocks of the database and of this host.
	Time           null.Time `json:"time"`
	AcknowledgedAt time.Time `json:"acknowledgedAt"`
	DelaySeconds   *float64  `json:"delaySeconds"`
	// DeadLetter says that the bus has refused the event and holds a dead letter instead.
	DeadLetter bool `json:"deadLetter"`
	// Value is what was published.
	Value json.RawMessage `json:"value"`
}

// LeftOut counts the events that a listener was too slow for.
type LeftOut struct {
	LeftOut int `json:"leftOut"`
}

func tailEventOf(e *tap.Event) TailEvent {
	m := &e.Message
	one := TailEvent{
		Stream: m.Stream, Shard: m.Shard, Row: m.RowID, Key: string(m.Key), ID: m.ID, Type: m.Type, Version: m.Version, Origin: string(m.Origin),
		Destination: m.Destination, AcknowledgedAt: e.Acknowledged.UTC(), DeadLetter: e.DeadLetter, Value: m.Value,
	}
	if !json.Valid(m.Value) {
		// A text can always be encoded.
		one.Value, _ = json.Marshal(string(m.Value))
	}
	if born, ok := e.Born(); ok {
		one.Time.Time = born
		seconds := e.Delay(born).Seconds()
		one.DelaySeconds = &seconds
	}
	return one
}

// tailHandler sends events as they are acknowledged, as Server-Sent Events, until the client has
// gone.
func tailHandler(d func() Daemon) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		parameters, err := parametersOf(r.URL.Query(), "stream")
		if err != nil {
			answer(w, http.StatusBadRequest, refused{err.Error()})
			return
		}
		listener, err := d().Tail(parameters["stream"])
		if err != nil {
			refuse(w, err, http.StatusServiceUnavailable)
			return
		}
		defer listener.Close()
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("Cache-Control", "no-store")
		t := tail{w: extending{w}}
		t.comment()
		t.run(r.Context(), listener)
	})
}

type tail struct {
	w    http.ResponseWriter
	line bytes.Buffer
	err  error
}

// run writes what the listener has until ctx ends, or the client does not read.
func (t *tail) run(ctx context.Context, listener *tap.Listener) {
	sign := time.NewTicker(signEvery)
	defer sign.Stop()
	for t.err == nil {
		select {
		case <-ctx.Done():
			if errors.Is(context.Cause(ctx), errClosing) {
				t.write(tailEnd, refused{errClosing.Error()})
				t.flush()
			}
			return
		case <-sign.C:
			t.comment()
		case <-listener.Ready():
			events, left := listener.Drain()
			for _, e := range events {
				t.write("", tailEventOf(e))
			}
			if left > 0 {
				t.write(tailLeft, LeftOut{left})
			}
			t.flush()
		}
	}
}

func (t *tail) write(kind string, body any) {
	if t.err != nil {
		return
	}
	t.line.Reset()
	if kind != "" {
		fmt.Fprintf(&t.line, "event: %s\n", kind)
	}
	t.line.WriteString("data: ")
	text := json.NewEncoder(&t.line)
	// Values stay as they are.
	text.SetEscapeHTML(false)
	// It ends the line, and has no other line end: a value is written without white space.
	if t.err = text.Encode(body); t.err == nil {
		t.line.WriteByte('\n')
		_, t.err = t.w.Write(t.line.Bytes())
	}
}

// comment shows that the daemon is there.
func (t *tail) comment() {
	if t.err == nil {
		_, t.err = t.w.Write([]byte(":\n\n"))
	}
	t.flush()
}

func (t *tail) flush() {
	if t.err == nil {
		t.err = http.NewResponseController(t.w).Flush()
	}
}

// errClosing is why answers without an end do end.
var errClosing = errors.New("this bridge stops")

// until has the context of requests end once closing does.
func until(closing context.Context, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, end := context.WithCancelCause(r.Context())
		defer end(nil)
		defer context.AfterFunc(closing, func() { end(errClosing) })()
		h.ServeHTTP(w, r.WithContext(ctx))
	})
}

// silence is how long a tail may be without a line: a daemon that is there writes one every
// signEvery.
const silence = 6 * signEvery

// TailItem is one line of a tail: an event, or a number of events that were left out before it.
type TailItem struct {
	// Text is the event as the daemon wrote it, in one line, and Event what it says.
	Text  []byte
	Event *TailEvent
	// LeftOut is above 0 where Event is nil.
	LeftOut int
}

// ErrEnded is returned by a tail whose daemon has stopped or was not heard of any more.
var ErrEnded = errors.New("the tail has ended")

// Tail calls each with the events of a stream, or of all where the name is empty, as they are
// published, until ctx ends, each returns an error, or the daemon is not there any more: the error
// then wraps ErrEnded. begin is called once events are listened to.
func (c *Client) Tail(ctx context.Context, stream string, begin func(), each func(TailItem) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watch := time.AfterFunc(silence, func() {
		cancel(fmt.Errorf("%w: nothing was heard of the bridge at %s for %s", ErrEnded, c.Addr, silence))
	})
	defer watch.Stop()
	path := "/api/v1/tail"
	if stream != "" {
		path += "?stream=" + url.QueryEscape(stream)
	}
	response, err := c.send(ctx, request{method: http.MethodGet, path: path, guarded: true})
	if err != nil {
		return c.unanswered(ctx, err)
	}
	// Nothing was written that a failing close could lose.
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
		if err != nil {
			return c.unanswered(ctx, err)
		}
		return c.refusal(response.StatusCode, body, "shows no events")
	}
	begin()
	err = readTail(response.Body, func() { watch.Reset(silence) }, each)
	switch {
	case context.Cause(ctx) != nil:
		return context.Cause(ctx)
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%w: the bridge at %s is gone", ErrEnded, c.Addr)
	}
	return err
}

// readTail reads Server-Sent Events until the last one. heard is called with each line.
func readTail(from io.Reader, heard func(), each func(TailItem) error) error {
	lines, kind := bufio.NewReader(from), ""
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return err
		}
		heard()
		line = bytes.TrimRight(line, "\n")
		name, value, _ := bytes.Cut(line, []byte(": "))
		switch string(name) {
		case "event":
			kind = string(value)
			continue
		case "data":
			err = deliver(kind, value, each)
		}
		if kind = ""; err != nil {
			return err
		}
	}
}

func deliver(kind string, text []byte, each func(TailItem) error) error {
	var item TailItem
	switch kind {
	case "":
		item.Text, item.Event = text, new(TailEvent)
		if err := json.Unmarshal(text, item.Event); err != nil {
			return fmt.Errorf("read an event: %w", err)
		}
	case tailLeft:
		var left LeftOut
		if err := json.Unmarshal(text, &left); err != nil {
			return fmt.Errorf("read how many events were left out: %w", err)
		}
		item.Text, item.LeftOut = text, left.LeftOut
	case tailEnd:
		var end refused
		if err := json.Unmarshal(text, &end); err != nil {
			return fmt.Errorf("read why it ends: %w", err)
		}
		return fmt.Errorf("%w: %s", ErrEnded, end.Error)
	default:
		// A later version may have more to tell.
		return nil
	}
	return each(item)
}
