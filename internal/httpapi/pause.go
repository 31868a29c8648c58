package httpapi

import (
	"fmt"
	"net/http"
	"time"

	"example.org/bridge/internal/null"
)

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
