package httpapi

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"time"
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

// dialTimeout is how long a connection to the process that works may take.
const dialTimeout = 3 * time.Second

// forwarder has the process that works answer.
type forwarder struct {
	daemon Daemon
	access Access
}

// byWorking has the process that works answer: a process that waits as a standby forwards the
// request.
func (f *forwarder) byWorking(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		forwarded := r.Header.Get(memberHeader)
		peer, err := f.daemon.Working()
		switch {
		case err == nil && peer.Self && (forwarded == "" || forwarded == peer.Member):
			w.Header().Set(memberHeader, peer.Member)
			h.ServeHTTP(w, r)
		case forwarded != "":
			answer(w, http.StatusMisdirectedRequest, refused{"this is not the process that works: ask again"})
		case err != nil:
			answer(w, http.StatusServiceUnavailable, refused{err.Error()})
		default:
			// A resend takes longer than other answers.
			extend(w, resendTimeout+writeTimeout)
			f.forward(&peer).ServeHTTP(extending{w}, r)
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

// Write implements http.ResponseWriter.
func (e extending) Write(p []byte) (int, error) {
	extend(e.ResponseWriter, writeTimeout)
	return e.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController.
func (e extending) Unwrap() http.ResponseWriter { return e.ResponseWriter }

// forward sends requests to the process that works. What this process has allowed goes there with
// the token, which all processes of a group have.
func (f *forwarder) forward(peer *Peer) http.Handler {
	return &httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(&url.URL{Scheme: schemeOf(peer.TLS), Host: peer.Addr})
			p.Out.Header.Set(memberHeader, peer.Member)
			// They are about this process, which has looked at them.
			p.Out.Header.Del("Origin")
			p.Out.Header.Del("Sec-Fetch-Site")
			if f.access.Token == nil {
				return
			}
			if token, err := f.access.Token(); err == nil {
				bearer(p.Out.Header, token)
			}
		},
		Transport: f.transport(peer),
		ModifyResponse: func(r *http.Response) error {
			switch {
			case r.Header.Get(memberHeader) == peer.Member:
				return nil
			case r.StatusCode == http.StatusUnauthorized || r.StatusCode == http.StatusForbidden:
				return fmt.Errorf("it refuses this process (status %d): set %s, the same for all processes of the group", r.StatusCode, f.access.Setting)
			}
			return fmt.Errorf("another process answers there (status %d)", r.StatusCode)
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			answer(w, http.StatusBadGateway, refused{fmt.Sprintf("%s works, and was not reached at %s: %v: run the command where it runs, or ask again when another one has taken over", peer.Name, peer.Addr, err)})
		},
		ErrorLog: log.New(io.Discard, "", 0),
	}
}

// transport sends a request to the process that works, not by a proxy of the environment.
func (f *forwarder) transport(peer *Peer) http.RoundTripper {
	t := &http.Transport{
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			return (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, network, addr)
		},
		ResponseHeaderTimeout: resendTimeout + dialTimeout, DisableKeepAlives: true,
	}
	if peer.TLS {
		files := f.access.TLS
		host, _, _ := net.SplitHostPort(peer.Addr)
		config, err := files.client(host)
		if err != nil {
			return failing{err}
		}
		t.TLSClientConfig = config
	}
	return t
}

// failing is a transport that sends nothing.
type failing struct{ err error }

// RoundTrip implements http.RoundTripper.
func (f failing) RoundTrip(*http.Request) (*http.Response, error) { return nil, f.err }

func schemeOf(tls bool) string {
	if tls {
		return "https"
	}
	return "http"
}
