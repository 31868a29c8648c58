package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"bridge/event"
	"bridge/internal/pipeline"
)

const (
	// resendWithin is how long the owner of a shard may take for one request.
	resendWithin = time.Minute
	// maxResendBytes bounds the body of a request: lettersAtOnce with long keys fit.
	maxResendBytes = 4 << 20
)

var errResendTimeout = fmt.Errorf("it is not done within %s: the bus or the source holds it up; what was handed on is published all the same, ask again for the rest", resendWithin)

// ResendRequest asks the owner of a shard to send letters again.
type ResendRequest struct {
	// Stream is part of the path.
	Stream  string        `json:"-"`
	Shard   string        `json:"shard"`
	DryRun  bool          `json:"dryRun"`
	Letters lettersToSend `json:"letters"`
}

// lettersToSend are the letters of a request. A list that is too long is read to one letter more than there may be, since as letters a body
// takes many times its length. Invariant 7.
type lettersToSend []pipeline.Letter

func (l *lettersToSend) UnmarshalJSON(text []byte) error {
	*l = nil
	list := json.NewDecoder(bytes.NewReader(text))
	list.DisallowUnknownFields()
	if begin, err := list.Token(); err != nil || begin != json.Delim('[') {
		return errors.Join(err, errors.New("letters must be a list"))
	}
	for list.More() && len(*l) <= lettersAtOnce {
		var letter pipeline.Letter
		if err := list.Decode(&letter); err != nil {
			return err
		}
		*l = append(*l, letter)
	}
	return nil
}

// resent is the answer: what became of each letter, in their order.
type resent struct {
	Letters []pipeline.LetterOutcome `json:"letters"`
}

func resendHandler(d daemon) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		request, err := resendRequestOf(w, r)
		if tooLong, is := errors.AsType[*http.MaxBytesError](err); is {
			answer(w, http.StatusRequestEntityTooLarge, refused{fmt.Sprintf("the body is longer than %d bytes: send fewer letters at once", tooLong.Limit)})
			return
		}
		if err != nil {
			answer(w, http.StatusBadRequest, refused{err.Error()})
			return
		}
		ctx, cancel := context.WithTimeoutCause(r.Context(), resendWithin, errResendTimeout)
		defer cancel()
		// The owner publishes, which takes longer than other answers. A writer without deadlines has none to move.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(resendWithin + writeTimeout))
		outcomes, err := d.Resend(ctx, request)
		switch {
		case errors.Is(err, errNoStream):
			answer(w, http.StatusNotFound, refused{err.Error()})
		case errors.Is(err, errResendTimeout):
			answer(w, http.StatusGatewayTimeout, refused{err.Error()})
		case err != nil:
			answer(w, http.StatusConflict, refused{err.Error()})
		default:
			answer(w, http.StatusOK, resent{outcomes})
		}
	})
}

// resendRequestOf reads a request. One that is misspelt must not publish anything.
func resendRequestOf(w http.ResponseWriter, r *http.Request) (request ResendRequest, err error) {
	if len(r.URL.RawQuery) > 0 {
		return request, errors.New("there are no parameters: shard, dryRun and letters stand in the body")
	}
	body := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxResendBytes))
	body.DisallowUnknownFields()
	err = body.Decode(&request)
	if _, more := body.Token(); err == nil && !errors.Is(more, io.EOF) {
		err = errors.Join(more, errors.New("something follows the object"))
	}
	if err != nil {
		return request, fmt.Errorf("read the body, a JSON object with shard, dryRun and letters: %w", err)
	}
	if n := len(request.Letters); request.Shard == "" || n == 0 || n > lettersAtOnce {
		return request, fmt.Errorf("the body needs a shard and 1 to %d letters", lettersAtOnce)
	}
	for i := range request.Letters {
		if id, err := event.ParseID(request.Letters[i].Event); err != nil || id == ([16]byte{}) {
			return request, fmt.Errorf("letter %d has no event: its meta.id is a UUID in lower case", i+1)
		}
	}
	request.Stream = r.PathValue("name")
	return request, nil
}

// Resend implements daemon.
func (h *health) Resend(ctx context.Context, request ResendRequest) ([]pipeline.LetterOutcome, error) {
	stream, err := h.stream(request.Stream)
	if err != nil {
		return nil, err
	}
	return resendBy(ctx, stream, h.shards, request)
}

// resendBy has that one of shards send letters again which owns their table.
func resendBy(ctx context.Context, stream *Stream, shards []*pipeline.Shard, request ResendRequest) ([]pipeline.LetterOutcome, error) {
	if stream.DeadLetter == "" {
		return nil, fmt.Errorf("stream %s %w: BRIDGE_DEAD_LETTER is not set, so a row that is refused again would stop it", stream.Name, errCannotResend)
	}
	for _, shard := range shards {
		s := shard.Status()
		switch {
		case s.Stream != stream.Name || s.Shard != request.Shard:
		case s.State == pipeline.Stopped:
			return nil, fmt.Errorf("%s %w: it is stopped: %s", s.Shard, errCannotResend, s.LastError)
		default:
			outcomes, err := shard.Resend(ctx, request.Letters, request.DryRun)
			if err != nil && ctx.Err() == nil {
				err = fmt.Errorf("%s %w: %w", s.Shard, errCannotResend, err)
			}
			return outcomes, err
		}
	}
	return nil, fmt.Errorf("%w with a table %.100q: stream %s has %s", errNoStream, request.Shard, stream.Name, strings.Join(stream.Tables, ", "))
}

// errCannotResend is returned when the owner of a shard cannot send letters again as it stands.
var errCannotResend = errors.New("cannot send dead letters again now")

// resend asks for letters to be sent again and returns what became of them. The error says why they were not.
func (b *runningBridge) resend(ctx context.Context, request ResendRequest) ([]pipeline.LetterOutcome, error) {
	text, err := json.Marshal(request)
	if err != nil {
		return nil, err
	}
	ask := question{method: http.MethodPost, path: "/api/v1/streams/" + url.PathEscape(request.Stream) + "/resend", body: text, within: resendWithin + writeTimeout}
	code, body, err := b.ask(ctx, ask)
	if err != nil {
		return nil, err
	}
	var done resent
	var no refused
	switch {
	case code == http.StatusOK && json.Unmarshal(body, &done) == nil:
		return done.Letters, nil
	case json.Unmarshal(body, &no) == nil && no.Error != "":
		return nil, errors.New(oneLine(no.Error))
	}
	return nil, fmt.Errorf("what listens on %s sends no dead letters again (status %d): see %s", b.addr, code, httpVariable)
}
