package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"example.org/bridge/internal/null"
	"example.org/bridge/internal/stream"
	"example.org/bridge/source"
)

// RepublishRequest asks to publish rows again that a stream has published, or to end that.
type RepublishRequest struct {
	// Stream is part of the path.
	Stream string `json:"-"`
	// Table is empty for all tables of the stream.
	Table string `json:"table,omitempty"`
	// From and To are the first and the last id; 0 is the first row, and the last one that is
	// published. Keys are keys of entities instead, as messages have them.
	From uint64   `json:"from,omitempty"`
	To   uint64   `json:"to,omitempty"`
	Keys []string `json:"keys,omitempty"`
	// Where is a condition on the rows, as FILTER is one. Empty: all.
	Where string `json:"where,omitempty"`
	// All asks for a full list of a capability stream: all of its entities, between boundaries that
	// tell consumers where it begins and ends.
	All bool `json:"all,omitempty"`
	// Rate bounds the rows a second of the stream, 0 does not; DefaultRepublishRate without it.
	Rate *int `json:"rate,omitempty"`
	// Cancel ends what is under way, and stands alone or with Table, without which it ends a full
	// list, too.
	Cancel bool `json:"cancel,omitempty"`
}

// DefaultRepublishRate is in rows a second.
const DefaultRepublishRate = 1000

// Republished is the answer to a request to publish again, or to cancel that.
type Republished struct {
	Stream string `json:"stream"`
	// Shards counts the tables concerned, To is the highest id that is published again.
	Shards int    `json:"shards"`
	To     uint64 `json:"to"`
	// NotOnBus says which processes do not know it, and why; null where each does.
	NotOnBus null.Text `json:"notOnBus"`
}

// ErrCannotRepublish is returned when rows of a stream cannot be published again now.
var ErrCannotRepublish = errors.New("cannot be published again now")

// maxRepublishBytes bounds the body of a request: as many keys as may be fit.
const maxRepublishBytes = 2 * stream.MaxRepublishKeyBytes

func republishHandler(d func() Daemon) http.Handler {
	return answered(pauseTimeout, errPauseTimeout, http.StatusConflict, func(w http.ResponseWriter, r *http.Request) (any, error) {
		request, err := republishRequestOf(w, r)
		if err != nil {
			return nil, badRequest{err}
		}
		return d().Republish(r.Context(), request)
	})
}

// republishRequestOf parses a request and refuses a misspelt one, so that it publishes nothing.
func republishRequestOf(w http.ResponseWriter, r *http.Request) (request RepublishRequest, err error) {
	if len(r.URL.RawQuery) > 0 {
		return request, errors.New("there are no parameters: what to publish again stands in the body")
	}
	if err := readBody(w, r, maxRepublishBytes, &request); err != nil {
		return request, fmt.Errorf("read the body, a JSON object with from and to, keys, where, or all: %w", err)
	}
	request.Stream = r.PathValue("name")
	return request, request.Check()
}

// Check returns why a request is wrong.
func (r *RepublishRequest) Check() error {
	bytes := 0
	for _, key := range r.Keys {
		if bytes += len(key); key == "" {
			return errors.New("keys (--key) has an empty one: to name the row of an empty key, use where")
		}
	}
	isRange := r.From > 0 || r.To > 0
	named := isRange || len(r.Keys) > 0 || r.Where != "" || r.All
	switch {
	case r.Cancel && (named || r.Rate != nil):
		return errors.New("to cancel takes no rows and no rate: it ends what is under way")
	case !r.Cancel && !named:
		return errors.New("say what to publish again: from and to, keys, where, or all")
	case r.All && (isRange || len(r.Keys) > 0 || r.Where != "" || r.Table != ""):
		return errors.New("all is of the whole stream: it goes with no ids, keys, condition and table")
	case len(r.Keys) > 0 && (isRange || r.Where != ""):
		return errors.New("keys stand alone: they go with no ids and no condition")
	case len(r.Keys) > stream.MaxRepublishKeys || bytes > stream.MaxRepublishKeyBytes:
		return fmt.Errorf("%d keys of %d bytes: name at most %d of %d bytes at once", len(r.Keys), bytes, stream.MaxRepublishKeys, stream.MaxRepublishKeyBytes)
	case r.To > 0 && r.From > r.To:
		return fmt.Errorf("from %d is above to %d", r.From, r.To)
	case r.Rate != nil && (*r.Rate < 0 || *r.Rate > maxRepublishRate):
		return fmt.Errorf("the rate must be 0, for no bound, to %d rows a second", maxRepublishRate)
	}
	if r.Where == "" {
		return nil
	}
	if err := source.CheckFilter(r.Where); err != nil {
		return fmt.Errorf("the condition %.200q %w", r.Where, err)
	}
	return nil
}

const maxRepublishRate = 1_000_000_000

// Republish asks to publish rows of a stream again, or to cancel that. The error says why that was
// refused.
func (c *Client) Republish(ctx context.Context, republish RepublishRequest) (Republished, error) {
	text, err := json.Marshal(republish)
	if err != nil {
		return Republished{}, err
	}
	return fetch[Republished](ctx, c, request{
		method: http.MethodPost, path: "/api/v1/streams/" + url.PathEscape(republish.Stream) + "/republish",
		body: text, timeout: pauseTimeout + writeTimeout, guarded: true, otherwise: "does not publish again",
	})
}
