package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"bridge/internal/pipeline"
	"bridge/reconcile"
)

// Errors of daemon.Reconcile.
var (
	// errNoStream is returned when no such stream is configured.
	errNoStream = errors.New("no such stream")
	// errCannot is returned when no shard of the stream could be reconciled as it stands.
	errCannot = errors.New("cannot be reconciled now")
)

// Asked is the answer to a request for a reconcile: it waits for its turn, or runs.
type Asked struct {
	Stream string `json:"stream"`
	// Shards counts the shards that will be reconciled.
	Shards       int  `json:"shards"`
	DryRun       bool `json:"dryRun"`
	AllowDeletes bool `json:"allowDeletes"`
	// Started is when the process began: one that says something else knows nothing of the request.
	Started time.Time `json:"started"`
}

// refused is the answer to a request that is not taken up.
type refused struct {
	Error string `json:"error"`
}

func reconcileHandler(d daemon) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mode, err := modeOf(r.URL.Query())
		if err != nil {
			answer(w, http.StatusBadRequest, refused{err.Error()})
			return
		}
		asked, err := d.Reconcile(r.PathValue("name"), mode)
		switch {
		case errors.Is(err, errNoStream):
			answer(w, http.StatusNotFound, refused{err.Error()})
		case err != nil:
			answer(w, http.StatusConflict, refused{err.Error()})
		default:
			answer(w, http.StatusAccepted, asked)
		}
	})
}

// modeOf reads the parameters dryRun and allowDeletes. One that is misspelt must not lead to another mode.
func modeOf(query url.Values) (mode reconcile.Mode, err error) {
	for name, values := range query {
		on, err := parseBool(values[0])
		switch {
		case name != "dryRun" && name != "allowDeletes":
			return mode, fmt.Errorf("unknown parameter %.50q: there are dryRun=true and allowDeletes=true", name)
		case err != nil || len(values) != 1:
			return mode, fmt.Errorf("the parameter %s must be true or false, once", name)
		case name == "dryRun":
			mode.DryRun = on
		default:
			mode.AllowDeletes = on
		}
	}
	return mode, nil
}

// Reconcile implements daemon. With deletes allowed, a shard that stopped because its ids are used again goes on.
func (h *health) Reconcile(stream string, mode reconcile.Mode) (Asked, error) {
	if _, err := h.stream(stream); err != nil {
		return Asked{}, err
	}
	able, why := 0, ""
	for _, shard := range h.shards {
		s := shard.Status()
		if s.Stream != stream {
			continue
		}
		if s.State == pipeline.Stopped && !(mode.AllowDeletes && !mode.DryRun && shard.Accept()) {
			why = fmt.Sprintf("%s is stopped: %s", s.Shard, s.LastError)
			continue
		}
		able++
	}
	if able == 0 {
		return Asked{}, fmt.Errorf("stream %s %w: %s", stream, errCannot, why)
	}
	return Asked{
		Stream: stream, Shards: h.scheduler.Request(stream, mode),
		DryRun: mode.DryRun, AllowDeletes: mode.AllowDeletes, Started: h.started.UTC(),
	}, nil
}

// stream returns the stream with this name. The error is errNoStream.
func (h *health) stream(name string) (*Stream, error) {
	if s := streamNamed(h.streams, name); s != nil {
		return s, nil
	}
	return nil, fmt.Errorf("%w as %.100q: there are %s", errNoStream, name, strings.Join(namesOf(h.streams), ", "))
}

// streamNamed returns the stream with this name, nil where there is none.
func streamNamed(streams []Stream, name string) *Stream {
	at := slices.IndexFunc(streams, func(s Stream) bool { return s.Name == name })
	if at < 0 {
		return nil
	}
	return &streams[at]
}

func namesOf(streams []Stream) []string {
	names := make([]string, len(streams))
	for i := range streams {
		names[i] = streams[i].Name
	}
	return names
}
