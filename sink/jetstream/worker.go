package jetstream

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/nats-io/nats.go"

	"example.org/bridge/internal/backoff"
	"example.org/bridge/sink"
)

// worker is the one way of this process to one stream: every batch for the stream goes through it.
// Its goroutine alone sends.
type worker struct {
	name    string
	options *Options
	conns   *connector
	faults  *faults
	submit  chan *call

	// What follows belongs to the goroutine of serve.

	// calls are under way, in the order of their coming.
	calls []*call
	// suspects are the messages without an answer of the last fenced series, in their order.
	suspects []inFlight
	// doubt: a fence of the last series was shut, and whether by somebody else's message the
	// suspects tell.
	doubt bool
	// replicated: the stream has several replicas, and takes no fences.
	replicated bool
	// token is the next one; tokens are never used twice.
	token uint64
	// ring and env are memory for the series.
	ring []inFlight
	env  *envelope
	pace pace
	// warned: the log says that the stream is not set up well.
	warned bool
	// session is the connection that was used last, nil after a fault.
	session *session
	// ref names the stream as it was when the series began, base is its last sequence then.
	ref  sink.TPRef
	base uint64
}

func newWorker(name string, options *Options, conns *connector, faults *faults) *worker {
	w := &worker{
		name: name, options: options, conns: conns, faults: faults, submit: make(chan *call), ring: make([]inFlight, options.Window), env: newEnvelope(),
	}
	if options.Bucket != "" && options.JetStreamDomain != "" {
		// Buckets of another domain are reached by its API alone.
		w.env.prefix = options.api("")
	}
	return w
}

// serve publishes what is submitted until ctx ends. Calls under way are then simply left; their
// callers see ctx end, too.
func (w *worker) serve(ctx context.Context) {
	for ctx.Err() == nil {
		if len(w.calls) == 0 && !w.await(ctx) {
			return
		}
		s, err := w.conns.get(ctx)
		if err != nil {
			return
		}
		wire, err := s.open(w.options.Window)
		if err != nil {
			// Only a connection that has just gone refuses a subscription.
			continue
		}
		w.attend(ctx, wire)
		wire.close()
	}
}

// await blocks until there is a call.
func (w *worker) await(ctx context.Context) bool {
	select {
	case c := <-w.submit:
		w.calls = append(w.calls, c)
		return true
	case <-ctx.Done():
		return false
	}
}

// attend publishes over one wire until the connection goes or ctx ends.
func (w *worker) attend(ctx context.Context, wire *wire) {
	var pause backoff.Backoff
	for ctx.Err() == nil && wire.alive() {
		if abandoned := w.prune(); len(w.calls) == 0 {
			w.faults.gone(w.name, abandoned)
			return
		}
		former := w.ref
		r, err := w.begin(ctx, wire)
		if err != nil {
			if ctx.Err() == nil && wire.alive() {
				w.session = nil
				w.faults.fail(w.name, w.name, err)
				w.sleep(ctx, wire, pause.Next())
			}
			continue
		}
		w.faults.end(w.name)
		if w.session != wire.session || w.ref != former {
			w.session = wire.session
			w.options.Session(w.name)
		}
		pause.Reset()
		r.fly(ctx)
		r.end()
	}
}

// sleep waits, unless the connection goes.
func (w *worker) sleep(ctx context.Context, wire *wire, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		select {
		case c := <-w.submit:
			w.calls = append(w.calls, c)
		case <-timer.C:
			return
		case <-wire.gone:
			return
		case <-ctx.Done():
			return
		}
		w.prune()
	}
}

// prune lets go of the calls that are through. It reports whether the caller of one has left
// before.
func (w *worker) prune() (abandoned bool) {
	w.calls = slices.DeleteFunc(w.calls, func(c *call) bool {
		if !c.finished() {
			return false
		}
		left := c.abandoned()
		w.unfault(c, left)
		abandoned = abandoned || left
		return true
	})
	return abandoned
}

// progress notes that a message of c was stored.
func (w *worker) progress(c *call) {
	if c.fault != "" {
		w.unfault(c, false)
		c.pause.Reset()
	}
}

// unfault ends the fault of c, or with abandoned forgets it, unless another call has it.
func (w *worker) unfault(c *call, abandoned bool) {
	if c.fault == "" {
		return
	}
	fault := c.fault
	c.fault = ""
	if !slices.ContainsFunc(w.calls, func(other *call) bool { return other.fault == fault }) {
		w.faults.gone(fault, abandoned)
	}
}

// postpone keeps c back for a while because one of its messages was refused.
func (w *worker) postpone(c *call, index int, err error) {
	subject := c.destination(index)
	if subject == "" {
		return
	}
	if fault := w.name + " " + subject; fault != c.fault {
		w.unfault(c, false)
		c.fault = fault
	}
	c.until = time.Now().Add(c.pause.Next())
	w.faults.fail(w.name, c.fault, fmt.Errorf("publish to %s: %w", subject, err))
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

// When a worker gives up its fences and when it takes them up again.
const (
	// maxBreaks fences may be broken by others, one after the other with littleProgress between
	// them.
	maxBreaks      = 3
	littleProgress = 500
	// cleanAcks acknowledgements in a row without a repeat or a foreign message, and quietTime
	// without a foreign one.
	cleanAcks = 256
	quietTime = 5 * time.Second
	// For this long after a reconnect, the messages in between may be our own: the server still
	// reads what the old connection has sent.
	calmTime = time.Second
)

// pace decides between fenced series, which are strict and fast but need the stream for themselves,
// and unfenced ones.
type pace struct {
	unfenced bool
	breaks   int
	clean    int
	// next is the sequence of the next acknowledgement if nobody else writes; 0 when unknown.
	next uint64
	// foreign is when somebody else's message was last noticed.
	foreign time.Time
}

// ended draws the conclusions from a series. foreign says that somebody else's message ended it.
func (p *pace) ended(r *series, foreign bool, now time.Time) {
	p.next = 0
	if r.stored >= littleProgress {
		p.breaks = 0
	}
	switch {
	case r.moved:
		p.unfenced = false
		r.worker.options.Logger.Debug("publishing with fences again", "stream", r.worker.name)
	case r.fenced && r.sawDup:
		// Repeats seldom come alone, and each of them would end a fenced series.
		p.unfenced, p.clean = true, 0
	case r.fenced && foreign:
		p.broken(r.worker, r.wire.since, now)
	}
}

// broken notes that somebody else's message has shut a fence on a connection that began at since.
func (p *pace) broken(w *worker, since, now time.Time) {
	if now.Sub(since) < calmTime {
		return
	}
	if p.breaks++; p.breaks >= maxBreaks {
		p.unfenced, p.clean, p.breaks, p.foreign = true, 0, 0, now
		w.options.Logger.Info("others publish to the stream as well: one message per key at a time until they pause", "stream", w.name)
	}
}

// acked takes an acknowledgement of an unfenced series and reports whether fences are worth a try
// again.
func (p *pace) acked(a ack, now time.Time) bool {
	if a.duplicate {
		p.clean = 0
		return false
	}
	if p.next != 0 && a.seq != p.next {
		p.clean, p.foreign = 0, now
	}
	p.next = a.seq + 1
	p.clean++
	return p.clean >= cleanAcks && now.Sub(p.foreign) >= quietTime
}
