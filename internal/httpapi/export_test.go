package httpapi

import "time"

// For the tests, which are outside the package.
const MaxResendBytes = maxResendBytes

var (
	ErrResendTimeout = errResendTimeout
	ResendRequestOf  = resendRequestOf
)

// A machine that is busy with other things cuts no answer short.
func init() { closingTimeout = time.Minute }

// StatusAnswers is how many statuses are answered at a time.
const StatusAnswers = statusAnswers
