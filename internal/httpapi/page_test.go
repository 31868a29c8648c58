package httpapi_test

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"example.org/bridge/internal/httpapi"
	"example.org/bridge/internal/httpapi/httpapitest"
)

// TestPageIsOneFile: it loads nothing, and its policy lets in nothing but its own style and script.
func TestPageIsOneFile(t *testing.T) {
	pages := httpapi.Handler(&httpapitest.Daemon{}, prometheus.NewRegistry(), httpapi.Access{})
	get := func(tag string) *httptest.ResponseRecorder {
		w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), "GET", "/", nil)
		if tag != "" {
			r.Header.Set("If-None-Match", tag)
		}
		pages.ServeHTTP(w, r)
		return w
	}
	w := get("")
	body, policy := w.Body.String(), w.Header().Get("Content-Security-Policy")
	if w.Code != 200 || w.Header().Get("Content-Type") != "text/html; charset=utf-8" || w.Header().Get("Cache-Control") != "no-cache" {
		t.Errorf("%d %v", w.Code, w.Header())
	}
	if again := get(w.Header().Get("ETag")); again.Code != 304 || again.Body.Len() > 0 {
		t.Errorf("a browser that has it gets %d with %d bytes", again.Code, again.Body.Len())
	}
	for _, element := range []string{"style", "script"} {
		all := regexp.MustCompile(`(?s)<`+element+`>(.*?)</`+element+`>`).FindAllStringSubmatch(body, -1)
		if len(all) != 1 {
			t.Fatalf("%d elements %s", len(all), element)
		}
		sum := sha256.Sum256([]byte(all[0][1]))
		if want := element + "-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"; !strings.Contains(policy, want) {
			t.Errorf("the policy lacks %s: %s", want, policy)
		}
	}
	if !strings.HasPrefix(policy, "default-src 'none'; ") || strings.Contains(policy, "unsafe") {
		t.Errorf("the policy is %s", policy)
	}
	for _, no := range []string{"innerHTML", "insertAdjacent", "document.write", "eval(", "http://", " style=", "onclick", "src="} {
		if strings.Contains(strings.ReplaceAll(body, "'http://www.w3.org/2000/svg'", ""), no) {
			t.Errorf("the page has %s", no)
		}
	}
	if len(body) > 44<<10 {
		t.Errorf("the page has %d bytes", len(body))
	}
}
