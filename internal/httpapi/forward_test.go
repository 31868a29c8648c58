package httpapi_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"example.org/bridge/internal/httpapi"
	"example.org/bridge/internal/httpapi/httpapitest"
	"example.org/bridge/internal/shard"
	"example.org/bridge/reconcile"
	"example.org/bridge/tests/must"
)

// TestForwarding: a process that waits has the one that works answer, and takes no other one for
// it.
func TestForwarding(t *testing.T) {
	const path = "/api/v1/streams/orders/reconcile?dryRun=true"
	works := &httpapitest.Daemon{Peer: httpapi.Peer{Self: true, Member: "a"}, State: httpapi.Status{Delivery: "of a"}}
	at := httpapitest.Serve(t, works)
	waits := func(member, addr string) *httpapitest.Daemon {
		return &httpapitest.Daemon{Peer: httpapi.Peer{Member: member, Name: member + " on host", Addr: addr}, State: httpapi.Status{Delivery: "of one that waits"}}
	}
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) }))
	t.Cleanup(other.Close)
	closed := httptest.NewServer(nil)
	closed.Close()
	third := waits("a", at)
	for _, c := range []struct {
		name, method, path string
		daemon             *httpapitest.Daemon
		status             int
		body               string
	}{
		{"a request is forwarded", "POST", path, waits("a", at), 202, `"dryRun":true`},
		{"so is its refusal", "POST", "/api/v1/streams/orders/reconcile?dry=true", waits("a", at), 400, "unknown parameter"},
		{"the status is its own", "GET", "/api/v1/status", waits("a", at), 200, "of one that waits"},
		{"or that of the one that works", "GET", "/api/v1/status?working=true", waits("a", at), 200, `"of a"`},
		{"of the one that works it is its own either way", "GET", "/api/v1/status?working=true", works, 200, `"of a"`},
		{"the one that has the address by now is another member", "POST", path, waits("b", at), 502, "b on host works, and was not reached at " + at + ": another process answers there"},
		{"one that waits forwards no further", "POST", path, waits("a", httpapitest.Serve(t, third)), 502, "another process answers there"},
		{"another program has the address", "POST", path, waits("a", strings.TrimPrefix(other.URL, "http://")), 502, "another process answers there (status 202)"},
		{"nobody listens", "POST", path, waits("a", strings.TrimPrefix(closed.URL, "http://")), 502, "connection refused: run the command where it runs"},
		{"none works", "POST", path, &httpapitest.Daemon{NoneIsSeen: httpapi.ErrNoStream}, 503, `{"error":"no such stream"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := len(works.Requests)
			status, body := httpapitest.Request(t, c.daemon, c.method, c.path)
			if status != c.status || !strings.Contains(body, c.body) {
				t.Errorf("%d %s, want %d %s", status, body, c.status, c.body)
			}
			if n := len(works.Requests) - before; n > 0 != (c.status == http.StatusAccepted) {
				t.Errorf("the one that works was asked %d times", n)
			}
		})
	}
	if len(third.Requests) > 0 {
		t.Errorf("one that waits has done %v", third.Requests)
	}
	t.Run("the client reads what was answered", func(t *testing.T) {
		client := httpapi.Client{Addr: httpapitest.Serve(t, waits("b", at)), Setting: "HTTP"}
		if _, err := client.Working(t.Context()); err == nil || !strings.Contains(err.Error(), "b on host works, and was not reached") {
			t.Error(err)
		}
		if _, err := client.Reconcile(t.Context(), "orders", reconcile.Mode{}); err == nil || !strings.Contains(err.Error(), "b on host works, and was not reached") {
			t.Error(err)
		}
	})
}

// member is a process of a group that works, and keeps the headers of what reaches it.
type member struct {
	*httpapitest.Daemon
	pages http.Handler
	got   []http.Header
	at    string
}

// Status has a difference that a dry run has found.
func (m *member) Status() httpapi.Status {
	report := &reconcile.Report{Differences: []reconcile.Difference{{Entity: "secret"}}}
	return httpapi.Status{Started: time.Now(), Streams: []httpapi.StreamStatus{{
		Name: "orders", Shards: []shard.Status{{Shard: "orders", Reconcile: &reconcile.Status{LastDryRun: report}}},
	}}}
}

func newMember(t *testing.T, access httpapi.Access) *member {
	t.Helper()
	m := &member{Daemon: &httpapitest.Daemon{Peer: httpapi.Peer{Self: true, Member: "a"}}}
	m.pages = httpapi.Handler(m, prometheus.NewRegistry(), access)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.got = append(m.got, r.Header.Clone())
		m.pages.ServeHTTP(w, r)
	}))
	m.at = server.Listener.Addr().String()
	httpapitest.Listens(m.Daemon, m.at)
	server.Start()
	t.Cleanup(server.Close)
	return m
}

// beside returns the pages of another member of its group, which waits.
func (m *member) beside(access httpapi.Access) http.Handler {
	waits := &httpapitest.Daemon{Peer: httpapi.Peer{Member: "a", Name: "a on host", Addr: m.at}}
	return httpapi.Handler(waits, prometheus.NewRegistry(), access)
}

// request returns a request from an address with headers, each "name: value".
func request(t *testing.T, from, method, path string, headers ...string) *http.Request {
	t.Helper()
	r := httpapitest.NewRequest(t, method, path, nil)
	r.RemoteAddr = from
	for _, one := range headers {
		name, value, _ := strings.Cut(one, ": ")
		r.Header.Set(name, value)
	}
	return r
}

func served(h http.Handler, r *http.Request) (int, string) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

const (
	changePath  = "/api/v1/streams/orders/reconcile?dryRun=true"
	workingPath = "/api/v1/status?working=true"
	local       = "127.0.0.1:40000"
	remote      = "192.0.2.8:4711"
)

// TestACallerKeepsItsRights: two members are on one host. What a caller may do is decided by the
// one that is asked, and holds at the one that works. The token goes from none to the other.
func TestACallerKeepsItsRights(t *testing.T) {
	const bearer = "Authorization: Bearer " + token
	none, one := httpapi.Access{Setting: "X_TOKEN"}, httpapitest.Access
	for _, c := range []struct {
		name         string
		waits, works httpapi.Access
		from         string
		headers      []string
		change       int
		sees         bool
		words        string
	}{
		{"a caller on the host", one, one, local, nil, 202, true, ""},
		{"one elsewhere", one, one, remote, nil, 401, false, "another one"},
		{"one elsewhere that says it is on the host", one, one, remote, []string{"X-Forwarded-For: 127.0.0.1", "Forwarded: for=127.0.0.1"}, 401, false, ""},
		{"one elsewhere, with the token", one, one, remote, []string{bearer}, 202, true, ""},
		{"one elsewhere that makes up a proof", one, one, remote, []string{"Bridge-Proof: change.1.2.3.4"}, 401, false, ""},
		{"one behind a proxy on the host", one, one, local, []string{"X-Forwarded-For: 192.0.2.7"}, 401, false, ""},
		{"a page of another site", one, one, local, []string{"Origin: https://elsewhere.example"}, 403, false, ""},
		{"another token", access(token+"0", nil), one, local, nil, 502, false, "set X_TOKEN, the same for all processes"},
		{"no token", none, none, local, nil, 502, true, "it refuses this process (status 403): set X_TOKEN"},
		{"no token, from elsewhere", none, none, remote, nil, 403, true, "set X_TOKEN"},
		{"a token that only this one has", one, none, local, nil, 502, true, "status 403"},
		{"a token that only the other one has", none, one, local, nil, 502, false, "status 401"},
		{"a token that cannot be read", access("", io.ErrUnexpectedEOF), one, local, nil, 502, false, "unexpected EOF"},
	} {
		t.Run(c.name, func(t *testing.T) {
			works := newMember(t, c.works)
			waits := works.beside(c.waits)
			code, body := served(waits, request(t, c.from, "POST", changePath, c.headers...))
			if code != c.change || !strings.Contains(body, c.words) {
				t.Errorf("a change: %d %s, want %d %s", code, body, c.change, c.words)
			}
			if done := works.Asked(); len(done) > 0 != (code == 202) {
				t.Errorf("was done: %v", done)
			}
			code, body = served(waits, request(t, c.from, "GET", workingPath, c.headers...))
			if sees := strings.Contains(body, "secret"); sees != c.sees || code != 200 && sees {
				t.Errorf("the status: %d %s, want that it shows an entity: %t", code, body, c.sees)
			}
			for _, header := range works.got {
				if text := fmt.Sprint(header); strings.Contains(text, token) || header.Get("Via") == "" {
					t.Errorf("was sent: %s", text)
				}
			}
		})
	}
}

// hash is the keyed hash of a proof, as docs/decisions/027-who-may-ask.md has it.
func hash(key, claim, method, target, member, addr string) string {
	h := hmac.New(sha256.New, []byte(key))
	fmt.Fprintf(h, `["bridge proof 1" %q %q %q %q %q]`, claim, method, target, member, addr)
	return fmt.Sprintf("%x", h.Sum(nil))
}

// TestProofs sends proofs to the process that works as another host may that has seen one.
func TestProofs(t *testing.T) {
	works := newMember(t, httpapitest.Access)
	// signed is what a proof is for.
	type signed struct{ may, method, path, body, member, addr string }
	now, number := time.Now(), 0
	prove := func(of *signed, at time.Time) string {
		number++
		claim := fmt.Sprintf("%s.%d.%d.%x", of.may, at.Unix(), number, sha256.Sum256([]byte(of.body)))
		return claim + "." + hash(token, claim, of.method, of.path, of.member, of.addr)
	}
	send := func(proof string, to *signed) (int, string) {
		r := httptest.NewRequestWithContext(t.Context(), to.method, to.path, strings.NewReader(to.body))
		r.RemoteAddr, r.Host = local, works.at
		r.Header.Set("Bridge-Member", "a")
		r.Header.Set("Bridge-Proof", proof)
		return served(works.pages, r)
	}
	change := signed{"change", "POST", changePath, "", "a", works.at}
	dead := change
	dead.path, dead.body = "/api/v1/streams/orders/resend", `{"shard":"orders"}`
	const other = "not for this request"
	for name, c := range map[string]struct {
		sent   signed
		proved func(*signed)
		status int
		words  string
	}{
		"is accepted":                               {change, func(*signed) {}, 202, ""},
		"for its body":                              {dead, func(*signed) {}, 400, "1 to "},
		"for another body":                          {dead, func(p *signed) { p.body += " " }, 401, other},
		"for other parameters":                      {change, func(p *signed) { p.path = "/api/v1/streams/orders/reconcile" }, 401, other},
		"for another stream":                        {change, func(p *signed) { p.path = strings.Replace(changePath, "orders", "others", 1) }, 401, other},
		"for another method":                        {change, func(p *signed) { p.method = "GET" }, 401, other},
		"for another member":                        {change, func(p *signed) { p.member = "b" }, 401, other},
		"for another address, to which it was sent": {change, func(p *signed) { p.addr = "192.0.2.66:8080" }, 401, "for another address"},
		"of a caller that may read":                 {change, func(p *signed) { p.may = "read" }, 401, "another one"},
		"that names no right":                       {change, func(p *signed) { p.may = "" }, 401, "another one"},
	} {
		of := c.sent
		c.proved(&of)
		proof := prove(&of, now)
		if code, got := send(proof, &c.sent); code != c.status || !strings.Contains(got, c.words) {
			t.Errorf("%s: %d %s, want %d %s", name, code, got, c.status, c.words)
		}
		if code, got := send(proof, &c.sent); c.status == 202 && (code != 401 || !strings.Contains(got, "used before")) {
			t.Errorf("%s, once more: %d %s", name, code, got)
		}
	}
	for ago, want := range map[time.Duration]int{50 * time.Second: 202, -50 * time.Second: 202, 2 * time.Minute: 401, -2 * time.Minute: 401} {
		if code, got := send(prove(&change, now.Add(-ago)), &change); code != want || code == 401 && !strings.Contains(got, "the clocks of the two hosts differ by ") {
			t.Errorf("by a clock that is %s behind: %d %s, want %d", ago, code, got, want)
		}
	}
	for _, proof := range []string{"change", "." + hash(token, "", "POST", changePath, "a", works.at)} {
		if code, got := send(proof, &change); code != 401 || !strings.Contains(got, other) {
			t.Errorf("%s: %d %s", proof, code, got)
		}
	}
	for may, want := range map[string]bool{"read": true, "change": true, "": false} {
		of := signed{may, "GET", workingPath, "", "a", works.at}
		if code, got := send(prove(&of, now), &of); code != 200 || strings.Contains(got, "secret") != want {
			t.Errorf("the status with %q: %d %s, want that it shows an entity: %t", may, code, got, want)
		}
	}
}

// TestAProofBehindAClockThatIsSetBack is known as used when the clock comes to its time once more.
func TestAProofBehindAClockThatIsSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		use, made := httpapi.NewProofs(), time.Now().Add(time.Hour)
		must.OK(t, use("before it was set back", made))
		time.Sleep(30 * time.Minute)
		must.OK(t, use("another", time.Now()))
		time.Sleep(30 * time.Minute)
		if err := use("before it was set back", made); err == nil {
			t.Error("it is accepted once more")
		}
	})
}

// TestMembersOfTwoVersions: an earlier version sends the token in place of a proof.
func TestMembersOfTwoVersions(t *testing.T) {
	works := newMember(t, httpapitest.Access)
	for _, c := range []struct {
		name    string
		headers []string
		status  int
	}{
		{"the token of a caller that may change", []string{"Authorization: Bearer " + token}, 202},
		{"another token", []string{"Authorization: Bearer " + token + "0"}, 401},
		{"no token", nil, 401},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := request(t, local, "POST", changePath, append(slices.Clone(c.headers), "Bridge-Member: a")...)
			if code, body := served(works.pages, r); code != c.status {
				t.Errorf("%d %s, want %d", code, body, c.status)
			}
			r = request(t, local, "GET", workingPath, append(slices.Clone(c.headers), "Bridge-Member: a")...)
			if code, body := served(works.pages, r); code != 200 || strings.Contains(body, "secret") != (c.status == 202) {
				t.Errorf("the status: %d %s", code, body)
			}
		})
	}
	t.Run("for another member", func(t *testing.T) {
		if code, body := served(works.pages, request(t, local, "POST", changePath, "Bridge-Member: b")); code != 421 {
			t.Errorf("%d %s", code, body)
		}
	})
}
