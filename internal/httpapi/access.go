package httpapi

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
)

// Access says who may request changes and read rows. A caller on loopback may always: it is on this
// host, or in this pod. Others need the token.
type Access struct {
	// Token returns the token; it is asked at each request that needs it. Nil: there is none.
	Token func() (string, error)
	// Setting names the setting of the token, for texts.
	Setting string
	// Text returns an error for people, who know settings by other names. Nil is Error.
	Text func(error) string
	// TLS has the certificate of the server, and what it trusts where it asks the process that
	// works.
	TLS TLS
}

// A need is what a request may be refused for. A proof of another process names it.
type need string

const (
	// toChange is the need of a request that changes something: the caller is on loopback or has
	// the token. It is that of a tail, too, which shows rows without a setting that offers them.
	toChange need = "change"
	// toRead is the need of a request for rows that the settings offer to everybody: the caller is
	// on loopback or has the token, where there is one.
	toRead need = "read"
)

var (
	errWrongToken = errors.New("the token is missing, or is another one")
	errByName     = errors.New("a request over loopback names this host otherwise, as a page in a browser does that misuses a name")
)

// guard lets those requests pass to h that have what they need.
func (a *Access) guard(n need, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch status, err := a.refuses(n, r); status {
		case 0:
			h.ServeHTTP(w, r)
		case http.StatusUnauthorized:
			w.Header().Set("WWW-Authenticate", `Bearer realm="bridge"`)
			answer(w, status, refused{err.Error()})
		default:
			answer(w, status, refused{err.Error()})
		}
	})
}

// mayRead reports whether a caller may read rows.
func (a *Access) mayRead(r *http.Request) bool {
	status, _ := a.refuses(toRead, r)
	return status == 0
}

// refuses returns the status and the reason with which a request is refused, 0 for none. A
// forwarded request counts as one from elsewhere, wherever the other process is, and its caller may
// do what its proof says: that was decided where it entered.
func (a *Access) refuses(n need, r *http.Request) (int, error) {
	shown := provedOf(r)
	elsewhere := isForwarded(r) || !isLoopback(r.RemoteAddr)
	switch {
	case isLocal(r) || shown.allows(n):
		return 0, nil
	case a.Token == nil && n == toRead && elsewhere:
		return 0, nil
	case a.Token == nil && !elsewhere:
		return http.StatusForbidden, fmt.Errorf("%w: ask 127.0.0.1 directly, or set %s and send it as Authorization: Bearer", errByName, a.Setting)
	case a.Token == nil:
		return http.StatusForbidden, fmt.Errorf("callers from other hosts need a token, and none is set: set %s for this bridge and send it as Authorization: Bearer, or type the command where bridge runs", a.Setting)
	}
	token, err := a.Token()
	if err != nil {
		return http.StatusServiceUnavailable, fmt.Errorf("the token cannot be read, so nobody has it: %w", err)
	}
	if shown.err != nil {
		return http.StatusUnauthorized, shown.err
	}
	if !hasToken(r, token) {
		return http.StatusUnauthorized, fmt.Errorf("%w: send that of %s as Authorization: Bearer, as the commands do where it is set", errWrongToken, a.Setting)
	}
	return 0, nil
}

// hasToken reports whether a request has a token. It takes as long for a wrong one.
func hasToken(r *http.Request, token string) bool {
	scheme, sent, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	a, b := sha256.Sum256([]byte(strings.TrimSpace(sent))), sha256.Sum256([]byte(token))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1 && strings.EqualFold(scheme, "Bearer")
}

// bearer puts the token on a request.
func bearer(header http.Header, token string) { header.Set("Authorization", "Bearer "+token) }

// isLocal reports whether a program on this host has sent a request. A page in a browser has not,
// whatever name it has given to 127.0.0.1, and a proxy that says so has not: it is on this host,
// and those who use it are elsewhere. What a proxy says of them is not believed.
func isLocal(r *http.Request) bool {
	return isLoopback(r.RemoteAddr) && isLoopback(r.Host) && !fromElsewhere(r) && !proxied(r.Header) && !isForwarded(r)
}

// isForwarded reports whether another process of a standby group has sent a request.
func isForwarded(r *http.Request) bool { return len(r.Header.Values(memberHeader)) > 0 }

// isLoopback reports whether host, with or without a port, is an address of loopback or localhost.
func isLoopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.EqualFold(host, "localhost") || net.ParseIP(strings.Trim(host, "[]")).IsLoopback()
}

// fromElsewhere reports whether a browser says that the page of another site asks.
func fromElsewhere(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "none", "same-origin":
	default:
		return true
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		return false
	}
	page, err := url.Parse(origin)
	return err != nil || page.Host != r.Host
}

// proxied reports whether headers have what proxies add.
func proxied(header http.Header) bool {
	for name := range header {
		if name == "Forwarded" || name == "Via" || name == "X-Real-Ip" || strings.HasPrefix(name, "X-Forwarded-") || strings.HasPrefix(name, "X-Envoy-") {
			return true
		}
	}
	return false
}
