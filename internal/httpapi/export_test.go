package httpapi

// For the tests, which are outside the package.
const MaxResendBytes = maxResendBytes

var (
	ErrResendTimeout = errResendTimeout
	ResendRequestOf  = resendRequestOf
)

// StatusAnswers is how many statuses are answered at a time.
const StatusAnswers = statusAnswers
