package httpapi

import (
	"context"
	"fmt"
	"net/http"

	"bridge/internal/shard"
)

const (
	// MaxResentAll bounds the dead letters of one request, and MaxResentShown those that its answer
	// lists.
	MaxResentAll   = 1000
	MaxResentShown = 20
	// resendAllTimeout is how long one request may take, the read of the bus included.
	resendAllTimeout = resendTimeout
)

var errResendAllTimeout = fmt.Errorf("it is not done within %s: what was handed on is published all the same, bridge deadletter resend does it for all", resendAllTimeout)

// ResentAll says what became of the dead letters of a stream, or in a dry run would.
type ResentAll struct {
	// Found counts the dead letters that were found, each once, at most MaxResentAll. More says
	// that there are others.
	Found int  `json:"found"`
	More  bool `json:"more"`
	// Fates counts them by fate.
	Fates map[shard.Fate]int `json:"fates"`
	// DeadLetters are the first MaxResentShown.
	DeadLetters []ResentDeadLetter `json:"letters"`
}

// ResentDeadLetter is one dead letter. Reason is why the bus has refused it.
type ResentDeadLetter struct {
	Shard  string `json:"shard"`
	Row    uint64 `json:"row"`
	Key    string `json:"key"`
	Reason string `json:"reason"`
	shard.ResendOutcome
}

func resendAllHandler(d Daemon) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mode, err := modeOf(r.URL.Query())
		if err != nil || mode.AllowDeletes {
			answer(w, http.StatusBadRequest, refused{"the only parameter is dryRun=true"})
			return
		}
		ctx, cancel := context.WithTimeoutCause(r.Context(), resendAllTimeout, errResendAllTimeout)
		defer cancel()
		// Publishing takes longer than other answers.
		extend(w, resendAllTimeout+writeTimeout)
		report, err := d.ResendAll(ctx, r.PathValue("name"), mode.DryRun)
		if err != nil {
			refuse(w, err, http.StatusConflict)
			return
		}
		answer(w, http.StatusOK, report)
	})
}
