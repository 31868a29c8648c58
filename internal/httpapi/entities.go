package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Errors of a Daemon that is asked for entities.
var (
	// ErrNotServed is returned when the daemon does not show entities.
	ErrNotServed = errors.New("entities are not served")
	// ErrNoEntity is returned when nothing is published of an entity, or when it is deleted.
	ErrNoEntity = errors.New("no such entity")
	// ErrBadQuery is returned for a question that no answer fits.
	ErrBadQuery = errors.New("invalid query")
)

const (
	// MaxEntities bounds the entities of one page.
	MaxEntities     = 1000
	defaultEntities = 100
	// entityTimeout is how long the source may take for one answer.
	entityTimeout = 10 * time.Second
	// retryAfter is what a client is told that comes when too many others wait, in seconds.
	retryAfter = "1"
)

var errEntityTimeout = fmt.Errorf("the source did not answer within %s", entityTimeout)

// EntityQuery names an entity.
type EntityQuery struct {
	Stream string
	// Key is as Kafka has it. Shard is needed where each table of a stream has entities of its own.
	Key, Shard string
}

// PageQuery asks for the entities behind After, a Next of the page before; empty for the first
// ones.
type PageQuery struct {
	Stream, After string
	// Limit is 1 to MaxEntities. A page may have fewer entities, and still not be the last one.
	Limit int
}

// Entity is what a row says now of an entity that was published.
type Entity struct {
	Key   string `json:"key"`
	Shard string `json:"shard"`
	// Event is the meta.id of the last event of the entity. Changed says that the row says
	// something else by now, of which no event is stored yet.
	Event   string `json:"event"`
	Changed bool   `json:"changed"`
	// Data is as the member of that name in an event.
	Data json.RawMessage `json:"data"`
}

// EntityPage is a page of entities, by table and row.
type EntityPage struct {
	Entities []Entity `json:"entities"`
	// Next asks for the next page; it is left out in the last one.
	Next string `json:"next,omitempty"`
}

func entityHandler(d Daemon) http.Handler {
	return entityAnswer(func(ctx context.Context, r *http.Request) (any, error) {
		parameters, err := parametersOf(r.URL.Query(), "shard")
		if err != nil {
			return nil, err
		}
		return d.Entity(ctx, EntityQuery{Stream: r.PathValue("name"), Key: r.PathValue("key"), Shard: parameters["shard"]})
	})
}

// keyedHandler takes the key from the query: an empty one, "." and ".." are no parts of a path.
func keyedHandler(d Daemon) http.Handler {
	return entityAnswer(func(ctx context.Context, r *http.Request) (any, error) {
		parameters, err := parametersOf(r.URL.Query(), "key", "shard")
		if err != nil {
			return nil, err
		}
		key, named := parameters["key"]
		if !named {
			return nil, fmt.Errorf("%w: name the entity with ?key=", ErrBadQuery)
		}
		return d.Entity(ctx, EntityQuery{Stream: r.PathValue("name"), Key: key, Shard: parameters["shard"]})
	})
}

func entitiesHandler(d Daemon) http.Handler {
	return entityAnswer(func(ctx context.Context, r *http.Request) (any, error) {
		parameters, err := parametersOf(r.URL.Query(), "after", "limit")
		if err != nil {
			return nil, err
		}
		limit := defaultEntities
		if text := parameters["limit"]; text != "" {
			if limit, err = strconv.Atoi(text); err != nil || limit < 1 || limit > MaxEntities {
				return nil, fmt.Errorf("%w: limit must be 1 to %d", ErrBadQuery, MaxEntities)
			}
		}
		return d.EntityPage(ctx, PageQuery{Stream: r.PathValue("name"), After: parameters["after"], Limit: limit})
	})
}

// entityAnswer answers with what ask returns.
func entityAnswer(ask func(context.Context, *http.Request) (any, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeoutCause(r.Context(), entityTimeout, errEntityTimeout)
		defer cancel()
		body, err := ask(ctx, r)
		if err != nil {
			refuse(w, err, http.StatusServiceUnavailable)
			return
		}
		answer(w, http.StatusOK, body)
	})
}

// parametersOf returns the parameters of a query, and refuses misspelt ones.
func parametersOf(query url.Values, known ...string) (map[string]string, error) {
	parameters := make(map[string]string)
	for _, name := range known {
		if values := query[name]; len(values) == 1 {
			parameters[name] = values[0]
			delete(query, name)
		}
	}
	for name := range query {
		return nil, fmt.Errorf("%w: unknown parameter %.50q, or more than once: there are %v", ErrBadQuery, name, known)
	}
	return parameters, nil
}
