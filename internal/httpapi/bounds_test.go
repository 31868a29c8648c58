package httpapi_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"bridge/internal/httpapi"
	"bridge/internal/httpapi/httpapitest"
)

// TestWhoSeesEntitiesInTheStatus: the differences of a dry run name entities.
func TestWhoSeesEntitiesInTheStatus(t *testing.T) {
	for _, c := range []struct {
		name, from, authorization string
		access                    httpapi.Access
		sees                      bool
	}{
		{"a caller on this host", "127.0.0.1:4711", "", access(token, nil), true},
		{"another one without a token set", "192.0.2.7:4711", "", httpapi.Access{}, true},
		{"another one without the token", "192.0.2.7:4711", "", access(token, nil), false},
		{"another one with the token", "192.0.2.7:4711", "Bearer " + token, access(token, nil), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			dry := &httpapi.ReconcileReport{DryRun: true, Differences: []httpapi.DifferenceStatus{{What: "deleted", Entity: "ada@shop.example"}}}
			d := &httpapitest.Daemon{State: httpapi.Status{Streams: []httpapi.StreamStatus{{
				Name: "people", State: "running", Shards: []httpapi.ShardStatus{{Shard: "people", State: "running", Reconcile: &httpapi.ReconcileStatus{LastDryRun: dry}}},
			}}}}
			w, r := httptest.NewRecorder(), httpapitest.NewRequest(t, "GET", "/api/v1/status", nil)
			r.RemoteAddr = c.from
			r.Header.Set("Authorization", c.authorization)
			httpapi.Handler(d, prometheus.NewRegistry(), c.access).ServeHTTP(w, r)
			if sees := strings.Contains(w.Body.String(), "ada@shop.example"); w.Code != 200 || sees != c.sees {
				t.Errorf("%d, sees them: %t, want %t: %s", w.Code, sees, c.sees, w.Body)
			}
		})
	}
}

// TestAQueryThatCannotBeRead is refused: what is dropped of it might have been dryRun=true.
func TestAQueryThatCannotBeRead(t *testing.T) {
	for _, query := range []string{"dryRun=true;", "dryRun=%zz"} {
		d := &httpapitest.Daemon{}
		w, r := httptest.NewRecorder(), httpapitest.NewRequest(t, "POST", "/api/v1/streams/orders/reconcile", nil)
		r.URL.RawQuery = query
		httpapi.Handler(d, prometheus.NewRegistry(), httpapi.Access{}).ServeHTTP(w, r)
		if w.Code != 400 || len(d.Requests) > 0 {
			t.Errorf("%s: %d, was done: %v", query, w.Code, d.Requests)
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
