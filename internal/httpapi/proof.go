package httpapi

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

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

// prove returns the proof that the caller of a request to a member may do what it needs.
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

// proofs verifies those of requests to this process.
type proofs struct {
	mu sync.Mutex
	// used has until when a proof could be sent once more.
	used map[string]time.Time
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
	if off := time.Since(time.Unix(seconds, 0)); off.Abs() > proofSkew {
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
	return need(parts[0]), p.use(parts[2])
}

// use notes that a proof is used. The error says that it was used before.
func (p *proofs) use(nonce string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	for one, until := range p.used {
		if now.After(until) {
			delete(p.used, one)
		}
	}
	switch _, again := p.used[nonce]; {
	case again:
		return errReplayed
	case len(p.used) >= maxProofs:
		return errManyProof
	case p.used == nil:
		p.used = make(map[string]time.Time)
	}
	p.used[nonce] = now.Add(2 * proofSkew)
	return nil
}

// proved is what a forwarded request has shown of its caller.
type proved struct {
	may need
	// err is why its proof is not accepted, nil where it is, or where there is none.
	err error
}

type provedKey struct{}

// provedOf returns what a request has shown, nothing where it was not forwarded.
func provedOf(r *http.Request) proved {
	shown, _ := r.Context().Value(provedKey{}).(proved)
	return shown
}

func (p proved) on(r *http.Request) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), provedKey{}, p))
}

// allows reports whether a caller has what a request needs.
func (p proved) allows(n need) bool { return p.err == nil && (p.may == toChange || p.may == n) }
