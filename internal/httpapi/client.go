package httpapi

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"example.org/bridge/internal/option"
	"example.org/bridge/internal/shard"
	"example.org/bridge/reconcile"
)

// Client talks to the bridge that listens on an address.
type Client struct {
	// Addr is host:port.
	Addr string
	// Host is the name that a certificate is for. Defaults to the host of Addr.
	Host string
	// Setting names the setting with the address; errors show it.
	Setting string
	// Token returns the token for requests that need it; nil where none is set.
	Token func() (string, error)
	// TLS names no file where the bridge does not speak TLS.
	TLS TLS
}

const (
	// requestTimeout bounds most requests.
	requestTimeout = 10 * time.Second
	// maxAnswer bounds an answer: the status of thousands of tables fits.
	maxAnswer = 64 << 20
)

// Live asks whether the loops of the process live. ok is false if they do not.
func (c *Client) Live(ctx context.Context) (answer Readiness, ok bool, err error) {
	return c.readiness(ctx, "/livez")
}

// Ready asks whether source and bus can be reached and no stream is stopped or degraded. ok is
// false if the process is not ready.
func (c *Client) Ready(ctx context.Context) (answer Readiness, ok bool, err error) {
	return c.readiness(ctx, "/readyz")
}

func (c *Client) readiness(ctx context.Context, path string) (answer Readiness, ok bool, err error) {
	code, body, err := c.do(ctx, request{method: http.MethodGet, path: path})
	if err != nil {
		return answer, false, err
	}
	if err := json.Unmarshal(body, &answer); err != nil || answer.Status == "" {
		return answer, false, fmt.Errorf("what listens on %s is not a bridge (status %d): see %s", c.Addr, code, c.Setting)
	}
	return answer, code == http.StatusOK, nil
}

// Status returns the status of all streams. The error is syscall.ECONNREFUSED if nothing listens
// there.
func (c *Client) Status(ctx context.Context) (Status, error) { return c.StatusOf(ctx, "", "") }

// StatusOf is Status of the streams and tables that are selected: of one stream unless it is empty,
// in one state unless that is.
func (c *Client) StatusOf(ctx context.Context, stream, state string) (Status, error) {
	if stream == "" && state == "" {
		return c.status(ctx, "/api/v1/status")
	}
	query := url.Values{"streams": {strconv.Itoa(maxListed)}, "stream": {stream}, "state": {state}}
	return c.status(ctx, "/api/v1/status?"+query.Encode())
}

// Working is Status of the process of the standby group that works, or of the one that is asked
// where it works alone.
func (c *Client) Working(ctx context.Context) (Status, error) {
	return c.status(ctx, "/api/v1/status?working=true")
}

func (c *Client) status(ctx context.Context, path string) (Status, error) {
	status, err := fetch[Status](ctx, c, request{method: http.MethodGet, path: path, otherwise: otherVersion})
	if err == nil && status.Started.IsZero() {
		err = c.refusal(http.StatusOK, nil, otherVersion)
	}
	return status, err
}

// otherVersion is said of what answers otherwise than a bridge of this version.
const otherVersion = "is not a bridge of this version"

// Reconcile asks for a reconcile of a stream. The error says why it was refused.
func (c *Client) Reconcile(ctx context.Context, stream string, mode reconcile.Mode) (Accepted, error) {
	query := url.Values{"dryRun": {strconv.FormatBool(mode.DryRun)}, "allowDeletes": {strconv.FormatBool(mode.AllowDeletes)}}
	return fetch[Accepted](ctx, c, request{
		method: http.MethodPost, path: "/api/v1/streams/" + url.PathEscape(stream) + "/reconcile?" + query.Encode(), guarded: true, otherwise: "does not reconcile",
	})
}

// Resend asks for dead letters to be sent again and returns the outcome of each. The error says why
// the request was refused.
func (c *Client) Resend(ctx context.Context, resend ResendRequest) ([]shard.ResendOutcome, error) {
	text, err := json.Marshal(resend)
	if err != nil {
		return nil, err
	}
	done, err := fetch[resent](ctx, c, request{
		method: http.MethodPost, path: "/api/v1/streams/" + url.PathEscape(resend.Stream) + "/resend",
		body: text, timeout: resendTimeout + writeTimeout, guarded: true, otherwise: "sends no dead letters again",
	})
	return done.DeadLetters, err
}

// Pause pauses or resumes a stream or one of its tables. The error says why that was refused.
func (c *Client) Pause(ctx context.Context, pause PauseRequest) (Paused, error) {
	verb, query := "pause", url.Values{}
	if pause.Resume {
		verb = "resume"
	}
	if pause.Table != "" {
		query.Set("table", pause.Table)
	}
	return fetch[Paused](ctx, c, request{
		method: http.MethodPost, path: "/api/v1/streams/" + url.PathEscape(pause.Stream) + "/" + verb + "?" + query.Encode(),
		timeout: pauseTimeout + writeTimeout, guarded: true, otherwise: "does not " + verb,
	})
}

// Reload has the bridge read its configuration again. The error says why the one in force goes on,
// with a line for each fault.
func (c *Client) Reload(ctx context.Context) (Reloaded, error) {
	return fetch[Reloaded](ctx, c, request{
		method: http.MethodPost, path: "/api/v1/reload", timeout: reloadTimeout + writeTimeout, guarded: true, otherwise: "does not reload",
	})
}

func fetch[T any](ctx context.Context, c *Client, r request) (answer T, err error) {
	code, body, err := c.do(ctx, r)
	if err != nil {
		return answer, err
	}
	if err := json.Unmarshal(body, &answer); err == nil && code/100 == 2 {
		return answer, nil
	}
	var none T
	return none, c.refusal(code, body, r.otherwise)
}

func (c *Client) refusal(code int, body []byte, what string) error {
	var no refused
	if json.Unmarshal(body, &no) == nil && no.Error != "" {
		return errors.New(no.Error)
	}
	return fmt.Errorf("what listens on %s %s (status %d): see %s", c.Addr, what, code, c.Setting)
}

type request struct {
	method, path string
	// body is JSON.
	body []byte
	// timeout defaults to requestTimeout.
	timeout time.Duration
	// guarded says that it may need the token.
	guarded bool
	// otherwise is said of what gives another answer.
	otherwise string
}

// do sends a request without using a proxy of the environment.
func (c *Client) do(ctx context.Context, r request) (code int, body []byte, err error) {
	timeout := cmp.Or(r.timeout, requestTimeout)
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("no answer within %s", timeout))
	defer cancel()
	response, err := c.send(ctx, r)
	if err == nil {
		body, err = io.ReadAll(io.LimitReader(response.Body, maxAnswer))
		code, err = response.StatusCode, errors.Join(err, response.Body.Close())
	}
	if code == http.StatusBadRequest && bytes.Contains(body, []byte("HTTP request to an HTTPS server")) {
		err = option.Errorf("it speaks TLS: set %s", option.HTTPTLSCA)
	}
	if err != nil {
		return 0, nil, c.unanswered(ctx, err)
	}
	return code, body, nil
}

func (c *Client) unanswered(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if errors.Is(err, http.ErrSchemeMismatch) {
		err = option.Errorf("it does not speak TLS: unset %s and %s", option.HTTPTLSCert, option.HTTPTLSCA)
	}
	return fmt.Errorf("ask the bridge at %s: %w: see that it runs and that %s is the same here and there", c.Addr, err, c.Setting)
}

func (c *Client) send(ctx context.Context, r request) (*http.Response, error) {
	host, _, err := net.SplitHostPort(c.Addr)
	if err != nil {
		return nil, err
	}
	config, err := clientConfig(c.TLS, cmp.Or(c.Host, host))
	if err != nil {
		return nil, err
	}
	message, err := http.NewRequestWithContext(ctx, r.method, schemeOf(config != nil)+"://"+c.Addr+r.path, bytes.NewReader(r.body))
	if err != nil {
		return nil, err
	}
	if r.guarded && c.Token != nil {
		token, err := c.Token()
		if err != nil {
			return nil, err
		}
		message.Header.Set("Authorization", "Bearer "+token)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: config}}
	response, err := client.Do(message)
	if inner := errors.Unwrap(err); inner != nil {
		// The outer error repeats the URL.
		err = inner
	}
	return response, err
}

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

// entityHandler takes the key from the path, or from the query: an empty one, "." and ".." are no
// parts of a path.
func entityHandler(d func() Daemon) http.Handler {
	return answered(entityTimeout, errEntityTimeout, http.StatusServiceUnavailable, func(_ http.ResponseWriter, r *http.Request) (any, error) {
		key, known := r.PathValue("key"), []string{"shard"}
		if key == "" {
			known = []string{"key", "shard"}
		}
		parameters, err := parametersOf(r.URL.Query(), known...)
		if err != nil {
			return nil, err
		}
		if key == "" {
			var named bool
			if key, named = parameters["key"]; !named {
				return nil, fmt.Errorf("%w: name the entity with ?key=", ErrBadQuery)
			}
		}
		return d().Entity(r.Context(), EntityQuery{Stream: r.PathValue("name"), Key: key, Shard: parameters["shard"]})
	})
}

func entitiesHandler(d func() Daemon) http.Handler {
	return answered(entityTimeout, errEntityTimeout, http.StatusServiceUnavailable, func(_ http.ResponseWriter, r *http.Request) (any, error) {
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
		return d().EntityPage(r.Context(), PageQuery{Stream: r.PathValue("name"), After: parameters["after"], Limit: limit})
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
