package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"example.org/bridge/event"
	"example.org/bridge/internal/null"
	"example.org/bridge/internal/shard"
	"example.org/bridge/reconcile"
)

// Errors of a Daemon.
var (
	// ErrNoStream is returned when no such stream is configured.
	ErrNoStream = errors.New("no such stream")
	// ErrCannotReconcile is returned when no shard of the stream can be reconciled now.
	ErrCannotReconcile = errors.New("cannot be reconciled now")
	// ErrCannotResend is returned when the owner of a shard cannot send dead letters again now.
	ErrCannotResend = errors.New("cannot send dead letters again now")
	// ErrCannotPause is returned when a stream cannot be paused or resumed now.
	ErrCannotPause = errors.New("cannot be paused or resumed now")
)

// Accepted is the answer to a request for a reconcile that waits for its turn or runs.
type Accepted struct {
	Stream string `json:"stream"`
	// Shards counts the shards that will be reconciled.
	Shards       int  `json:"shards"`
	DryRun       bool `json:"dryRun"`
	AllowDeletes bool `json:"allowDeletes"`
	// Started is when the process began. A process with another start knows nothing of the request.
	Started time.Time `json:"started"`
}

// refused is the answer to a request that was refused.
type refused struct {
	Error string `json:"error"`
}

// badRequest is an error of a request that no answer fits.
type badRequest struct{ error }

// Unwrap is for errors.As.
func (e badRequest) Unwrap() error { return e.error }

// refuse answers a request that a Daemon has refused: with the status of the error, or another one.
func refuse(w http.ResponseWriter, err error, otherwise int) {
	status, text := otherwise, err.Error()
	_, bad := errors.AsType[badRequest](err)
	tooLong, long := errors.AsType[*http.MaxBytesError](err)
	switch {
	case long:
		status, text = http.StatusRequestEntityTooLarge, fmt.Sprintf("the body is longer than %d bytes: send fewer dead letters at once", tooLong.Limit)
	case bad, errors.Is(err, ErrBadQuery):
		status = http.StatusBadRequest
	case errors.Is(err, ErrNoStream), errors.Is(err, ErrNoEntity), errors.Is(err, ErrNotServed):
		status = http.StatusNotFound
	case errors.Is(err, errResendTimeout), errors.Is(err, errResendAllTimeout), errors.Is(err, errPauseTimeout):
		status = http.StatusGatewayTimeout
	case otherwise == http.StatusServiceUnavailable:
		w.Header().Set("Retry-After", retryAfter)
	}
	answer(w, status, refused{text})
}

// answered answers with what ask returns within a time, or with its error, whose status is
// otherwise unless the error has one.
func answered(within time.Duration, late error, otherwise int, ask func(http.ResponseWriter, *http.Request) (any, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeoutCause(r.Context(), within, late)
		defer cancel()
		if within > writeTimeout {
			// Publishing takes longer than other answers.
			extend(w, within+writeTimeout)
		}
		body, err := ask(w, r.WithContext(ctx))
		if err != nil {
			refuse(w, err, otherwise)
			return
		}
		answer(w, http.StatusOK, body)
	})
}

func reconcileHandler(d func() Daemon) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mode, err := modeOf(r.URL.Query())
		var accepted Accepted
		if err == nil {
			accepted, err = d().Reconcile(r.PathValue("name"), mode)
		}
		if err != nil {
			refuse(w, err, http.StatusConflict)
			return
		}
		answer(w, http.StatusAccepted, accepted)
	})
}

func modeOf(query url.Values) (mode reconcile.Mode, err error) {
	parameters, err := parametersOf(query, "dryRun", "allowDeletes")
	for name, to := range map[string]*bool{"dryRun": &mode.DryRun, "allowDeletes": &mode.AllowDeletes} {
		if text, named := parameters[name]; named && err == nil {
			if *to, err = strconv.ParseBool(strings.ToLower(text)); err != nil {
				err = fmt.Errorf("%w: the parameter %s must be true or false", ErrBadQuery, name)
			}
		}
	}
	return mode, err
}

// PauseRequest asks to pause a stream, or one of its tables, or to resume it.
type PauseRequest struct {
	Stream string
	// Table is empty for all tables of the stream, those too that are found later.
	Table string
	// Resume ends the pause. That of a stream ends those of its tables, too.
	Resume bool
}

// Paused is the answer to a request to pause or to resume.
type Paused struct {
	Stream string `json:"stream"`
	// Shards counts the tables concerned, Publishing those of them that still have rows in flight,
	// as while the bus is away.
	Shards     int `json:"shards"`
	Publishing int `json:"publishing"`
	// PausedAt is since when all of them are paused, null where they go on.
	PausedAt null.Time `json:"pausedAt"`
	// NotOnBus says which processes do not know it, and why; null where each does.
	NotOnBus null.Text `json:"notOnBus"`
}

// pauseTimeout bounds a pause: how long it waits for what is in flight, and for the bus.
const pauseTimeout = 9 * time.Second

var errPauseTimeout = fmt.Errorf("it is not done within %s", pauseTimeout)

func pauseHandler(d func() Daemon, resume bool) http.Handler {
	return answered(pauseTimeout, errPauseTimeout, http.StatusConflict, func(_ http.ResponseWriter, r *http.Request) (any, error) {
		parameters, err := parametersOf(r.URL.Query(), "table")
		if err != nil {
			return nil, err
		}
		if table, named := parameters["table"]; named && table == "" {
			return nil, fmt.Errorf("%w: table is empty: leave it out for all tables of the stream", ErrBadQuery)
		}
		return d().Pause(r.Context(), PauseRequest{Stream: r.PathValue("name"), Table: parameters["table"], Resume: resume})
	})
}

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

func resendHandler(d func() Daemon) http.Handler {
	return answered(resendTimeout, errResendTimeout, http.StatusConflict, func(w http.ResponseWriter, r *http.Request) (any, error) {
		request, err := resendRequestOf(w, r)
		if err != nil {
			return nil, badRequest{err}
		}
		outcomes, err := d().Resend(r.Context(), request)
		return resent{outcomes}, err
	})
}

// resendRequestOf parses a request and refuses a misspelt one, so that it publishes nothing.
func resendRequestOf(w http.ResponseWriter, r *http.Request) (request ResendRequest, err error) {
	if len(r.URL.RawQuery) > 0 {
		return request, errors.New("there are no parameters: shard, dryRun and letters stand in the body")
	}
	if err := readBody(w, r, maxResendBytes, &request); err != nil {
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

// readBody reads the JSON object of a request of at most so many bytes, and refuses one that has
// members that request has not, or that something follows.
func readBody(w http.ResponseWriter, r *http.Request, most int64, request any) error {
	body := json.NewDecoder(http.MaxBytesReader(w, r.Body, most))
	body.DisallowUnknownFields()
	err := body.Decode(request)
	if _, more := body.Token(); err == nil && !errors.Is(more, io.EOF) {
		err = errors.Join(more, errors.New("something follows the object"))
	}
	return err
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
	// States counts them by what became of them.
	States map[shard.ResendState]int `json:"fates"`
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

func resendAllHandler(d func() Daemon) http.Handler {
	return answered(resendAllTimeout, errResendAllTimeout, http.StatusConflict, func(_ http.ResponseWriter, r *http.Request) (any, error) {
		mode, err := modeOf(r.URL.Query())
		if err != nil || mode.AllowDeletes {
			return nil, badRequest{errors.New("the only parameter is dryRun=true")}
		}
		return d().ResendAll(r.Context(), r.PathValue("name"), mode.DryRun)
	})
}

// Reload reads the configuration again. The error says why the one in force goes on.
type Reload func(context.Context) (Reloaded, error)

// Reloaded is the answer to a reload.
type Reloaded struct {
	// Streams are the streams that are configured now, Shards counts their tables.
	Streams []string `json:"streams"`
	Shards  int      `json:"shards"`
	// Milliseconds is how long it took to end the former streams and to open these.
	Milliseconds int `json:"milliseconds"`
}

// reloadTimeout is how long a reload may take: what is in flight is published first.
const reloadTimeout = 2 * time.Minute

var errReloadTimeout = fmt.Errorf("it has not ended within %s, and goes on: the log says how it ends", reloadTimeout)

func reloadHandler(reload Reload) http.Handler {
	return answered(reloadTimeout, errReloadTimeout, http.StatusConflict, func(_ http.ResponseWriter, r *http.Request) (any, error) {
		if r.URL.RawQuery != "" {
			return nil, badRequest{errors.New("there are no parameters")}
		}
		return reload(r.Context())
	})
}
