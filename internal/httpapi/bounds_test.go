package httpapi_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"example.org/bridge/internal/httpapi"
	"example.org/bridge/internal/httpapi/httpapitest"
)

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
