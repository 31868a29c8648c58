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
)

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

// deliver calls each with what stands in a line.
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
