package httpapi

import (
	"context"
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
