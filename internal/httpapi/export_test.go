package httpapi

import (
	"context"
	"net/http"
	"time"
)

// For the tests, which are outside the package.
const MaxResendBytes = maxResendBytes

var (
	Update           = update
	ErrResendTimeout = errResendTimeout
	ResendRequestOf  = resendRequestOf
)

// A machine that is busy with other things cuts no answer short.
func init() { closingTimeout = time.Minute }

// StatusAnswers is how many statuses are answered at a time.
const StatusAnswers = statusAnswers

// HandlerAt is Handler of a server with an address.
func HandlerAt(addr string, d Daemon) http.Handler {
	return handler(&Options{Addr: addr, Daemon: func() Daemon { return d }}, context.Background())
}

// NewProofs returns what notes that a proof is used.
func NewProofs() func(nonce string, made time.Time) error { return new(proofs).use }
