package jetstream

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/nats-io/nats.go"
)

// Error codes of JetStream (server/errors.json of nats-server) that this package tells apart.
const (
	codeExceedsMaximum     = 10054
	codeStreamMismatch     = 10060
	codeWrongLastID        = 10070
	codeWrongLastSequence  = 10071
	codeStoreFailed        = 10077
	codeHeaderTooLarge     = 10097
	codeSealed             = 10109
	codeBatchDisabled      = 10174
	codeBatchNoSequence    = 10175
	codeBatchIncomplete    = 10176
	codeBatchHeader        = 10177
	codeBatchID            = 10179
	codeBatchTooLarge      = 10199
	codeBatchCommit        = 10200
	codeBatchDuplicate     = 10201
	codeTooManyBatches     = 10210
	codeWrongSequenceConst = 10164
)

// Status codes of answers without a body: nobody listens on the subject, and the stream takes in
// more than it can store.
const (
	statusNobody = 503
	statusFull   = 429
)

// ack is the server's answer to one message.
type ack struct {
	stream    string
	seq       uint64
	duplicate bool
	// count is how many messages the batch has that was stored, 0 for a single message.
	count int
	// err is not nil when the message was refused.
	err error
	// code is the error code of a refusal by JetStream, or the status of an answer without a body,
	// else 0.
	code int
	// unsure: the refusal is not the server's, the message may be stored all the same.
	unsure bool
}

// errNoStream is the refusal of a server on which nobody listens on the subject.
var errNoStream = errors.New("no stream takes this subject: add it to a stream's subjects, or JetStream is still starting")

// fenceBroken says that the message was refused because the one before it is not the last of the
// stream.
func (a *ack) fenceBroken() bool {
	return a.code == codeWrongLastID || a.code == codeWrongLastSequence || a.code == codeWrongSequenceConst
}

// tooLarge says that the message will be refused whatever happens.
func (a *ack) tooLarge() bool { return a.code == codeExceedsMaximum || a.code == codeHeaderTooLarge }

// full says that the stream has no room and discards what is new. Nothing of a single message is
// stored then.
func (a *ack) full() bool {
	return a.code == codeStoreFailed && strings.Contains(a.err.Error(), "maximum")
}

// notStored says of an answer to the last message of an atomic batch that nothing of it is stored,
// and that it may be sent again. Other refusals may come while a batch is being stored; a wrong
// sequence says that the claim is not the last one any more.
func (a *ack) notStored() bool {
	switch a.code {
	case codeWrongSequenceConst, codeBatchIncomplete, codeTooManyBatches, statusNobody, statusFull,
		codeBatchDisabled, codeBatchNoSequence, codeBatchHeader, codeBatchID, codeBatchTooLarge, codeBatchCommit, codeBatchDuplicate,
		codeExceedsMaximum, codeHeaderTooLarge, codeStreamMismatch, codeSealed:
		return true
	}
	return false
}

// parseAck reads an answer, which is most likely that of the stream own.
func parseAck(m *nats.Msg, own string) ack {
	if len(m.Data) == 0 {
		switch status := m.Header.Get("Status"); status {
		case "503":
			return ack{code: statusNobody, err: errNoStream}
		case "429":
			return ack{code: statusFull, err: errors.New("the stream takes in more than it can store (429)")}
		default:
			return ack{err: fmt.Errorf("empty answer with status %q", status)}
		}
	}
	if a, ok := parsePlain(m.Data, own); ok {
		return a
	}
	return parseJSON(m.Data)
}

// parsePlain reads {"stream":"S","seq":7}, with or without a domain, which almost every answer is.
// A name equal to own is not copied.
func parsePlain(data []byte, own string) (ack, bool) {
	rest, ok := bytes.CutPrefix(data, []byte(`{"stream":"`))
	if !ok {
		return ack{}, false
	}
	name, rest, ok := bytes.Cut(rest, []byte(`",`))
	if !ok || bytes.IndexByte(name, '\\') >= 0 || !utf8.Valid(name) {
		return ack{}, false
	}
	if domain, after, found := bytes.Cut(rest, []byte(`",`)); found && bytes.HasPrefix(domain, []byte(`"domain":"`)) {
		rest = after
	}
	digits, begins := bytes.CutPrefix(rest, []byte(`"seq":`))
	digits, ends := bytes.CutSuffix(digits, []byte("}"))
	seq, err := strconv.ParseUint(string(digits), 10, 64)
	if !begins || !ends || err != nil || seq == 0 {
		return ack{}, false
	}
	if string(name) == own {
		return ack{stream: own, seq: seq}, true
	}
	return ack{stream: string(name), seq: seq}, true
}

func parseJSON(data []byte) ack {
	var answer struct {
		Stream    string `json:"stream"`
		Seq       uint64 `json:"seq"`
		Duplicate bool   `json:"duplicate"`
		Count     int    `json:"count"`
		Error     *struct {
			Code        int    `json:"err_code"`
			Description string `json:"description"`
		} `json:"error"`
	}
	if err := json.Unmarshal(data, &answer); err != nil {
		return ack{err: fmt.Errorf("read the answer to a message: %w", err)}
	}
	if e := answer.Error; e != nil {
		return ack{stream: answer.Stream, code: e.Code, err: advised(e.Code, fmt.Errorf("%s (%d)", e.Description, e.Code))}
	}
	if answer.Seq == 0 {
		return ack{err: fmt.Errorf("an answer without a sequence: %.200s", data)}
	}
	return ack{stream: answer.Stream, seq: answer.Seq, duplicate: answer.Duplicate, count: answer.Count}
}
