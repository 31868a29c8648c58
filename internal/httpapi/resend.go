package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"example.org/bridge/event"
	"example.org/bridge/internal/shard"
)

const (
	// MaxDeadLetters bounds the letters of one request.
	MaxDeadLetters = 100
	// resendTimeout is how long the owner of a shard may take for one request.
	resendTimeout = time.Minute
	// maxResendBytes bounds the body of a request: MaxDeadLetters with long keys fit.
	maxResendBytes = 4 << 20
)

var errResendTimeout = fmt.Errorf("it is not done within %s: the bus or the source holds it up; what was handed on is published all the same, ask again for the rest", resendTimeout)

// ResendRequest asks the owner of a shard to send letters again.
type ResendRequest struct {
	// Stream is part of the path.
	Stream      string            `json:"-"`
	Shard       string            `json:"shard"`
	DryRun      bool              `json:"dryRun"`
	DeadLetters DeadLettersToSend `json:"letters"`
}

// DeadLettersToSend are the dead letters of a request. Decoding stops one above the limit, because
// decoded letters take many times the size of the body. Invariant 7.
type DeadLettersToSend []shard.DeadLetter

// UnmarshalJSON implements json.Unmarshaler.
func (l *DeadLettersToSend) UnmarshalJSON(text []byte) error {
	*l = nil
	list := json.NewDecoder(bytes.NewReader(text))
	list.DisallowUnknownFields()
	if begin, err := list.Token(); err != nil || begin != json.Delim('[') {
		return errors.Join(err, errors.New("letters must be a list"))
	}
	for list.More() && len(*l) <= MaxDeadLetters {
		var one shard.DeadLetter
		if err := list.Decode(&one); err != nil {
			return err
		}
		*l = append(*l, one)
	}
	return nil
}

// resent is the answer: the outcome of each dead letter, in their order.
type resent struct {
	DeadLetters []shard.ResendOutcome `json:"letters"`
}

func resendHandler(d Daemon) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		request, err := resendRequestOf(w, r)
		if err != nil {
			refuseBody(w, err)
			return
		}
		ctx, cancel := context.WithTimeoutCause(r.Context(), resendTimeout, errResendTimeout)
		defer cancel()
		// Publishing takes longer than other answers.
		extend(w, resendTimeout+writeTimeout)
		outcomes, err := d.Resend(ctx, request)
		if err != nil {
			refuse(w, err, http.StatusConflict)
			return
		}
		answer(w, http.StatusOK, resent{outcomes})
	})
}

// refuseBody refuses a request whose body could not be read.
func refuseBody(w http.ResponseWriter, err error) {
	if tooLong, is := errors.AsType[*http.MaxBytesError](err); is {
		answer(w, http.StatusRequestEntityTooLarge, refused{fmt.Sprintf("the body is longer than %d bytes: send fewer dead letters at once", tooLong.Limit)})
		return
	}
	answer(w, http.StatusBadRequest, refused{err.Error()})
}

// resendRequestOf parses a request and refuses a misspelt one, so that it publishes nothing.
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
	if n := len(request.DeadLetters); request.Shard == "" || n == 0 || n > MaxDeadLetters {
		return request, fmt.Errorf("the body needs a shard and 1 to %d dead letters", MaxDeadLetters)
	}
	for i := range request.DeadLetters {
		if id, err := event.ParseID(request.DeadLetters[i].Event); err != nil || id == ([16]byte{}) {
			return request, fmt.Errorf("dead letter %d has no event: its meta.id is a UUID in lower case", i+1)
		}
	}
	request.Stream = r.PathValue("name")
	return request, nil
}

const (
	// MaxResentAll bounds the dead letters of one request, and MaxResentShown those that its answer
	// lists.
	MaxResentAll   = 1000
	MaxResentShown = 20
	// resendAllTimeout is how long one request may take, the read of the bus included.
	resendAllTimeout = resendTimeout
)

var errResendAllTimeout = fmt.Errorf("it is not done within %s: what was handed on is published all the same, bridge deadletter resend does it for all", resendAllTimeout)

// ResentAll says what became of the dead letters of a stream, or in a dry run would.
type ResentAll struct {
	// Found counts the dead letters that were found, each once, at most MaxResentAll. More says
	// that there are others.
	Found int  `json:"found"`
	More  bool `json:"more"`
	// Fates counts them by fate.
	Fates map[shard.Fate]int `json:"fates"`
	// DeadLetters are the first MaxResentShown.
	DeadLetters []ResentDeadLetter `json:"letters"`
}

// ResentDeadLetter is one dead letter. Reason is why the bus has refused it.
type ResentDeadLetter struct {
	Shard  string `json:"shard"`
	Row    uint64 `json:"row"`
	Key    string `json:"key"`
	Reason string `json:"reason"`
	shard.ResendOutcome
}

func resendAllHandler(d Daemon) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mode, err := modeOf(r.URL.Query())
		if err != nil || mode.AllowDeletes {
			answer(w, http.StatusBadRequest, refused{"the only parameter is dryRun=true"})
			return
		}
		ctx, cancel := context.WithTimeoutCause(r.Context(), resendAllTimeout, errResendAllTimeout)
		defer cancel()
		// Publishing takes longer than other answers.
		extend(w, resendAllTimeout+writeTimeout)
		report, err := d.ResendAll(ctx, r.PathValue("name"), mode.DryRun)
		if err != nil {
			refuse(w, err, http.StatusConflict)
			return
		}
		answer(w, http.StatusOK, report)
	})
}
