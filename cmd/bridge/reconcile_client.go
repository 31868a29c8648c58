package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"bridge/reconcile"
)

// runningBridge talks to the bridge that listens on addr.
type runningBridge struct{ addr string }

const (
	// answerWithin bounds a request.
	answerWithin = 10 * time.Second
	// maxStatus bounds a status: thousands of tables fit.
	maxStatus = 64 << 20
)

// status returns how the streams are. An error that is syscall.ECONNREFUSED says that nobody listens.
func (b *runningBridge) status(ctx context.Context) (Status, error) {
	code, body, err := b.ask(ctx, question{method: http.MethodGet, path: "/api/v1/status"})
	if err != nil {
		return Status{}, err
	}
	var status Status
	if err := json.Unmarshal(body, &status); code != http.StatusOK || err != nil || status.Started.IsZero() {
		return Status{}, fmt.Errorf("what listens on %s is no bridge of this version (status %d): see %s", b.addr, code, httpVariable)
	}
	return status, nil
}

// reconcile asks for a reconcile of a stream. The error says why it was refused.
func (b *runningBridge) reconcile(ctx context.Context, stream string, mode reconcile.Mode) (Asked, error) {
	query := url.Values{"dryRun": {strconv.FormatBool(mode.DryRun)}, "allowDeletes": {strconv.FormatBool(mode.AllowDeletes)}}
	code, body, err := b.ask(ctx, question{method: http.MethodPost, path: "/api/v1/streams/" + url.PathEscape(stream) + "/reconcile?" + query.Encode()})
	if err != nil {
		return Asked{}, err
	}
	var asked Asked
	var no refused
	switch {
	case code == http.StatusAccepted && json.Unmarshal(body, &asked) == nil:
		return asked, nil
	case json.Unmarshal(body, &no) == nil && no.Error != "":
		return Asked{}, errors.New(oneLine(no.Error))
	}
	return Asked{}, fmt.Errorf("what listens on %s does not reconcile (status %d): see %s", b.addr, code, httpVariable)
}

// question is a request.
type question struct {
	method, path string
	// body is JSON.
	body []byte
	// within is how long the answer may take. Defaults to answerWithin.
	within time.Duration
}

// ask sends a request, past any proxy of the environment.
func (b *runningBridge) ask(ctx context.Context, q question) (code int, body []byte, err error) {
	within := cmp.Or(q.within, answerWithin)
	ctx, cancel := context.WithTimeoutCause(ctx, within, fmt.Errorf("no answer within %s", within))
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, q.method, "http://"+b.addr+q.path, bytes.NewReader(q.body))
	if err != nil {
		return 0, nil, err
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err == nil {
		body, err = io.ReadAll(io.LimitReader(response.Body, maxStatus))
		code, err = response.StatusCode, errors.Join(err, response.Body.Close())
	} else if inner := errors.Unwrap(err); inner != nil {
		// The text around it repeats the URL.
		err = inner
	}
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return 0, nil, fmt.Errorf("ask the bridge at %s: %w: see that it runs and that %s is the same here and there", b.addr, err, httpVariable)
	}
	return code, body, nil
}
