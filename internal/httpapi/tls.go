package httpapi

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"example.org/bridge/internal/driver"
	"example.org/bridge/internal/option"
)

// TLS names PEM files. The server speaks TLS where Cert and Key are named; a client does where any
// file is.
type TLS = driver.TLS

type certificate struct {
	files TLS
	log   *slog.Logger

	mu     sync.Mutex
	pair   *tls.Certificate
	failed bool
}

// get returns the certificate, which it reads again at each connection. While the files are no
// pair, as between the replacement of one and of the other, the former one is good.
func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	pair, err := tls.LoadX509KeyPair(c.files.Cert, c.files.Key)
	switch {
	case err == nil:
		c.pair, c.failed = &pair, false
	case c.pair == nil:
		return nil, fmt.Errorf("read the certificate: %w", err)
	case !c.failed:
		c.failed = true
		c.log.Warn("the certificate of the HTTP server cannot be read again, the former one stays", "error", err)
	}
	return c.pair, nil
}

// clientConfig returns the configuration of a client that asks host, nil where it does not speak
// TLS. The files are read at each call.
//
// A server passes if it has the very certificate that Cert names: it has shown that it owns the
// key, which only processes with the same files do, so no name has to be on it. So a health check
// may ask 127.0.0.1, and a process of a standby group the address of another one. Another server
// passes if its certificate is signed by the authorities, for host or for a name that is on ours.
func clientConfig(t TLS, host string) (*tls.Config, error) {
	if !t.Given() {
		return nil, nil
	}
	roots, err := t.Roots()
	if err != nil {
		return nil, err
	}
	trust := trust{roots: roots, names: []string{host}}
	if t.Cert != "" {
		// The key may be for bridge alone to read.
		own, err := readCertificate(t.Cert)
		if err != nil {
			return nil, fmt.Errorf("read the certificate: %w", err)
		}
		trust.own, trust.names = own.Raw, append(trust.names, own.DNSNames...)
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS12, ServerName: host,
		// It is verified, by other rules.
		InsecureSkipVerify: true,
		VerifyConnection: func(c tls.ConnectionState) error {
			if err := trust.verify(c); err != nil {
				return option.Errorf("its certificate is not trusted: %w: see %s", err, option.HTTPTLSCA)
			}
			return nil
		},
	}, nil
}

// trust is which certificates a client accepts.
type trust struct {
	// own is in DER form, nil where the client has none.
	own   []byte
	roots *x509.CertPool
	names []string
}

func (t *trust) verify(c tls.ConnectionState) error {
	leaf, between := c.PeerCertificates[0], x509.NewCertPool()
	if bytes.Equal(leaf.Raw, t.own) {
		return nil
	}
	for _, one := range c.PeerCertificates[1:] {
		between.AddCert(one)
	}
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: t.roots, Intermediates: between}); err != nil {
		return err
	}
	var wrong error
	for _, name := range t.names {
		err := leaf.VerifyHostname(name)
		if err == nil {
			return nil
		}
		wrong = errors.Join(wrong, err)
	}
	return wrong
}

// readCertificate returns the first certificate of a PEM file.
func readCertificate(path string) (*x509.Certificate, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "CERTIFICATE" {
			return x509.ParseCertificate(block.Bytes)
		}
	}
	return nil, fmt.Errorf("no certificate in %s", path)
}

// proofHeader has what the caller of a forwarded request may do, and a keyed hash of it and of the
// request. The key is the token: a member proves that it knows the token, and sends it to nobody,
// because the bus alone says at which address another member is.
const proofHeader = "Bridge-Proof"

const (
	// proofSkew is how much the clocks of two members may differ. A proof is valid for as long.
	proofSkew = time.Minute
	// maxProofs bounds the proofs that are remembered, so that none is used twice.
	maxProofs = 10_000
)

var (
	errNotProved = errors.New("the proof is not for this request, was made with another token, or for another address than this process tells its group")
	errReplayed  = errors.New("the proof was used before")
	errManyProof = fmt.Errorf("more than %d requests were forwarded within a minute or two: ask again", maxProofs)
)

func prove(token string, may need, r *http.Request, body []byte, to *Peer) string {
	claim := fmt.Sprintf("%s.%d.%s.%x", may, time.Now().Unix(), rand.Text(), sha256.Sum256(body))
	return claim + "." + hex.EncodeToString(keyedHash(token, claim, r, to))
}

// keyedHash covers the address, too: what reaches a process at another address cannot be passed on.
func keyedHash(token, claim string, r *http.Request, to *Peer) []byte {
	hash := hmac.New(sha256.New, []byte(token))
	// A hash takes every write.
	_, _ = fmt.Fprintf(hash, "%q", []string{"bridge proof 1", claim, r.Method, r.URL.RequestURI(), to.Member, to.Addr})
	return hash.Sum(nil)
}

type proofs struct {
	mu sync.Mutex
	// used has until when a proof could be sent once more, by its own time and by that of the
	// process: the clock may be set back.
	used map[string][2]time.Time
}

// verify returns what the proof of a request allows. It reads the body only after it has seen that
// the proof was made with the token.
func (p *proofs) verify(token string, r *http.Request, self *Peer) (need, error) {
	header := r.Header.Get(proofHeader)
	last := max(strings.LastIndexByte(header, '.'), 0)
	claim := header[:last]
	hash, err := hex.DecodeString(strings.TrimPrefix(header[last:], "."))
	if err != nil || !hmac.Equal(hash, keyedHash(token, claim, r, self)) {
		return "", errNotProved
	}
	parts := strings.Split(claim, ".")
	if len(parts) != 4 {
		return "", errNotProved
	}
	seconds, err := strconv.ParseInt(parts[1], 10, 64)
	if err != nil {
		return "", errNotProved
	}
	made := time.Unix(seconds, 0)
	if off := time.Since(made); off.Abs() > proofSkew {
		return "", fmt.Errorf("the clocks of the two hosts differ by %s, more than %s: set them", off.Abs().Round(time.Second), proofSkew)
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxResendBytes+1))
	if err != nil {
		return "", fmt.Errorf("read the body: %w", err)
	}
	if hash := sha256.Sum256(body); parts[3] != hex.EncodeToString(hash[:]) {
		return "", errNotProved
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return need(parts[0]), p.use(parts[2], made)
}

// The error says that it was used before.
func (p *proofs) use(nonce string, made time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	maps.DeleteFunc(p.used, func(_ string, until [2]time.Time) bool { return now.After(until[0]) && now.After(until[1]) })
	switch _, again := p.used[nonce]; {
	case again:
		return errReplayed
	case len(p.used) >= maxProofs:
		return errManyProof
	case p.used == nil:
		p.used = make(map[string][2]time.Time)
	}
	p.used[nonce] = [2]time.Time{made.Add(proofSkew), now.Add(2 * proofSkew)}
	return nil
}

// proved is what a forwarded request has shown of its caller, in its context by provedKey.
type proved struct {
	may need
	// err is why its proof is not accepted, nil where it is, or where there is none.
	err error
}

type provedKey struct{}
