package httpapi_test

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"bridge/internal/httpapi"
	"bridge/internal/httpapi/httpapitest"
	"bridge/internal/shard"
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

func TestResendAll(t *testing.T) {
	d := &httpapitest.Daemon{Resent: httpapi.ResentAll{Found: 1, Fates: map[shard.Fate]int{shard.SentSame: 1}, DeadLetters: []httpapi.ResentDeadLetter{{Shard: "t", Row: 1<<64 - 1}}}}
	const path = "/api/v1/streams/orders/resend-all"
	code, body := httpapitest.Request(t, d, "POST", path+"?dryRun=true")
	if code != 200 || !strings.Contains(body, `{"found":1,"more":false,"fates":{"same":1},"letters":[{"shard":"t","row":18446744073709551615,`) {
		t.Errorf("%d %s", code, body)
	}
	for query, want := range map[string]int{"?allowDeletes=true": 400, "?dryrun=true": 400, "": 200} {
		if code, body := httpapitest.Request(t, d, "POST", path+query); code != want {
			t.Errorf("%q: %d %s", query, code, body)
		}
	}
	if got := strings.Join(d.Asked(), " "); got != "orders/resend-all/true orders/resend-all/false" {
		t.Errorf("asked for %s", got)
	}
	d.Refuses = httpapi.ErrNoStream
	if code, _ := httpapitest.Request(t, d, "POST", path); code != 404 {
		t.Errorf("of an unknown stream: %d", code)
	}
	d.Refuses = httpapi.ErrCannotResend
	if code, _ := httpapitest.Request(t, d, "POST", path); code != 409 {
		t.Errorf("of a stream without dead letters: %d", code)
	}
	if code, _ := httpapitest.Request(t, d, "GET", path); code != 405 {
		t.Errorf("by GET: %d", code)
	}
}
