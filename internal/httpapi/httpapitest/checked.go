package httpapitest

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"bridge/internal/apidoc"
)

// Checked holds the answers of h below /api against the OpenAPI document. A difference fails the
// test.
func Checked(t testing.TB, h http.Handler) http.Handler {
	t.Helper()
	document, err := apidoc.Published()
	if err != nil {
		t.Fatal(err)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.Path, "/api/") {
			h.ServeHTTP(w, r)
			return
		}
		copied := &copying{ResponseWriter: w, status: http.StatusOK}
		h.ServeHTTP(copied, r)
		if err := document.Check(r.Method, r.URL.EscapedPath(), copied.status, w.Header(), copied.body.Bytes()); err != nil {
			t.Error(err)
		}
	})
}

// copying keeps a copy of an answer.
type copying struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
}

func (c *copying) WriteHeader(status int) {
	c.status = status
	c.ResponseWriter.WriteHeader(status)
}

func (c *copying) Write(p []byte) (int, error) {
	c.body.Write(p)
	return c.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController.
func (c *copying) Unwrap() http.ResponseWriter { return c.ResponseWriter }
