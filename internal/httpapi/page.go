package httpapi

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"net/http"
	"strings"
	"sync"
	"time"
)

// pageText is the page for people. It has one style element and one script element, and gets what
// it shows from /api/v1/status.
//
//go:embed page.html
var pageText string

// page is pageText with its headers, made for the first request.
type page struct{ tag, policy string }

var pageOnce = sync.OnceValue(func() page {
	sum := sha256.Sum256([]byte(pageText))
	return page{
		tag: `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`,
		policy: strings.Join([]string{
			"default-src 'none'", "script-src " + hashOf("script"), "style-src " + hashOf("style"), "connect-src 'self'", "img-src data:",
			"base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'", "require-trusted-types-for 'script'",
		}, "; "),
	}
})

// hashOf returns the source of a Content-Security-Policy that allows the element of a name.
func hashOf(element string) string {
	_, rest, _ := strings.Cut(pageText, "<"+element+">")
	text, _, _ := strings.Cut(rest, "</"+element+">")
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// pageHandler serves the page. A browser that has it asks whether it has changed.
func pageHandler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p := pageOnce()
		h := w.Header()
		h.Set("Content-Type", "text/html; charset=utf-8")
		h.Set("Content-Security-Policy", p.policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-cache")
		h.Set("ETag", p.tag)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader([]byte(pageText)))
	})
}
