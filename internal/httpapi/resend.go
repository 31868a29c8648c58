package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"example.org/bridge/event"
	"example.org/bridge/internal/shard"
)

const (
	// MaxDeadLetters bounds the letters of one request.
	MaxDeadLetters = 100
	// resendTimeout is how long the owner of a shard may take for one request.
	resendTimeout = time.Minute
	// maxResendBytes bounds the body of a request: MaxDeadLetters with long keys fit.
	maxResendBytes = 4 << 20
)

var errResendTimeout = fmt.Errorf("it is not done within %s: the bus or the source holds it up; what was handed on is published all the same, ask again for the rest", resendTimeout)

// ResendRequest asks the owner of a shard to send letters again.
type ResendRequest struct {
	// Stream is part of the path.
	Stream      string            `json:"-"`
	Shard       string            `json:"shard"`
	DryRun      bool              `json:"dryRun"`
	DeadLetters DeadLettersToSend `json:"letters"`
}

// DeadLettersToSend are the dead letters of a request. Decoding stops one above the limit, because
// decoded letters take many times the size of the body. Invariant 7.
type DeadLettersToSend []shard.DeadLetter

// UnmarshalJSON implements json.Unmarshaler.
func (l *DeadLettersToSend) UnmarshalJSON(text []byte) error {
	*l = nil
	list := json.NewDecoder(bytes.NewReader(text))
	list.DisallowUnknownFields()
	if begin, err := list.Token(); err != nil || begin != json.Delim('[') {
		return errors.Join(err, errors.New("letters must be a list"))
	}
	for list.More() && len(*l) <= MaxDeadLetters {
		var one shard.DeadLetter
		if err := list.Decode(&one); err != nil {
			return err
		}
		*l = append(*l, one)
	}
	return nil
}

// resent is the answer: the outcome of each dead letter, in their order.
type resent struct {
	DeadLetters []shard.ResendOutcome `json:"letters"`
}

func resendHandler(d func() Daemon) http.Handler {
	return answered(resendTimeout, errResendTimeout, http.StatusConflict, func(w http.ResponseWriter, r *http.Request) (any, error) {
		request, err := resendRequestOf(w, r)
		if err != nil {
			return nil, badRequest{err}
		}
		outcomes, err := d().Resend(r.Context(), request)
		return resent{outcomes}, err
	})
}

// resendRequestOf parses a request and refuses a misspelt one, so that it publishes nothing.
func resendRequestOf(w http.ResponseWriter, r *http.Request) (request ResendRequest, err error) {
	if len(r.URL.RawQuery) > 0 {
		return request, errors.New("there are no parameters: shard, dryRun and letters stand in the body")
	}
	if err := readBody(w, r, maxResendBytes, &request); err != nil {
		return request, fmt.Errorf("read the body, a JSON object with shard, dryRun and letters: %w", err)
	}
	if n := len(request.DeadLetters); request.Shard == "" || n == 0 || n > MaxDeadLetters {
		return request, fmt.Errorf("the body needs a shard and 1 to %d dead letters", MaxDeadLetters)
	}
	for i := range request.DeadLetters {
		if id, err := event.ParseID(request.DeadLetters[i].Event); err != nil || id == ([16]byte{}) {
			return request, fmt.Errorf("dead letter %d has no event: its meta.id is a UUID in lower case", i+1)
		}
	}
	request.Stream = r.PathValue("name")
	return request, nil
}

// readBody reads the JSON object of a request of at most so many bytes, and refuses one that has
// members that request has not, or that something follows.
func readBody(w http.ResponseWriter, r *http.Request, most int64, request any) error {
	body := json.NewDecoder(http.MaxBytesReader(w, r.Body, most))
	body.DisallowUnknownFields()
	err := body.Decode(request)
	if _, more := body.Token(); err == nil && !errors.Is(more, io.EOF) {
		err = errors.Join(more, errors.New("something follows the object"))
	}
	return err
}

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
	// States counts them by what became of them.
	States map[shard.ResendState]int `json:"fates"`
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

func resendAllHandler(d func() Daemon) http.Handler {
	return answered(resendAllTimeout, errResendAllTimeout, http.StatusConflict, func(_ http.ResponseWriter, r *http.Request) (any, error) {
		mode, err := modeOf(r.URL.Query())
		if err != nil || mode.AllowDeletes {
			return nil, badRequest{errors.New("the only parameter is dryRun=true")}
		}
		return d().ResendAll(r.Context(), r.PathValue("name"), mode.DryRun)
	})
}
