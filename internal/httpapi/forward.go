package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"time"

	"example.org/bridge/internal/option"
)

// Peer is the process that works: of a standby group, or this one where it works alone.
type Peer struct {
	// Self says that it is this process.
	Self bool
	// Member names it in its group, Name is for people. Addr is host:port of its HTTP server.
	Member, Name, Addr string
	// TLS says that it speaks TLS there.
	TLS bool
}

// memberHeader names a member of a standby group: in a request that was forwarded to it, and in the
// answer of the one that works. So a request never goes on to a third process, and what another
// program answers, or a process that has the address by now, is told from it.
const memberHeader = "Bridge-Member"

const dialTimeout = 3 * time.Second

type forwarder struct {
	daemon func() Daemon
	access *Access
	proofs proofs
}

// admit passes requests on to h with what the process that has forwarded them has proved.
func (f *forwarder) admit(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isForwarded(r) {
			h.ServeHTTP(w, r)
			return
		}
		peer, err := f.daemon().Working()
		if err != nil || !isFor(r, &peer) {
			misdirected(w)
			return
		}
		var shown proved
		if f.access.Token != nil && r.Header.Get(proofHeader) != "" {
			// Where the token cannot be read, guard says so.
			if token, err := f.access.Token(); err == nil {
				shown.may, shown.err = f.proofs.verify(token, r, &peer)
			}
		}
		h.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), provedKey{}, shown)))
	})
}

// isFor reports whether a request that was forwarded, or was not, is for this process as the one
// that works.
func isFor(r *http.Request, peer *Peer) bool {
	return peer.Self && (!isForwarded(r) || r.Header.Get(memberHeader) == peer.Member)
}

func misdirected(w http.ResponseWriter) {
	answer(w, http.StatusMisdirectedRequest, refused{"this is not the process that works: ask again"})
}

// byWorking has the process that works answer: a process that waits as a standby forwards the
// request, with a proof that its caller has what it needs, "" for none.
func (f *forwarder) byWorking(n need, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		peer, err := f.daemon().Working()
		switch {
		case err == nil && isFor(r, &peer):
			w.Header().Set(memberHeader, peer.Member)
			h.ServeHTTP(w, r)
		case isForwarded(r):
			misdirected(w)
		case err != nil:
			answer(w, http.StatusServiceUnavailable, refused{err.Error()})
		default:
			// A resend takes longer than other answers.
			extend(w, resendTimeout+writeTimeout)
			f.forward(extending{w}, r, n, &peer)
		}
	})
}

// extend has a writer fail if the client does not read for longer. One without deadlines has none
// to extend.
func extend(w http.ResponseWriter, by time.Duration) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(by))
}

// extending is a writer of an answer that may go on and on: each write has a deadline of its own.
type extending struct{ http.ResponseWriter }

func (e extending) Write(p []byte) (int, error) {
	extend(e.ResponseWriter, writeTimeout)
	return e.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController.
func (e extending) Unwrap() http.ResponseWriter { return e.ResponseWriter }

// What its caller may do here it may do there.
func (f *forwarder) forward(w http.ResponseWriter, r *http.Request, n need, peer *Peer) {
	var body []byte
	if r.Method != http.MethodGet {
		var err error
		if body, err = io.ReadAll(http.MaxBytesReader(w, r.Body, maxResendBytes)); err != nil {
			refuse(w, err, http.StatusBadRequest)
			return
		}
	}
	r = r.WithContext(r.Context())
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	var token string
	transport := f.transport(peer)
	if n != "" && f.access.Token != nil {
		var err error
		if token, err = f.access.Token(); err != nil {
			transport = failing{err}
		}
	}
	proxy := httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(&url.URL{Scheme: schemeOf(f.speaksTLS(peer)), Host: peer.Addr})
			// They are for this process, which has looked at them.
			for _, name := range []string{"Origin", "Sec-Fetch-Site", "Authorization", proofHeader} {
				p.Out.Header.Del(name)
			}
			p.Out.Header.Set(memberHeader, peer.Member)
			// By it a process of an earlier version knows that the caller may be on another host.
			p.Out.Header.Set("Via", "1.1 bridge")
			if token != "" {
				p.Out.Header.Set(proofHeader, prove(token, n, p.Out, body, peer))
			}
		},
		Transport: transport,
		ModifyResponse: func(r *http.Response) error {
			switch {
			case r.Header.Get(memberHeader) == peer.Member:
				return nil
			case r.StatusCode == http.StatusUnauthorized || r.StatusCode == http.StatusForbidden:
				return fmt.Errorf("it refuses this process (status %d): set %s, the same for all processes of the group, and have all of one version%s", r.StatusCode, f.access.Setting, reasonOf(r))
			}
			return fmt.Errorf("another process answers there (status %d)", r.StatusCode)
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			why := err.Error()
			if f.access.Text != nil {
				why = f.access.Text(err)
			}
			answer(w, http.StatusBadGateway, refused{fmt.Sprintf("%s works, and was not reached at %s: %s: run the command where it runs, or ask again when another one has taken over", peer.Name, peer.Addr, why)})
		},
		ErrorLog: log.New(io.Discard, "", 0),
	}
	proxy.ServeHTTP(w, r)
}

// reasonOf returns why a bridge has refused a request, empty where it does not say.
func reasonOf(r *http.Response) string {
	var no refused
	if json.NewDecoder(io.LimitReader(r.Body, maxRequestBytes)).Decode(&no) != nil || no.Error == "" {
		return ""
	}
	return fmt.Sprintf("; it says %q", no.Error)
}

// speaksTLS reports whether the process that works is asked over TLS: where this process has files
// for it, whatever the bus says of the other one.
func (f *forwarder) speaksTLS(peer *Peer) bool { return peer.TLS || f.access.TLS != (TLS{}) }

// transport sends a request to the process that works, not by a proxy of the environment.
func (f *forwarder) transport(peer *Peer) http.RoundTripper {
	t := &http.Transport{
		DialContext:           (&net.Dialer{Timeout: dialTimeout}).DialContext,
		ResponseHeaderTimeout: resendTimeout + dialTimeout, DisableKeepAlives: true,
	}
	if f.speaksTLS(peer) {
		if !peer.TLS {
			return failing{option.Errorf("it does not speak TLS, as this process does: set %s in all processes of the group", option.HTTPTLSCert)}
		}
		host, _, _ := net.SplitHostPort(peer.Addr)
		config, err := clientConfig(f.access.TLS, host)
		if err != nil {
			return failing{err}
		}
		t.TLSClientConfig = config
	}
	return t
}

type failing struct{ err error }

func (f failing) RoundTrip(*http.Request) (*http.Response, error) { return nil, f.err }

func schemeOf(tls bool) string {
	if tls {
		return "https"
	}
	return "http"
}
