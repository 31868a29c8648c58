package httpapitest

import (
	"net/http"
	"testing"
)

// TestAnswersAreHeldAgainstTheDocument: each kind of difference is found.
func TestAnswersAreHeldAgainstTheDocument(t *testing.T) {
	document, err := published()
	if err != nil {
		t.Fatal(err)
	}
	const entity = "/api/v1/streams/orders/entities/a%2Fb"
	for name, c := range map[string]struct {
		method, path, kind, body string
		status                   int
		fits                     bool
	}{
		"a right one":           {"GET", entity, "application/json", `{"key":"a","shard":"t","event":"e","changed":true,"data":{"n":18446744073709551615}}`, 200, true},
		"a member too many":     {"GET", entity, "application/json", `{"key":"a","shard":"t","event":"e","changed":true,"data":{},"more":1}`, 200, false},
		"a member too few":      {"GET", entity, "application/json", `{"key":"a","shard":"t","event":"e","data":{}}`, 200, false},
		"another type":          {"GET", entity, "application/json", `{"key":"a","shard":"t","event":"e","changed":"true","data":{}}`, 200, false},
		"another status":        {"GET", entity, "application/json", `{"error":"x"}`, 418, false},
		"another form":          {"GET", entity, "text/html", `x`, 200, false},
		"another method":        {"POST", entity, "application/json", `{}`, 200, false},
		"another path":          {"GET", "/api/v1/other", "application/json", `{}`, 200, false},
		"a null that may be":    {"GET", "/api/v1/streams/o/entities", "application/json", `{"entities":null}`, 200, true},
		"a time that is none":   {"POST", "/api/v1/streams/o/reconcile", "application/json", `{"stream":"o","shards":1,"dryRun":true,"allowDeletes":true,"started":"now"}`, 202, false},
		"what the router says":  {"DELETE", "/api/v1/status", "text/plain; charset=utf-8", "Method Not Allowed", 405, true},
		"HEAD":                  {"HEAD", "/api/v1/status", "application/json", "", 200, true},
		"a tail":                {"GET", "/api/v1/tail", "text/event-stream", ":\n\nevent: left\ndata: {\"leftOut\":3}\n\nevent: end\ndata: {\"error\":\"x\"}\n\n", 200, true},
		"a tail with an object": {"GET", "/api/v1/tail", "text/event-stream", "data: {\"leftOut\":3}\n\n", 200, false},
	} {
		err := document.check(c.method, c.path, c.status, http.Header{"Content-Type": {c.kind}}, []byte(c.body))
		if (err == nil) != c.fits {
			t.Errorf("%s: %v", name, err)
		}
	}
}
