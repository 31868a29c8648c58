package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"
)

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

// Reload has the bridge read its configuration again. The error says why the one in force goes on.
func (c *Client) Reload(ctx context.Context) (Reloaded, error) {
	code, body, err := c.do(ctx, request{method: http.MethodPost, path: "/api/v1/reload", timeout: reloadTimeout + writeTimeout, guarded: true})
	if err != nil {
		return Reloaded{}, err
	}
	var done Reloaded
	if code == http.StatusOK && json.Unmarshal(body, &done) == nil {
		return done, nil
	}
	var no refused
	if json.Unmarshal(body, &no) == nil && no.Error != "" {
		// With a line for each fault.
		return Reloaded{}, errors.New(no.Error)
	}
	return Reloaded{}, c.refusal(code, body, "does not reload")
}
