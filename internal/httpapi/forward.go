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
}

// memberHeader names a member of a standby group: in a request that was forwarded to it, and in the
// answer of the one that works. So a request never goes on to a third process, and what another
// program answers, or a process that has the address by now, is told from it.
const memberHeader = "Bridge-Member"

// dialTimeout is how long a connection to the process that works may take.
const dialTimeout = 3 * time.Second

// byWorking has the process that works answer: a process that waits as a standby forwards the
// request.
func byWorking(d Daemon, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		forwarded := r.Header.Get(memberHeader)
		peer, err := d.Working()
		switch {
		case err == nil && peer.Self && (forwarded == "" || forwarded == peer.Member):
			w.Header().Set(memberHeader, peer.Member)
			h.ServeHTTP(w, r)
		case forwarded != "":
			answer(w, http.StatusMisdirectedRequest, refused{"this is not the process that works: ask again"})
		case err != nil:
			answer(w, http.StatusServiceUnavailable, refused{err.Error()})
		default:
			// A resend takes longer than other answers. A writer without deadlines has none to
			// extend.
			_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(resendTimeout + writeTimeout))
			forward(&peer).ServeHTTP(w, r)
		}
	})
}

// forward sends requests to the process that works.
func forward(peer *Peer) http.Handler {
	return &httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(&url.URL{Scheme: "http", Host: peer.Addr})
			p.Out.Header.Set(memberHeader, peer.Member)
		},
		// Not by a proxy of the environment.
		Transport: &http.Transport{
			DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
				return (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, network, addr)
			},
			ResponseHeaderTimeout: resendTimeout + dialTimeout, DisableKeepAlives: true,
		},
		ModifyResponse: func(r *http.Response) error {
			if r.Header.Get(memberHeader) != peer.Member {
				return fmt.Errorf("another process answers there (status %d)", r.StatusCode)
			}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			answer(w, http.StatusBadGateway, refused{fmt.Sprintf("%s works, and was not reached at %s: %v: run the command where it runs, or ask again when another one has taken over", peer.Name, peer.Addr, err)})
		},
		ErrorLog: log.New(io.Discard, "", 0),
	}
}
