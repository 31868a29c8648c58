package app

import (
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"example.org/bridge/internal/config"
	"example.org/bridge/internal/driver"
	"example.org/bridge/internal/driver/nats"
	"example.org/bridge/internal/httpapi/httpapitest"
	"example.org/bridge/internal/inspect"
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
			report := inspectHTTP(t.Context(), &config.Config{Process: config.Process{HTTPAddr: c.addr}, HTTPToken: token})
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

// TestAMissingTokenIsANote: where other hosts reach the listener, and in a group on one host, too.
func TestAMissingTokenIsANote(t *testing.T) {
	for _, c := range []struct {
		addr, group string
		want        bool
	}{
		{"127.0.0.1:0", "", false}, {"localhost:0", "", false}, {"[::1]:0", "", false}, {":0", "", true}, {"0.0.0.0:0", "", true}, {"127.0.0.1:0", "g", true},
	} {
		for _, token := range []driver.Secret{nil, func() (string, error) { return "", nil }} {
			cfg := &config.Config{Process: config.Process{HTTPAddr: c.addr}, HTTPToken: token, Standby: config.Standby{Group: c.group}, Sink: config.Sink{Driver: new(nats.Driver)}}
			found := slices.DeleteFunc(inspectHTTP(t.Context(), cfg).Findings, func(f inspect.Finding) bool { return f.Code != inspect.HTTPToken })
			noted := len(found) == 1
			if noted != (c.want && token == nil) || noted && (found[0].Severity != inspect.Note || !strings.Contains(found[0].Do, "HTTP_TOKEN")) {
				t.Errorf("%+v, with a token %t: %v", c, token != nil, found)
			}
		}
	}
}
