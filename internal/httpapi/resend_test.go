package httpapi_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"example.org/bridge/internal/httpapi"
	"example.org/bridge/internal/httpapi/httpapitest"
	"example.org/bridge/internal/shard"
)

// post sends a body to be resent and returns the answer.
func post(t *testing.T, d httpapi.Daemon, path, body, origin string) (status int, text string) {
	w, r := httptest.NewRecorder(), httpapitest.NewRequest(t, "POST", path, strings.NewReader(body))
	if origin != "" {
		r.Header.Set("Origin", origin)
	}
	httpapitest.Checked(t, httpapi.Handler(d, prometheus.NewRegistry(), httpapitest.Access)).ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

func TestRequestsToResend(t *testing.T) {
	const path = "/api/v1/streams/orders/resend"
	const refused = `{"row":17,"event":"6f1e7f9e-9d8a-5b7c-8d6e-0f1a2b3c4d5e"}`
	body := func(list ...string) string {
		return `{"shard":"t_0","dryRun":true,"letters":[` + strings.Join(list, ",") + `]}`
	}
	for _, c := range []struct {
		name, path, body, origin string
		refuses                  error
		status                   int
		words                    string
	}{
		{"is taken", path, body(refused, refused), "", nil, 200, `{"letters":[{"fate":"","event":"","type":"","why":""},{`},
		{"knows the streams", path, body(refused), "", httpapi.ErrNoStream, 404, "no such stream"},
		{"says why it cannot", path, body(refused), "", httpapi.ErrCannotResend, 409, "cannot send dead letters again now"},
		{"says when it takes too long", path, body(refused), "", httpapi.ErrResendTimeout, 504, "not done within"},
		{"has no parameters", path + "?dryRun=true", body(refused), "", nil, 400, "there are no parameters"},
		{"needs letters", path, body(), "", nil, 400, "1 to 100 dead letters"},
		{"but not too many", path, body(strings.Split(strings.Repeat(refused+";", 100)+refused, ";")...), "", nil, 400, "1 to 100 dead letters"},
		{"needs a table", path, `{"letters":[` + refused + `]}`, "", nil, 400, "needs a shard"},
		{"knows the members", path, `{"shard":"t_0","dry":true,"letters":[` + refused + `]}`, "", nil, 400, `unknown field`},
		{"needs an event each", path, body(refused, `{"row":17,"event":"17"}`), "", nil, 400, "dead letter 2 has no event"},
		{"needs an event each that is one", path, body(`{"row":17}`), "", nil, 400, "dead letter 1 has no event"},
		{"is bounded", path, body(`{"type":"` + strings.Repeat("x", httpapi.MaxResendBytes) + `"}`), "", nil, 413, "send fewer dead letters"},
		{"needs a body", path, "", "", nil, 400, "read the body"},
		{"has a list of letters", path, `{"shard":"t_0","letters":{"row":17}}`, "", nil, 400, "letters must be a list"},
		{"ends behind the object", path, body(refused) + `{"dryRun":false}`, "", nil, 400, "something follows"},
		{"does not come from a page of another origin", path, body(refused), "https://elsewhere.example", nil, 403, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			works := &httpapitest.Daemon{Refuses: c.refuses, Peer: httpapi.Peer{Self: true, Member: "a"}}
			waits := &httpapitest.Daemon{Peer: httpapi.Peer{Member: "a", Addr: httpapitest.Serve(t, works)}}
			if status, text := post(t, waits, c.path, c.body, c.origin); status != c.status || !strings.Contains(text, c.words) {
				t.Errorf("by way of a process that waits: %d %s, want %d with %s", status, text, c.status, c.words)
			}
			d := &httpapitest.Daemon{Refuses: c.refuses}
			status, text := post(t, d, c.path, c.body, c.origin)
			if status != c.status || !strings.Contains(text, c.words) {
				t.Errorf("%d %s, want %d with %s", status, text, c.status, c.words)
			}
			if (status == 200 || c.refuses != nil) != (len(d.Requests) == 1) {
				t.Errorf("asked for %v", d.Requests)
			}
		})
	}
}

func TestALongListTakesLittleMemory(t *testing.T) {
	text := `{"shard":"t_0","letters":[` + strings.Repeat("{},", httpapi.MaxResendBytes/4) + `{}]}`
	result := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			r := httptest.NewRequest("POST", "/", strings.NewReader(text))
			if _, err := httpapi.ResendRequestOf(httptest.NewRecorder(), r); err == nil || !strings.Contains(err.Error(), "1 to 100 dead letters") {
				b.Fatal(err)
			}
		}
	})
	if result.N == 0 || result.AllocedBytesPerOp() > 8*httpapi.MaxResendBytes {
		t.Errorf("a body of %d bytes takes %d bytes", len(text), result.AllocedBytesPerOp())
	}
}

func TestResendByTheRunningBridge(t *testing.T) {
	d := &httpapitest.Daemon{Refuses: errors.New("t_0 is stopped")}
	b := &httpapi.Client{Addr: httpapitest.Serve(t, d)}
	ask := httpapi.ResendRequest{Stream: "orders", Shard: "t_0", DryRun: true, DeadLetters: []shard.DeadLetter{{Row: 1, Event: "6f1e7f9e-9d8a-5b7c-8d6e-0f1a2b3c4d5e"}}}
	if _, err := b.Resend(t.Context(), ask); err == nil || err.Error() != "t_0 is stopped" {
		t.Errorf("%v", err)
	}
	d.Refuses = nil
	if outcomes, err := b.Resend(t.Context(), ask); err != nil || len(outcomes) != 1 || d.Requests[1] != "orders/t_0/true/1" {
		t.Errorf("%v, %v, asked %v", outcomes, err, d.Requests)
	}
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	b.Addr = strings.TrimPrefix(server.URL, "http://")
	if _, err := b.Resend(t.Context(), ask); err == nil || !strings.Contains(err.Error(), "sends no dead letters again (status 404)") {
		t.Errorf("%v", err)
	}
}
