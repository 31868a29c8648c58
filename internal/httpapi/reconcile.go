package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

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

// modeOf parses the parameters dryRun and allowDeletes, and refuses misspelt ones.
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
