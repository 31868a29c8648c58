package app

import (
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"bridge/internal/config"
	"bridge/internal/httpapi/httpapitest"
	"bridge/internal/inspect"
)

func TestATakenPortIsAFinding(t *testing.T) {
	free, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	running := httpapitest.Serve(t, &httpapitest.Daemon{})
	for name, c := range map[string]struct{ addr, summary, want string }{
		"a free one is none":                    {free.Addr().String(), "", ""},
		"one at which a bridge answers is none": {running, running + ", where a bridge answers", ""},
		"one of another process is one":         {strings.TrimPrefix(other.URL, "http://"), "127.0.0.1", "set BRIDGE_HTTP_ADDR to another port"},
		"one of an address of another host too": {"192.0.2.1:8080", "192.0.2.1:8080", "cannot be listened on"},
	} {
		t.Run(name, func(t *testing.T) {
			token := func() (string, error) { return "0123456789abcdef", nil }
			report := inspectHTTP(t.Context(), &config.Config{HTTPAddr: c.addr, HTTPToken: token})
			if !strings.HasPrefix(report.Summary, c.summary) || c.summary == "" && report.Summary != "" {
				t.Errorf("the summary is %q, want %q", report.Summary, c.summary)
			}
			found := report.Findings
			if c.want == "" && len(found) == 0 {
				return
			}
			if len(found) != 1 || found[0].Code != inspect.HTTPAddress || !found[0].Blocks() || !strings.Contains(found[0].String(), c.want) {
				t.Errorf("found %v, want %q", found, c.want)
			}
		})
	}
}

// TestAnOpenListenerIsANote: where other hosts reach it and no token is set.
func TestAnOpenListenerIsANote(t *testing.T) {
	for addr, want := range map[string]bool{"127.0.0.1:0": false, "localhost:0": false, "[::1]:0": false, ":0": true, "0.0.0.0:0": true} {
		for _, token := range []config.Secret{nil, func() (string, error) { return "", nil }} {
			found := inspectHTTP(t.Context(), &config.Config{HTTPAddr: addr, HTTPToken: token}).Findings
			found = slices.DeleteFunc(found, func(f inspect.Finding) bool { return f.Code != inspect.HTTPToken })
			if noted := len(found) == 1; noted != (want && token == nil) || noted && (found[0].Severity != inspect.Note || !strings.Contains(found[0].Do, "HTTP_TOKEN")) {
				t.Errorf("%s, with a token %t: %v", addr, token != nil, found)
			}
		}
	}
}

// TestAGroupWithoutATokenIsANote: what a process that waits forwards is refused, on one host, too.
func TestAGroupWithoutATokenIsANote(t *testing.T) {
	for _, token := range []config.Secret{nil, func() (string, error) { return "", nil }} {
		cfg := &config.Config{HTTPAddr: "127.0.0.1:0", HTTPToken: token, Standby: config.Standby{Group: "g"}}
		found := inspectHTTP(t.Context(), cfg).Findings
		if noted := len(found) == 1 && found[0].Code == inspect.HTTPToken && found[0].Severity == inspect.Note; noted != (token == nil) {
			t.Errorf("with a token %t: %v", token != nil, found)
		}
	}
}
