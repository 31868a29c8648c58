package jetstream

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"

	"example.org/bridge/client/jetstream/server"
	"example.org/bridge/internal/option"
	"example.org/bridge/sink"
)

// Headers that the server acts on (ADR-22 and ADR-50 of NATS).
const (
	headerMsgID        = "Nats-Msg-Id"
	headerStream       = "Nats-Expected-Stream"
	headerLastSequence = "Nats-Expected-Last-Sequence"
	headerLastID       = "Nats-Expected-Last-Msg-Id"

	headerLastSubjectSequence = "Nats-Expected-Last-Subject-Sequence"
	headerSubjectOfSequence   = "Nats-Expected-Last-Subject-Sequence-Subject"
	headerBatchID             = "Nats-Batch-Id"
	headerBatchSequence       = "Nats-Batch-Sequence"
	headerBatchCommit         = "Nats-Batch-Commit"
)

// envelope turns messages into those of NATS, one at a time, in the same memory. The library copies
// what it is given before PublishMsg returns.
type envelope struct {
	msg nats.Msg
	// prefix stands before each subject.
	prefix  string
	headers sink.Headers
	// values has memory for the value of each header.
	values map[string][]string
}

func newEnvelope() *envelope {
	return &envelope{headers: sink.Headers{Keyless: true}, msg: nats.Msg{Header: make(nats.Header, 16)}, values: make(map[string][]string)}
}

// fill makes e the message m that is answered at reply.
func (e *envelope) fill(m *sink.Message, reply string) *nats.Msg {
	e.msg.Subject, e.msg.Reply, e.msg.Data = e.prefix+m.Destination, reply, m.Value
	clear(e.msg.Header)
	e.headers.Each(m, e.set)
	return &e.msg
}

func (e *envelope) set(name, value string) {
	v := e.values[name]
	if v == nil {
		v = make([]string, 1)
		e.values[name] = v
	}
	v[0] = value
	e.msg.Header[name] = v
}

// Error codes of JetStream (server/errors.json of nats-server) that this package tells apart.
const (
	codeExceedsMaximum     = 10054
	codeStreamMismatch     = 10060
	codeWrongLastID        = 10070
	codeWrongLastSequence  = 10071
	codeStoreFailed        = 10077
	codeHeaderTooLarge     = 10097
	codeSealed             = 10109
	codeWrongSequenceConst = 10164
	codeBatchDisabled      = 10174
	codeBatchNoSequence    = 10175
	codeBatchIncomplete    = 10176
	codeBatchHeader        = 10177
	codeBatchID            = 10179
	codeBatchTooLarge      = 10199
	codeBatchCommit        = 10200
	codeBatchDuplicate     = 10201
	codeTooManyBatches     = 10210
)

// Status codes of answers without a body: nobody listens on the subject, and the stream takes in
// more than it can store.
const (
	statusNobody = 503
	statusFull   = 429
)

type ack struct {
	stream    string
	domain    string
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

var errNoStream = errors.New("no stream takes this subject: add it to a stream's subjects, or JetStream is still starting")

// fenceBroken says that the message was refused because the one before it is not the last of the
// stream.
func (a *ack) fenceBroken() bool {
	return a.code == codeWrongLastID || a.code == codeWrongLastSequence || a.code == codeWrongSequenceConst
}

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

// stray returns why an answer does not count, nil where it does: behind a leaf node a stream of
// another domain may have the subject, and the name, too.
func (a *ack) stray(o *Options) error {
	if a.domain == "" || o.JetStreamDomain == "" || a.domain == o.JetStreamDomain {
		return nil
	}
	return option.Errorf("%w but by the domain %s, of which a stream takes the subject, too: take it from that stream, or correct %s",
		errNoAnswer, a.domain, option.NATSDomain)
}

func parseAck(m *nats.Msg) ack {
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
	var answer struct {
		Stream    string `json:"stream"`
		Domain    string `json:"domain"`
		Seq       uint64 `json:"seq"`
		Duplicate bool   `json:"duplicate"`
		Count     int    `json:"count"`
		Error     *struct {
			Code        int    `json:"err_code"`
			Description string `json:"description"`
		} `json:"error"`
	}
	if err := json.Unmarshal(m.Data, &answer); err != nil {
		return ack{err: fmt.Errorf("read the answer to a message: %w", err)}
	}
	if e := answer.Error; e != nil {
		return ack{stream: answer.Stream, code: e.Code, err: advised(e.Code, fmt.Errorf("%s (%d)", e.Description, e.Code))}
	}
	if answer.Seq == 0 {
		return ack{err: fmt.Errorf("an answer without a sequence: %.200q", m.Data)}
	}
	return ack{stream: answer.Stream, domain: answer.Domain, seq: answer.Seq, duplicate: answer.Duplicate, count: answer.Count}
}

// limits are the sizes in bytes, headers included, up to which messages are taken. Zero and less
// means none.
type limits struct {
	// payload is max_payload of the server, message is max_msg_size of the stream.
	payload, message int64
	// condition is the length of the subject of the claim, where there is one.
	condition int64
	// tooLong is [server.Session.TooLong].
	tooLong int
}

// maxHeaders is how long the headers of a message on a stream may be, and maxSubject its subject.
const maxHeaders, maxSubject = 1<<16 - 1, 1<<16 - 1

// refusal returns why m will never be taken, or "".
func (l limits) refusal(m *sink.Message) string {
	// The line with which it is published, at most.
	line := lineTo(m.Destination)
	switch {
	case m.ID == "":
		return "the message has no id"
	case !validSubject(m.Destination):
		return fmt.Sprintf("invalid NATS subject %.200q: use tokens without blanks and wildcards", m.Destination)
	case len(m.Destination) > maxSubject:
		return fmt.Sprintf("its subject has %d bytes, and JetStream takes %d", len(m.Destination), maxSubject)
	case line > maxLine:
		return fmt.Sprintf("its subject makes a line of %d bytes, and NATS servers take %d by default (max_control_line): shorten the subject", line, maxLine)
	case l.tooLong > 0 && line >= l.tooLong:
		return fmt.Sprintf("its subject makes a line of %d bytes, and the NATS server has closed the connection for one of %d (max_control_line): "+
			"shorten the subject, or increase that and restart bridge", line, l.tooLong)
	}
	lowest := int64(math.MaxInt64)
	for _, limit := range []int64{l.payload, l.message} {
		if limit > 0 {
			lowest = min(lowest, limit)
		}
	}
	// Far from the limits the exact size does not matter.
	rough := 1024 + len(m.Type) + len(m.Version) + len(m.Domain) + len(m.Stream) + len(m.Shard) + 4*len(m.ID) + len(m.Key) + len(m.State.Key)
	if m.Bare != nil {
		for _, own := range m.Bare.Headers {
			rough += len(own.Name) + len(own.Value) + len(": \r\n")
		}
	}
	if rough <= maxHeaders && int64(rough+len(m.Value)) <= lowest {
		return ""
	}
	size := wireSize(m)
	if l.condition > 0 {
		// What the headers of a batch have beyond those that wireSize counts.
		const id, digits, names = 40, 20, len(headerBatchID + headerBatchSequence + headerBatchCommit + headerLastSubjectSequence +
			headerSubjectOfSequence + headerStream)
		size += int64(id+3*digits+names+6*len(": \r\n")) + l.condition
	}
	if headers := size - int64(len(m.Value)); headers > maxHeaders {
		return fmt.Sprintf("its headers have %d bytes, and JetStream takes %d: the key is one of them, with %d bytes",
			headers, maxHeaders, len(m.Key))
	}
	if l.payload > 0 && size > l.payload {
		return fmt.Sprintf("%d bytes with its headers are more than max_payload of the NATS server, %d bytes when bridge connected: a reload asks again", size, l.payload)
	}
	if l.message > 0 && size > l.message {
		return fmt.Sprintf("%d bytes with its headers are more than max_msg_size of the stream, %d bytes", size, l.message)
	}
	return ""
}

// wireSize is the size of m with the most headers that it can be sent with.
func wireSize(m *sink.Message) int64 {
	const digits, hash, stamp = 20, len("/") + 11, len("/") + 16 + len(".") + 16
	size := len("NATS/1.0\r\n") + len("\r\n") + len(m.Value)
	add := func(name string, value int) { size += len(name) + len(": ") + value + len("\r\n") }
	headers := sink.Headers{Keyless: true}
	headers.Each(m, func(name, value string) { add(name, len(value)) })
	add(headerMsgID, len(m.DedupID()))
	// The message before may be a repair.
	add(headerLastID, len(m.ID)+hash+stamp)
	add(headerLastSequence, digits)
	return int64(size)
}

// validSubject reports whether s can be published to: tokens that are not empty, no wildcard, no
// white space.
func validSubject(s string) bool {
	if strings.ContainsAny(s, " \t\r\n\x00") {
		return false
	}
	for token := range strings.SplitSeq(s, ".") {
		if token == "" || token == "*" || token == ">" {
			return false
		}
	}
	return true
}

// maxLine is max_control_line of a server by default. A server does not tell its own, and closes a
// connection with a longer line, which all streams share: see [server.Session.TooLong].
const maxLine = 4096

func lineTo(subject string) int {
	const inbox, token, headers, all = 7 + 22 + 1, 20, 5, 8
	return len(subject) + inbox + token + headers + all + len("   ")
}

// wire is what a publisher uses of a [server.Session]: an inbox for the answers to what it
// publishes.
type wire struct {
	*server.Session
	inbox string
	sub   *nats.Subscription
	// acks has room for every answer that can be under way.
	acks chan *nats.Msg
	// denied holds the last refusal that belongs to no answer.
	denied chan error
	forget func()
}

// openWire subscribes an inbox. room is the number of messages that may wait for an answer.
func openWire(s *server.Session, room int) (*wire, error) {
	w := &wire{Session: s, inbox: s.NC.NewInbox() + ".", acks: make(chan *nats.Msg, 4*room), denied: make(chan error, 1)}
	var err error
	if w.sub, err = s.NC.ChanSubscribe(w.inbox+"*", w.acks); err != nil {
		return nil, err
	}
	w.forget = s.OnDenied(func(err error) {
		select {
		case w.denied <- err:
		default:
		}
	})
	return w, nil
}

func (w *wire) publish(m *nats.Msg) error {
	w.Sends(lineTo(m.Subject))
	return w.NC.PublishMsg(m)
}

func (w *wire) close() {
	w.forget()
	// A connection that is gone has taken the subscription with it.
	_ = w.sub.Unsubscribe()
}

func (w *wire) reply(token uint64) string {
	return string(strconv.AppendUint(append(make([]byte, 0, 48), w.inbox...), token, 10))
}

func (w *wire) token(subject string) (uint64, bool) {
	if len(subject) <= len(w.inbox) {
		return 0, false
	}
	n, err := strconv.ParseUint(subject[len(w.inbox):], 10, 64)
	return n, err == nil
}
