package httpapi_test

import (
	"errors"
	"fmt"
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

	"example.org/bridge/internal/config/configtest"
	"example.org/bridge/internal/httpapi"
	"example.org/bridge/internal/httpapi/httpapitest"
	"example.org/bridge/internal/shard"
	"example.org/bridge/internal/tap"
	"example.org/bridge/reconcile"
	"example.org/bridge/tests/must"
)

// short returns an answer for a recording: its status, and where it is long its ends.
func short(w *httptest.ResponseRecorder) string {
	body := strings.TrimSpace(w.Body.String())
	if len(body) > 500 {
		body = body[:150] + " … " + body[len(body)-150:]
	}
	return fmt.Sprintln(w.Code, body)
}

// TestRequests has daemons and what they are asked, with the answers, and what is asked of the
// daemon.
func TestRequests(t *testing.T) {
	refuses := func(err error) *httpapitest.Daemon { return &httpapitest.Daemon{Refuses: err} }
	daemons := map[string]*httpapitest.Daemon{
		"well": {}, "many": {Reasons: slices.Repeat([]httpapi.Reason{{Reason: "no such table"}}, 350)},
		"ill": {Dead: errors.New("a loop stands still"), Reasons: []httpapi.Reason{{Stream: "orders", Shard: "t_0", Reason: "no such table"}, {Reason: "bus is away"}}},
		"resent": {Resent: httpapi.ResentAll{
			Found: 1, States: map[shard.ResendState]int{shard.ResendPublished: 1}, DeadLetters: []httpapi.ResentDeadLetter{{Shard: "t", Row: 1<<64 - 1}},
		}},
		"unknown": refuses(httpapi.ErrNoStream), "cannot-reconcile": refuses(httpapi.ErrCannotReconcile), "cannot-pause": refuses(httpapi.ErrCannotPause),
		"cannot-resend": refuses(httpapi.ErrCannotResend), "no-entity": refuses(httpapi.ErrNoEntity), "not-served": refuses(httpapi.ErrNotServed),
		"away": refuses(errors.New("away")), "too-many": refuses(tap.ErrTooMany),
	}
	configtest.Recorded(t, "testdata/requests.txt", *httpapi.Update, func(t *testing.T, input []string) string {
		d := daemons[input[0]]
		d.Requests = nil
		method, path, _ := strings.Cut(input[1], " ")
		path, body, _ := strings.Cut(path, " ")
		path, query, _ := strings.Cut(path, "?")
		w, r := httptest.NewRecorder(), httpapitest.NewRequest(t, method, path, strings.NewReader(body))
		r.URL.RawQuery = query
		httpapitest.Checked(t, httpapitest.Pages(d)).ServeHTTP(w, r)
		return short(w) + asked(d)
	})
}

// asked returns what was asked of a daemon for a recording.
func asked(d *httpapitest.Daemon) string {
	if len(d.Requests) == 0 {
		return ""
	}
	return "asked for " + strings.Join(d.Requests, ", ") + "\n"
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
	rights := map[string]httpapi.Access{
		"none": {Setting: "X_TOKEN"}, "set": access(token, nil), "unreadable": access("", errors.New("X_TOKEN_FILE names no file")),
	}
	configtest.Recorded(t, "testdata/rights.txt", *httpapi.Update, func(t *testing.T, input []string) string {
		dry := &reconcile.Report{Result: reconcile.Result{DryRun: true}, Differences: []reconcile.Difference{{What: "deleted", Entity: "ada@shop.example"}}}
		d := &httpapitest.Daemon{State: httpapi.Status{Streams: []httpapi.StreamStatus{{
			Name: "people", State: "running", Shards: []shard.Status{{Shard: "people", State: "running", Reconcile: &reconcile.Status{LastDryRun: dry}}},
		}}}}
		method, path, _ := strings.Cut(input[1], " ")
		w, r := httptest.NewRecorder(), httpapitest.NewRequest(t, method, path, nil)
		must.Get(fmt.Sscanf(input[2], "from %s to %s", &r.RemoteAddr, &r.Host))(t)
		for _, header := range input[3:] {
			name, value, _ := strings.Cut(header, ": ")
			r.Header.Set(name, strings.Replace(value, "TOKEN", token, 1))
		}
		httpapitest.Checked(t, httpapi.Handler(d, prometheus.NewRegistry(), rights[input[0]])).ServeHTTP(w, r)
		said := short(w) + asked(d)
		if ask := w.Header().Get("WWW-Authenticate"); ask != "" {
			said += "asks for " + ask + "\n"
		}
		if strings.Contains(w.Body.String(), "ada@shop.example") {
			said += "shows an entity\n"
		}
		return said
	})
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
