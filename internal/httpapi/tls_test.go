package httpapi_test

import (
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"example.org/bridge/internal/config"
	"example.org/bridge/internal/httpapi"
	"example.org/bridge/internal/httpapi/httpapitest"
	"example.org/bridge/reconcile"
	"example.org/bridge/source/sourcetest"
	"example.org/bridge/tests/must"
	"example.org/bridge/tests/testenv"
)

// serve runs a server until stop, which waits for its end, or the end of the test.
func serve(t *testing.T, d httpapi.Daemon, access httpapi.Access, log io.Writer) (addr string, stop func()) {
	t.Helper()
	server := must.Get(httpapi.Open(t.Context(), httpapi.Options{
		Addr: "127.0.0.1:0", Daemon: func() httpapi.Daemon { return d }, Metrics: prometheus.NewRegistry(), Access: access, Logger: slog.New(slog.NewTextHandler(log, nil)),
	}))(t)
	httpapitest.Listens(d, server.Addr().String())
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return server.Addr().String(), stop
}

// TestWhomAClientTrusts over TLS, at 127.0.0.1.
func TestWhomAClientTrusts(t *testing.T) {
	certs := testenv.NewCerts(t)
	at := func(cert, key string) string {
		addr, _ := serve(t, &httpapitest.Daemon{}, httpapi.Access{TLS: httpapi.TLS{Cert: cert, Key: key}}, io.Discard)
		return addr
	}
	named, server, expired := at(certs.NamedCert, certs.NamedKey), at(certs.ServerCert, certs.ServerKey), at(certs.ExpiredCert, certs.ExpiredKey)
	plain := httpapitest.Serve(t, &httpapitest.Daemon{})
	for _, c := range []struct {
		name, addr string
		files      httpapi.TLS
		words      string
	}{
		{"the certificate of its own settings, for whatever names", named, httpapi.TLS{Cert: certs.NamedCert}, ""},
		{"that of its authorities for the address", server, httpapi.TLS{CA: certs.CA}, ""},
		{"that of its authorities for a name of its own", named, httpapi.TLS{CA: certs.CA, Cert: certs.OtherCertOfName}, ""},
		{"not one for another name", named, httpapi.TLS{CA: certs.CA}, "127.0.0.1"},
		{"not one of other authorities", server, httpapi.TLS{CA: certs.OtherCA}, "unknown authority"},
		{"not one of other authorities for a name of its own", named, httpapi.TLS{CA: certs.OtherCA, Cert: certs.OtherCertOfName}, "unknown authority"},
		{"not one that has ended", expired, httpapi.TLS{CA: certs.CA}, "expired"},
		{"not the certificate of its settings while it cannot be read", named, httpapi.TLS{Cert: "/not/there"}, "no such file"},
		{"nobody who speaks no TLS", plain, httpapi.TLS{CA: certs.CA}, "it does not speak TLS: unset HTTP_TLS_CERT and HTTP_TLS_CA"},
		{"nobody over TLS without a setting", server, httpapi.TLS{}, "it speaks TLS: set HTTP_TLS_CA"},
	} {
		t.Run(c.name, func(t *testing.T) {
			client := httpapi.Client{Addr: c.addr, Setting: "HTTP", TLS: c.files}
			_, ok, err := client.Live(t.Context())
			if ok != (c.words == "") || err == nil && c.words != "" || err != nil && !strings.Contains(err.Error(), c.words) {
				t.Errorf("%t, %v, want %q", ok, err, c.words)
			}
		})
	}
	t.Run("a certificate for the name by which the address was found", func(t *testing.T) {
		client := httpapi.Client{Addr: named, Host: "bridge.example", Setting: "HTTP", TLS: httpapi.TLS{CA: certs.CA}}
		if _, ok, err := client.Live(t.Context()); !ok || err != nil {
			t.Error(ok, err)
		}
	})
	t.Run("no older TLS than 1.2", func(t *testing.T) {
		conn, err := tls.Dial("tcp", server, &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS11})
		if err == nil {
			_ = conn.Close()
			t.Error("the server speaks TLS 1.1")
		}
	})
}

// TestACertificateIsReplaced while the server runs.
func TestACertificateIsReplaced(t *testing.T) {
	certs, dir := testenv.NewCerts(t), t.TempDir()
	files := httpapi.TLS{Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem")}
	replace := func(to, from string) {
		text, err := os.ReadFile(from)
		if err == nil {
			// Another file has another time and size, as the one that a link names.
			err = os.WriteFile(to+"~", append(text, '\n'), 0o600)
		}
		if err == nil {
			err = os.Rename(to+"~", to)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	replace(files.Cert, certs.NamedCert)
	replace(files.Key, certs.NamedKey)
	var log sourcetest.Log
	addr, _ := serve(t, &httpapitest.Daemon{}, httpapi.Access{TLS: files}, &log)
	shows := func(cert string) bool {
		client := httpapi.Client{Addr: addr, TLS: httpapi.TLS{Cert: cert, CA: certs.OtherCA}}
		_, ok, err := client.Live(t.Context())
		return ok && err == nil
	}
	if !shows(certs.NamedCert) {
		t.Fatal("it does not show its certificate")
	}
	replace(files.Cert, certs.ServerCert)
	for range 2 {
		if !shows(certs.NamedCert) {
			t.Error("while the files are no pair, the former certificate is not shown")
		}
	}
	if n := strings.Count(log.String(), "the former one stays"); n != 1 {
		t.Errorf("it was logged %d times: %s", n, log.String())
	}
	replace(files.Key, certs.ServerKey)
	if !shows(certs.ServerCert) {
		t.Error("the new certificate is not shown")
	}
	if _, err := httpapi.Open(t.Context(), httpapi.Options{Addr: "127.0.0.1:0", Access: httpapi.Access{TLS: httpapi.TLS{Cert: files.Cert, Key: certs.NamedKey}}, Logger: slog.New(slog.DiscardHandler)}); err == nil {
		t.Error("a server begins with files that are no pair")
	}
}

// TestForwardingOverTLS: the processes of a group have one certificate, or names in common.
func TestForwardingOverTLS(t *testing.T) {
	certs := testenv.NewCerts(t)
	works := &httpapitest.Daemon{Peer: httpapi.Peer{Self: true, Member: "a"}}
	member := httpapitest.Access
	member.TLS = httpapi.TLS{Cert: certs.NamedCert, Key: certs.NamedKey}
	addr, _ := serve(t, works, member, io.Discard)
	for _, c := range []struct {
		name   string
		files  httpapi.TLS
		claims bool
		status int
		words  string
	}{
		{"the same certificate", httpapi.TLS{Cert: certs.NamedCert}, true, 202, `"stream":"orders"`},
		{"another one with the same name", httpapi.TLS{Cert: certs.OtherCertOfName, CA: certs.CA}, true, 202, `"stream":"orders"`},
		{"another one with another name", httpapi.TLS{Cert: certs.ServerCert, CA: certs.OtherCA}, true, 502, "unknown authority"},
		{"none, by the authorities of the system", httpapi.TLS{}, true, 502, "certificate"},
		{"one that cannot be read", httpapi.TLS{Cert: "/not/there"}, true, 502, "no such file"},
		{"the other one says that it speaks no TLS", httpapi.TLS{Cert: certs.NamedCert}, false, 502, "it does not speak TLS, as this process does: set BRIDGE_HTTP_TLS_CERT"},
	} {
		t.Run(c.name, func(t *testing.T) {
			waits := &httpapitest.Daemon{Peer: httpapi.Peer{Member: "a", Name: "a on host", Addr: addr, TLS: c.claims}}
			w, member := httptest.NewRecorder(), httpapitest.Access
			member.TLS, member.Text = c.files, config.Text
			pages := httpapitest.Checked(t, httpapi.Handler(waits, prometheus.NewRegistry(), member))
			pages.ServeHTTP(w, httpapitest.NewRequest(t, "POST", "/api/v1/streams/orders/reconcile", nil))
			if w.Code != c.status || !strings.Contains(w.Body.String(), c.words) {
				t.Errorf("%d %s, want %d %s", w.Code, w.Body, c.status, c.words)
			}
		})
	}
}

// TestAClientSendsTheToken where a request may need it, and nowhere else.
func TestAClientSendsTheToken(t *testing.T) {
	d := &httpapitest.Daemon{}
	asked := 0
	client := httpapi.Client{Addr: httpapitest.Serve(t, d), Token: func() (string, error) { asked++; return token, nil }}
	if _, _, err := client.Live(t.Context()); err != nil || asked != 0 {
		t.Errorf("asked for the token %d times, %v", asked, err)
	}
	if _, err := client.Reconcile(t.Context(), "orders", reconcile.Mode{}); err != nil || asked != 1 {
		t.Errorf("asked for the token %d times, %v", asked, err)
	}
}
