package jetstream

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"example.org/bridge/sink"
)

// Headers that the server acts on (ADR-22 of NATS).
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

// fence is what the server has to find before it stores a message.
type fence struct {
	// id is the one by which repeats of the message are dropped, "" in an atomic batch.
	id string
	// stream is the stream's name; "" asks for nothing.
	stream string
	// sequenced asks for last as the last sequence of the stream.
	sequenced bool
	last      uint64
	// lastID is the id of the stream's last message; "" asks for nothing.
	lastID string

	// subject asks for subjectLast as the sequence of the last message there; "" asks for nothing.
	subject     string
	subjectLast uint64
	// batch is the id of an atomic batch, "" for a message of none. number is that of the message
	// in it, from 1; commit says that it is the last one.
	batch  string
	number int
	commit bool
}

// envelope turns messages into those of NATS, one at a time, in the same memory. The library copies
// what it is given before PublishMsg returns.
type envelope struct {
	msg nats.Msg
	// prefix stands before each subject.
	prefix  string
	headers sink.Headers
	// own are the headers of messages, in the order of sink.HeaderNames; next is the one that comes
	// next. A change of a value needs no look into the map.
	own  []header
	next int
	// What follows are the headers of the server.
	id, stream, lastID, lastSequence                 header
	subject, subjectLast, batch, batchNumber, commit header
}

// header is a header, which not every message has.
type header struct {
	name  string
	value []string
	// there: it is in the map.
	there bool
}

func newEnvelope() *envelope {
	named := func(name string) header { return header{name: name, value: make([]string, 1)} }
	e := &envelope{
		headers: sink.Headers{Keyless: true},
		msg:     nats.Msg{Header: make(nats.Header, 16)},
		id:      named(headerMsgID), stream: named(headerStream), lastID: named(headerLastID), lastSequence: named(headerLastSequence),
		subject: named(headerSubjectOfSequence), subjectLast: named(headerLastSubjectSequence),
		batch: named(headerBatchID), batchNumber: named(headerBatchSequence), commit: named(headerBatchCommit),
	}
	for _, name := range sink.HeaderNames() {
		e.own = append(e.own, named(name))
	}
	return e
}

// fill makes e the message m that is answered at reply.
func (e *envelope) fill(m *sink.Message, reply string, f fence) *nats.Msg {
	e.msg.Subject, e.msg.Reply, e.msg.Data = e.prefix+m.Destination, reply, m.Value
	e.next = 0
	e.headers.Each(m, e.add)
	for e.next < len(e.own) {
		e.skip()
	}
	e.set(&e.id, f.id)
	e.fillBatch(f)
	e.set(&e.stream, f.stream)
	e.set(&e.lastID, f.lastID)
	last := ""
	if f.sequenced {
		last = e.headers.Number(f.last)
	}
	e.set(&e.lastSequence, last)
	return &e.msg
}

// fillBatch sets the headers of atomic batches.
func (e *envelope) fillBatch(f fence) {
	last, number, commit := "", "", ""
	if f.subject != "" {
		last = strconv.FormatUint(f.subjectLast, 10)
	}
	if f.batch != "" {
		number = strconv.Itoa(f.number)
		if f.commit {
			commit = "1"
		}
	}
	e.set(&e.subject, f.subject)
	e.set(&e.subjectLast, last)
	e.set(&e.batch, f.batch)
	e.set(&e.batchNumber, number)
	e.set(&e.commit, commit)
}

// add sets the next header of a message, and removes those between, which it does not have.
func (e *envelope) add(name, value string) {
	for e.own[e.next].name != name {
		e.skip()
	}
	e.put(&e.own[e.next], value)
	e.next++
}

// skip removes the next header of messages.
func (e *envelope) skip() {
	e.set(&e.own[e.next], "")
	e.next++
}

// put sets a header to a value that may be empty.
func (e *envelope) put(h *header, value string) {
	h.value[0] = value
	if !h.there {
		e.msg.Header[h.name], h.there = h.value, true
	}
}

// set sets a header that not every message has, or removes one that is empty.
func (e *envelope) set(h *header, value string) {
	if value != "" {
		e.put(h, value)
	} else if h.there {
		delete(e.msg.Header, h.name)
		h.there = false
	}
}

// limits are the sizes in bytes, headers included, up to which messages are taken. Zero and less
// means none.
type limits struct {
	// payload is max_payload of the server, message is max_msg_size of the stream.
	payload, message int64
	// condition is the length of the subject of the claim, where there is one.
	condition int64
	// line is the length of the longest line of the protocol, guess says that longer ones may be
	// taken, too.
	line  int
	guess bool
}

// maxHeaders is how long the headers of a message on a stream may be, and maxSubject its subject.
const maxHeaders, maxSubject = 1<<16 - 1, 1<<16 - 1

// refusal returns why m will never be taken, or "".
func (l limits) refusal(m *sink.Message) string {
	switch {
	case m.ID == "":
		return "the message has no id"
	case !validSubject(m.Destination):
		return fmt.Sprintf("invalid NATS subject %.200q: use tokens without blanks and wildcards", m.Destination)
	case len(m.Destination) > maxSubject:
		return fmt.Sprintf("its subject has %d bytes, and JetStream takes %d", len(m.Destination), maxSubject)
	}
	if n := lineOf(m); l.line > 0 && n > l.line {
		return l.tooLong(n)
	}
	// Far from the limits the exact size does not matter.
	rough := 1024 + len(m.Type) + len(m.Version) + len(m.Domain) + len(m.Stream) + len(m.Shard) + 4*len(m.ID) + len(m.Key) + len(m.State.Key)
	if rough <= maxHeaders && int64(rough+len(m.Value)) <= l.lowest() {
		return ""
	}
	size := wireSize(m) + l.batchSize()
	if headers := size - int64(len(m.Value)); headers > maxHeaders {
		return fmt.Sprintf("its headers have %d bytes, and JetStream takes %d: the key is one of them, with %d bytes", headers, maxHeaders, len(m.Key))
	}
	if l.payload > 0 && size > l.payload {
		return fmt.Sprintf("%d bytes with its headers are more than max_payload of the NATS server, %d bytes", size, l.payload)
	}
	if l.message > 0 && size > l.message {
		return fmt.Sprintf("%d bytes with its headers are more than max_msg_size of the stream, %d bytes", size, l.message)
	}
	return ""
}

// batchSize is how much longer the headers of a message in an atomic batch are than those that
// wireSize counts.
func (l limits) batchSize() int64 {
	if l.condition == 0 {
		return 0
	}
	const id, digits, names = 40, 20, len(headerBatchID + headerBatchSequence + headerBatchCommit + headerLastSubjectSequence + headerSubjectOfSequence + headerStream)
	return int64(id+3*digits+names+6*len(": \r\n")) + l.condition
}

func (l limits) lowest() int64 {
	switch {
	case l.payload <= 0:
		return l.message
	case l.message <= 0:
		return l.payload
	}
	return min(l.payload, l.message)
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
	if s == "" || s[0] == '.' || s[len(s)-1] == '.' || strings.Contains(s, "..") || strings.ContainsAny(s, " \t\r\n\x00") {
		return false
	}
	if !strings.ContainsAny(s, "*>") {
		return true
	}
	for token := range strings.SplitSeq(s, ".") {
		if token == "*" || token == ">" {
			return false
		}
	}
	return true
}

const (
	// shortLine is a length of lines that every server takes: CONNECT needs about as much.
	shortLine = 256
	// usualLine is max_control_line of a server by default.
	usualLine = 4096
	// linesFor is how long it is believed that a server refuses a line: the limit may be changed.
	linesFor = time.Minute
	// probes that end without an answer prove that the server refuses the line: it may close the
	// connection before its reason is read.
	probes = 3
)

// lines finds out how long a line of the protocol may be (max_control_line). The server does not
// tell, and closes a connection with a longer one, which all streams share: it is asked over
// another connection.
type lines struct {
	dial func(ctx context.Context) (*nats.Conn, error)

	mu sync.Mutex
	// taken is the length of the longest line that the server is known to take. exact says that it
	// takes no longer ones, as was seen at the time asked.
	taken int
	exact bool
	asked time.Time
}

// limit returns the length of the longest line that may be sent. Lines up to need are then taken,
// or exact is true: longer ones than the limit are refused. Where no second connection can be made
// the server counts as one with the default.
func (l *lines) limit(ctx context.Context, need int) (limit int, exact bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.exact && time.Since(l.asked) >= linesFor {
		l.exact = false
	}
	if need <= l.taken || l.exact {
		return l.taken, l.exact, nil
	}
	low, high := l.taken, need+1
	for try := need; low+1 < high; {
		takes, err := l.probe(ctx, try)
		switch {
		case ctx.Err() != nil:
			return low, false, context.Cause(ctx)
		case err != nil:
			return max(low, usualLine), true, nil
		case takes:
			low = try
		default:
			high = try
		}
		// Most often it is the default.
		switch {
		case low < usualLine && usualLine < high:
			try = usualLine
		case low == usualLine && high > usualLine+1:
			try = usualLine + 1
		default:
			try = (low + high) / 2
		}
	}
	l.taken, l.exact, l.asked = low, low < need, time.Now()
	return l.taken, l.exact, nil
}

// probe reports whether the server takes a line of n bytes. An error says that it cannot be asked.
func (l *lines) probe(ctx context.Context, n int) (takes bool, err error) {
	for range probes {
		nc, err := l.dial(ctx)
		if err != nil {
			return false, err
		}
		answers := subscribes(nc, n)
		reason := nc.LastError()
		nc.Close()
		if answers || reason != nil && strings.Contains(reason.Error(), "control line") {
			return answers, nil
		}
	}
	return false, nil
}

// subscribes sends a line of n bytes, which has no effect, and reports whether the server goes on.
func subscribes(nc *nats.Conn, n int) bool {
	// The line is: subject, an empty group, and the number 1.
	subject := nc.NewInbox() + "."
	subject += strings.Repeat("x", max(n-len("  1")-len(subject), 1))
	if _, err := nc.SubscribeSync(subject); err != nil {
		return false
	}
	return nc.FlushTimeout(requestTimeout) == nil
}

// lineOf returns the length of the line with which m is published, at most.
func lineOf(m *sink.Message) int {
	const inbox, token, headers, all = 7 + 22 + 1, 20, 5, 8
	return len(m.Destination) + inbox + token + headers + all + len("   ")
}

// errNoLines is the error of a connection that is gone.
var errNoLines = errors.New("the connection is gone")

// again returns a connection like that of s, to the same server.
func (c *connector) again(s *session) func(ctx context.Context) (*nats.Conn, error) {
	return func(ctx context.Context) (*nats.Conn, error) {
		options, err := c.options.login()
		if err != nil {
			return nil, err
		}
		servers := bare(c.options.URLs)
		if c.options.InProcess == nil {
			servers = bare([]string{s.nc.ConnectedUrl()})
		}
		if !s.alive() {
			return nil, errNoLines
		}
		return dial(ctx, servers, options)
	}
}

// measure sets how long lines may be, of which the longest has need bytes.
func (l *limits) measure(ctx context.Context, s *session, need int) error {
	line, exact, err := s.lines.limit(ctx, need)
	l.line, l.guess = line, !exact
	return err
}

// tooLong says why a message whose line has n bytes is refused.
func (l limits) tooLong(n int) string {
	return fmt.Sprintf("its subject makes a line of %d bytes, and the NATS server takes %d (max_control_line)", n, l.line)
}
