package httpapi_test

import (
	"errors"
	"html"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"example.org/bridge/internal/httpapi"
	"example.org/bridge/internal/httpapi/httpapitest"
	"example.org/bridge/internal/shard"
	"example.org/bridge/internal/tap"
	"example.org/bridge/reconcile"
	"example.org/bridge/tests/must"
)

// TestRequests has what each request is answered, and what the daemon is asked for.
func TestRequests(t *testing.T) {
	const streams, entities, keyed = "/api/v1/streams/orders/", "/api/v1/streams/orders/entities", "/api/v1/streams/orders/entity"
	well := &httpapitest.Daemon{}
	ill := &httpapitest.Daemon{Dead: errors.New("a loop stands still"), Reasons: []httpapi.Reason{{Stream: "orders", Shard: "t_0", Reason: "no such table"}, {Reason: "bus is away"}}}
	many := &httpapitest.Daemon{Reasons: slices.Repeat([]httpapi.Reason{{Reason: "no such table"}}, 350)}
	refuses := func(err error) *httpapitest.Daemon { return &httpapitest.Daemon{Refuses: err} }
	unknown := refuses(httpapi.ErrNoStream)
	resent := &httpapitest.Daemon{Resent: httpapi.ResentAll{
		Found: 1, States: map[shard.ResendState]int{shard.ResendPublished: 1}, DeadLetters: []httpapi.ResentDeadLetter{{Shard: "t", Row: 1<<64 - 1}},
	}}
	for _, c := range []struct {
		name, request string
		daemon        *httpapitest.Daemon
		status        int
		body, asked   string
	}{
		{"lives", "GET /livez", well, 200, `{"status":"live","reasons":[]}`, ""},
		{"does not live", "GET /livez", ill, 503, `{"status":"not live","reasons":[{"reason":"a loop stands still"}]}`, ""},
		{"is ready", "GET /readyz", well, 200, `{"status":"ready","reasons":[]}`, ""},
		{"is not ready", "GET /readyz", ill, 503, `{"stream":"orders","shard":"t_0","reason":"no such table"},{"reason":"bus is away"}]}`, ""},
		{"has no end of reasons", "GET /readyz", many, 503, `{"reason":"250 more reasons, which /api/v1/status has"}]}`, ""},
		{"has metrics", "GET /metrics", well, 200, "bridge_test_total 0", ""},
		{"takes HEAD", "HEAD /readyz", well, 200, "", ""},
		{"takes no POST", "POST /livez", well, 405, "", ""},
		{"takes no DELETE", "DELETE /api/v1/status", well, 405, "", ""},
		{"has a page", "GET /", well, 200, "<title>bridge</title>", ""},
		{"has it at that path alone", "GET /index.html", well, 404, "", ""},
		{"has nothing behind a path", "GET /livez/x", well, 404, "", ""},
		{"reconciles", "POST " + streams + "reconcile", well, 202, `"dryRun":false,"allowDeletes":false`, "orders/{DryRun:false AllowDeletes:false}"},
		{"reconciles dry", "POST " + streams + "reconcile?dryRun=1&allowDeletes=true", well, 202,
			`{"stream":"orders","shards":1,"dryRun":true,"allowDeletes":true,"started":"0001-01-01T00:00:00Z"}`, "orders/{DryRun:true AllowDeletes:true}"},
		{"takes that by POST alone", "GET " + streams + "reconcile", well, 405, "", ""},
		{"knows the parameters", "POST " + streams + "reconcile?dryrun=true", well, 400, `unknown parameter \"dryrun\"`, ""},
		{"judges the parameters", "POST " + streams + "reconcile?allowDeletes=please", well, 400, "must be true or false", ""},
		{"needs a value", "POST " + streams + "reconcile?dryRun", well, 400, "must be true or false", ""},
		{"takes a parameter once", "POST " + streams + "reconcile?dryRun=true&dryRun=false", well, 400, "more than once", ""},
		// What is dropped of such a query might have been dryRun=true.
		{"drops nothing of a query", "POST " + streams + "reconcile?dryRun=true;", well, 400, "", ""},
		{"drops no body", "POST " + streams + `reconcile {"dryRun":true}`, well, 400, "?dryRun=true", ""},
		{"drops no form", "POST " + streams + "resend-all dryRun=true", resent, 400, "?dryRun=true", ""},
		{"drops no table", "POST " + streams + `pause {"table":"t_0"}`, well, 400, "?table=t", ""},
		{"drops no table of those that go on", "POST " + streams + `resume {"table":"t_0"}`, well, 400, "?table=t", ""},
		{"takes a body that says nothing", "POST " + streams + "pause {}", well, 200, "", "{Stream:orders Table: Resume:false}"},
		{"drops no escape", "POST " + streams + "reconcile?dryRun=%zz", well, 400, "", ""},
		{"knows the streams", "POST /api/v1/streams/order/reconcile", unknown, 404, `{"error":"no such stream"}`, "order/{DryRun:false AllowDeletes:false}"},
		{"says why it cannot", "POST " + streams + "reconcile", refuses(httpapi.ErrCannotReconcile), 409, `{"error":"cannot be reconciled now"}`,
			"orders/{DryRun:false AllowDeletes:false}"},
		{"pauses", "POST " + streams + "pause", well, 200, `{"stream":"orders","shards":1,"publishing":0,"pausedAt":null,"notOnBus":null}`, "{Stream:orders Table: Resume:false}"},
		{"resumes a table", "POST " + streams + "resume?table=t_0", well, 200, "", "{Stream:orders Table:t_0 Resume:true}"},
		{"publishes nothing that it was not told", "POST " + streams + "republish?from=1", well, 400, "there are no parameters", ""},
		{"publishes again by POST alone", "GET " + streams + "republish", well, 405, "", ""},
		{"needs its name", "POST " + streams + "pause?table=", well, 400, "leave it out", ""},
		{"knows the parameters of a pause", "POST " + streams + "pause?tables=t", well, 400, `unknown parameter \"tables\"`, ""},
		{"pauses by POST alone", "GET " + streams + "pause", well, 405, "", ""},
		{"says why it cannot pause", "POST " + streams + "pause", refuses(httpapi.ErrCannotPause), 409, "", "{Stream:orders Table: Resume:false}"},
		{"sends all again, dry", "POST " + streams + "resend-all?dryRun=true", resent, 200,
			`{"found":1,"more":false,"fates":{"published":1},"letters":[{"shard":"t","row":18446744073709551615,`, "orders/resend-all/true"},
		{"sends all again", "POST " + streams + "resend-all", resent, 200, "", "orders/resend-all/false"},
		{"allows no deletes there", "POST " + streams + "resend-all?allowDeletes=true", resent, 400, "", ""},
		{"knows the streams there", "POST " + streams + "resend-all", unknown, 404, "", "orders/resend-all/false"},
		{"says why not there", "POST " + streams + "resend-all", refuses(httpapi.ErrCannotResend), 409, "", "orders/resend-all/false"},
		{"resends by POST alone", "GET " + streams + "resend-all", well, 405, "", ""},
		{"resends a list by POST alone", "GET " + streams + "resend", well, 405, "", ""},
		{"shows an entity", "GET " + entities + "/eu%2B17", well, 200, `{"key":"eu+17"`, "{Stream:orders Key:eu+17 Shard:}"},
		{"shows one of a table", "GET " + entities + "/17?shard=t_0", well, 200, `{"key":"17"`, "{Stream:orders Key:17 Shard:t_0}"},
		{"takes a slash and an escape in a key", "GET " + entities + "/a%2Fb%252Bc", well, 200, `{"key":"a/b%2Bc"`, "{Stream:orders Key:a/b%2Bc Shard:}"},
		{"takes an empty key", "GET " + keyed + "?key=", well, 200, `{"key":""`, "{Stream:orders Key: Shard:}"},
		{"takes a key that a path cannot have", "GET " + keyed + "?key=..&shard=t_0", well, 200, `{"key":".."`, "{Stream:orders Key:.. Shard:t_0}"},
		{"needs a key", "GET " + keyed, well, 400, "?key=", ""},
		{"does not know the entity", "GET " + entities + "/17", refuses(httpapi.ErrNoEntity), 404, "no such entity", "{Stream:orders Key:17 Shard:}"},
		{"does not serve the stream", "GET " + entities + "/17", refuses(httpapi.ErrNotServed), 404, "not served", "{Stream:orders Key:17 Shard:}"},
		{"waits for the source", "GET " + entities + "/17", refuses(errors.New("away")), 503, "away", "{Stream:orders Key:17 Shard:}"},
		{"knows the parameters of entities", "GET " + entities + "/17?table=t_0", well, 400, `unknown parameter \"table\"`, ""},
		{"shows a page", "GET " + entities, well, 200, `{"entities":[],"next":"further"}`, "{Stream:orders After: Limit:100}"},
		{"shows a further page", "GET " + entities + "?after=t_0%2F17&limit=5", well, 200, `"entities"`, "{Stream:orders After:t_0/17 Limit:5}"},
		{"bounds a page", "GET " + entities + "?limit=1001", well, 400, "limit must be 1 to 1000", ""},
		{"shows at least one", "GET " + entities + "?limit=0", well, 400, "limit must be 1 to 1000", ""},
		{"bounds the tables of a status", "GET /api/v1/status?limit=-1", well, 400, "limit must be 0 to", ""},
		{"bounds their offset", "GET /api/v1/status?offset=1000001", well, 400, "offset must be", ""},
		{"knows the states", "GET /api/v1/status?state=bad", well, 400, "state must be one of stopped, degraded", ""},
		{"knows the parameters of a status", "GET /api/v1/status?limt=1", well, 400, `unknown parameter \"limt\"`, ""},
		{"knows the parameters of a tail", "GET /api/v1/tail?streams=orders", well, 400, "", ""},
		{"knows the streams of a tail", "GET /api/v1/tail?stream=x", unknown, 404, "", ""},
		{"bounds those who listen", "GET /api/v1/tail", refuses(tap.ErrTooMany), 503, "8 listen already", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.daemon.Requests = nil
			method, path, _ := strings.Cut(c.request, " ")
			path, body, _ := strings.Cut(path, " ")
			path, query, _ := strings.Cut(path, "?")
			w, r := httptest.NewRecorder(), httpapitest.NewRequest(t, method, path, strings.NewReader(body))
			r.URL.RawQuery = query
			httpapitest.Checked(t, httpapitest.Pages(c.daemon)).ServeHTTP(w, r)
			if w.Code != c.status || !strings.Contains(w.Body.String(), c.body) {
				t.Errorf("%d %s, want %d %s", w.Code, w.Body, c.status, c.body)
			}
			if got := strings.Join(c.daemon.Requests, ", "); got != c.asked {
				t.Errorf("asked for %q, want %q", got, c.asked)
			}
		})
	}
}

func TestThePortIsTaken(t *testing.T) {
	addr, _ := serve(t, &httpapitest.Daemon{}, httpapi.Access{}, io.Discard)
	_, err := httpapi.Open(t.Context(), httpapi.Options{
		Addr: addr, Daemon: func() httpapi.Daemon { return &httpapitest.Daemon{} }, Metrics: prometheus.NewRegistry(), Logger: slog.New(slog.DiscardHandler),
	})
	if !errors.Is(err, httpapi.ErrPortTaken) || !strings.Contains(err.Error(), "another process has the port") {
		t.Errorf("error %v", err)
	}
}

const token = httpapitest.Token

func access(text string, err error) httpapi.Access {
	return httpapi.Access{Token: func() (string, error) { return text, err }, Setting: "X_TOKEN"}
}

// TestWhoMayDoWhat: a change needs a caller on loopback or the token, rows that are served and the
// entities that a dry run has found do where there is a token, and all else is open.
func TestWhoMayDoWhat(t *testing.T) {
	const remote, own = "192.0.2.7:4711", "127.0.0.1:4711"
	none, set := httpapi.Access{Setting: "X_TOKEN"}, access(token, nil)
	unreadable := access("", errors.New("X_TOKEN_FILE names no file"))
	const change, rows, status = "POST /api/v1/streams/orders/reconcile", "GET /api/v1/streams/orders/entities", "GET /api/v1/status"
	for _, c := range []struct {
		name, request string
		access        httpapi.Access
		from, host    string
		headers       string
		status        int
		words         string
	}{
		{"a change on loopback", change, none, own, "127.0.0.1:8080", "", 202, ""},
		{"by IPv6", change, none, "[::1]:4711", "[::1]:8080", "", 202, ""},
		{"on loopback, with a token set", change, set, own, "127.0.0.1:8080", "", 202, ""},
		{"from another host", change, none, remote, "bridge:8080", "", 403, "set X_TOKEN for this bridge"},
		{"from another host that says it is this one", change, none, remote, "127.0.0.1:8080", "X-Forwarded-For: 127.0.0.1", 403, "set X_TOKEN"},
		{"with the token", change, set, remote, "bridge:8080", "Authorization: Bearer " + token, 202, ""},
		{"with the token, however the scheme is spelt", change, set, remote, "bridge:8080", "Authorization: bearer " + token, 202, ""},
		{"with another token", change, set, remote, "bridge:8080", "Authorization: Bearer " + token + "0", 401, "another one"},
		{"by another scheme", change, set, remote, "bridge:8080", "Authorization: Basic " + token, 401, "another one"},
		{"without the token", change, set, remote, "bridge:8080", "", 401, "send that of X_TOKEN"},
		{"with a token that cannot be read", change, unreadable, remote, "bridge:8080", "Authorization: Bearer ", 503, "X_TOKEN_FILE names no file"},
		{"by a name that a page has given to loopback", change, none, own, "evil.example:8080", "", 403, "ask 127.0.0.1 directly"},
		{"through a proxy on loopback", change, set, own, "127.0.0.1:8080", "X-Forwarded-For: 192.0.2.7", 401, "another one"},
		{"through a sidecar", change, none, "127.0.0.6:4711", "127.0.0.1:8080", "X-Envoy-Attempt-Count: 1", 403, ""},
		{"rows without a token set", rows, none, remote, "bridge:8080", "", 200, ""},
		{"rows with a token set", rows, set, remote, "bridge:8080", "", 401, "another one"},
		{"rows with the token", rows, set, remote, "bridge:8080", "Authorization: Bearer " + token, 200, ""},
		{"rows on loopback", rows, set, own, "127.0.0.1:8080", "", 200, ""},
		{"rows by a name that a page has given to loopback", rows, none, own, "evil.example:8080", "", 403, "ask 127.0.0.1 directly"},
		{"rows for a page of another site", rows, set, own, "127.0.0.1:8080", "Origin: https://evil.example", 401, ""},
		{"rows for a page of this bridge", rows, set, own, "127.0.0.1:8080", "Origin: http://127.0.0.1:8080", 200, ""},
		{"the status", status, set, remote, "bridge:8080", "", 200, ""},
		{"the status with its entities, on loopback", status, set, own, "127.0.0.1:8080", "", 200, "ada@shop.example"},
		{"that with the token", status, set, remote, "bridge:8080", "Authorization: Bearer " + token, 200, "ada@shop.example"},
		{"that without a token set", status, none, remote, "bridge:8080", "", 200, "ada@shop.example"},
		{"that by a name that a page has given to loopback", status, none, own, "evil.example:8080", "", 403, "ask 127.0.0.1 directly"},
		{"that through a proxy on loopback", status, none, own, "bridge.example:8080", "X-Forwarded-For: 192.0.2.7", 200, ""},
		{"the metrics", "GET /metrics", set, remote, "bridge:8080", "", 200, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			dry := &reconcile.Report{Result: reconcile.Result{DryRun: true}, Differences: []reconcile.Difference{{What: "deleted", Entity: "ada@shop.example"}}}
			d := &httpapitest.Daemon{State: httpapi.Status{Streams: []httpapi.StreamStatus{{
				Name: "people", State: "running", Shards: []shard.Status{{Shard: "people", State: "running", Reconcile: &reconcile.Status{LastDryRun: dry}}},
			}}}}
			method, path, _ := strings.Cut(c.request, " ")
			w, r := httptest.NewRecorder(), httpapitest.NewRequest(t, method, path, nil)
			r.RemoteAddr, r.Host = c.from, c.host
			if name, value, ok := strings.Cut(c.headers, ": "); ok {
				r.Header.Set(name, value)
			}
			httpapitest.Checked(t, httpapi.Handler(d, prometheus.NewRegistry(), c.access)).ServeHTTP(w, r)
			if w.Code != c.status || !strings.Contains(w.Body.String(), c.words) || strings.Contains(w.Body.String(), token) {
				t.Errorf("%d %s, want %d %s", w.Code, w.Body, c.status, c.words)
			}
			if c.words == "" && strings.Contains(w.Body.String(), "ada@") {
				t.Errorf("it shows an entity: %s", w.Body)
			}
			if asked := len(d.Requests) > 0; asked && w.Code >= 400 {
				t.Errorf("was done: %v", d.Requests)
			}
			if got := w.Header().Get("WWW-Authenticate"); (got != "") != (w.Code == 401) {
				t.Errorf("WWW-Authenticate %q with %d", got, w.Code)
			}
		})
	}
}

// TestTheDomainOfTheAddress is of this host: commands there ask by it, over loopback.
func TestTheDomainOfTheAddress(t *testing.T) {
	for host, want := range map[string]int{"host.example:8080": 200, "evil.example:8080": 403} {
		w, r := httptest.NewRecorder(), httpapitest.NewRequest(t, "GET", "/api/v1/status", nil)
		r.RemoteAddr, r.Host = "127.0.0.1:4711", host
		httpapi.HandlerAt("host.example:8080", &httpapitest.Daemon{}).ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("the status by %s: %d, want %d", host, w.Code, want)
		}
	}
}

// TestSlowReadersAreFew: with more of them than may be, others are refused, and they go on once
// one has ended.
func TestSlowReadersAreFew(t *testing.T) {
	handler := httpapi.Handler(&httpapitest.Daemon{}, prometheus.NewRegistry(), httpapi.Access{})
	begun, end := make(chan struct{}), make(chan struct{})
	done := make(chan struct{})
	for range httpapi.StatusAnswers {
		go func() {
			handler.ServeHTTP(&slowReader{httptest.NewRecorder(), begun, end}, httpapitest.NewRequest(t, "GET", "/api/v1/status", nil))
			done <- struct{}{}
		}()
		<-begun
	}
	ask := func() int {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httpapitest.NewRequest(t, "GET", "/api/v1/status", nil))
		return w.Code
	}
	if code := ask(); code != http.StatusServiceUnavailable {
		t.Errorf("one more: %d", code)
	}
	close(end)
	for range httpapi.StatusAnswers {
		<-done
	}
	if code := ask(); code != http.StatusOK {
		t.Errorf("after them: %d", code)
	}
}

// slowReader takes the first bytes once end is closed.
type slowReader struct {
	*httptest.ResponseRecorder
	begun chan<- struct{}
	end   <-chan struct{}
}

func (s *slowReader) WriteHeader(code int) {
	s.begun <- struct{}{}
	<-s.end
	s.ResponseRecorder.WriteHeader(code)
}

// TestPageLoadsItsOwnFiles and nothing else: index.html names style and first script, each script
// those that it imports, and the policy lets in nothing but what bridge serves.
func TestPageLoadsItsOwnFiles(t *testing.T) {
	pages := httpapi.Handler(&httpapitest.Daemon{}, prometheus.NewRegistry(), httpapi.Access{})
	get := func(path, tag string) *httptest.ResponseRecorder {
		w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), "GET", path, nil)
		if tag != "" {
			r.Header.Set("If-None-Match", tag)
		}
		pages.ServeHTTP(w, r)
		return w
	}
	named := regexp.MustCompile(`(?:href="|src="|from '\./)((?:/page/)?[a-z]+\.(?:css|js))["']`)
	seen, size := []string{"/"}, 0
	for i := 0; i < len(seen); i++ {
		path := seen[i]
		w := get(path, "")
		kind := map[string]string{"": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8"}[filepath.Ext(path)]
		policy, body := w.Header().Get("Content-Security-Policy"), w.Body.String()
		if w.Code != 200 || w.Header().Get("Content-Type") != kind || w.Header().Get("Cache-Control") != "no-cache" || w.Header().Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %d %v", path, w.Code, w.Header())
		}
		if !strings.HasPrefix(policy, "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; ") || strings.Contains(policy, "unsafe") {
			t.Errorf("%s: the policy is %s", path, policy)
		}
		if again := get(path, w.Header().Get("ETag")); again.Code != 304 || again.Body.Len() > 0 {
			t.Errorf("%s: a browser that has it gets %d with %d bytes", path, again.Code, again.Body.Len())
		}
		for _, no := range []string{"innerHTML", "insertAdjacent", "document.write", "eval(", "http://", "https://", " style=", "onclick", "<style", "<script>"} {
			if strings.Contains(strings.ReplaceAll(body, "'http://www.w3.org/2000/svg'", ""), no) {
				t.Errorf("%s has %s", path, no)
			}
		}
		for _, one := range named.FindAllStringSubmatch(body, -1) {
			if next := "/page/" + strings.TrimPrefix(one[1], "/page/"); !slices.Contains(seen, next) {
				seen = append(seen, next)
			}
		}
		size += len(body)
	}
	if len(seen) != 7 || size > 60<<10 {
		t.Errorf("the page loads %v, %d bytes", seen, size)
	}
	for _, path := range []string{"/page/", "/page/none.js", "/page/../server.go", "/docs/", "/docs/none.md", "/docs/decisions/", "/docs/doc.go"} {
		if w := get(path, ""); w.Code == 200 {
			t.Errorf("%s is served", path)
		}
	}
}

// TestDocumentsLinkWhatIsServed follows each link from the runbook on.
func TestDocumentsLinkWhatIsServed(t *testing.T) {
	pages := httpapi.Handler(&httpapitest.Daemon{}, prometheus.NewRegistry(), httpapi.Access{})
	bodies := map[string]string{}
	href, links := regexp.MustCompile(`(?:href|src)="([^"]*)"`), 0
	for next := []string{"/docs/operations.md"}; len(next) > 0; next = next[1:] {
		from := next[0]
		if _, seen := bodies[from]; seen {
			continue
		}
		w := httptest.NewRecorder()
		pages.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", from, nil))
		bodies[from] = w.Body.String()
		if w.Code != 200 {
			t.Errorf("%s: %d", from, w.Code)
		}
		if !strings.HasSuffix(from, ".md") {
			continue
		}
		base := &url.URL{Path: from}
		for _, one := range href.FindAllStringSubmatch(bodies[from], -1) {
			to, err := base.Parse(html.UnescapeString(one[1]))
			if err != nil {
				t.Fatalf("%s links %s: %v", from, one[1], err)
			}
			if to.Scheme == "" {
				next, links = append(next, to.Path), links+1
			}
		}
	}
	if _, linked := bodies["/docs/decisions/022-standby.md"]; !linked || links < 100 {
		t.Errorf("%d links, to %v", links, slices.Sorted(maps.Keys(bodies)))
	}
	for from, body := range bodies {
		for _, one := range href.FindAllStringSubmatch(body, -1) {
			to, err := (&url.URL{Path: from}).Parse(html.UnescapeString(one[1]))
			if err == nil && to.Scheme == "" && to.Fragment != "" && !strings.Contains(bodies[to.Path], `id="`+to.Fragment+`"`) {
				t.Errorf("%s links %s, which has no such heading", from, one[1])
			}
		}
	}
}

// TestRunbookHasTheHeadings that the page links.
func TestRunbookHasTheHeadings(t *testing.T) {
	parts := must.Get(os.ReadFile("page/parts.js"))(t)
	page := must.Get(os.ReadFile("page/page.js"))(t)
	code, runbook := httpapitest.Request(t, &httpapitest.Daemon{}, "GET", "/docs/operations.md")
	headings := regexp.MustCompile(`<h3 id="([^"]+)">([^<]+)</h3>`).FindAllStringSubmatch(runbook, -1)
	linked := 0
	for _, one := range regexp.MustCompile(`'([A-Z][a-z]+(?: [a-z]+){1,5})'`).FindAllStringSubmatch(string(parts)+regexp.MustCompile(`(?s)const answers.*?filter`).FindString(string(page)), -1) {
		name := one[1]
		if name == "Progress on the bus" || strings.HasPrefix(name, "Nothing") {
			continue
		}
		linked++
		if want := strings.ReplaceAll(strings.ToLower(name), " ", "-"); !slices.ContainsFunc(headings, func(h []string) bool { return h[1] == want && h[2] == name }) && name != "What you see" {
			t.Errorf("the runbook has no heading %q", name)
		}
	}
	if code != 200 || linked < 8 {
		t.Errorf("%d, %d links", code, linked)
	}
}
