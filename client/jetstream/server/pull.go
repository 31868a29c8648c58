package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"example.org/bridge/client/bus"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	// pullBatch and pullBytes bound what one pull brings; two are under way at most.
	pullBatch = 4000
	pullBytes = 4 << 20
	// pullExpires is how long the server waits for messages, pullGrace how late it may be.
	pullExpires = 5 * time.Second
	pullGrace   = 3 * time.Second
	// forgetAfter is when the server forgets a consumer that nobody pulls from.
	forgetAfter = time.Minute
	// Codes of the server for filters that the stream's subjects do not cover, and that overlap.
	codeNotSubset   = 10093
	codeOverlapping = 10138
)

// pulling reads messages by a consumer of its own, whose messages have numbers without a gap.
type pulling struct {
	*reading
	session *Session
	pull    string
	inbox   string
	arrived chan *nats.Msg
	// filtered says that the consumer delivers no messages of other subjects.
	filtered bool
	// open counts the messages that were asked for and may come, number the last that came.
	open   int
	number uint64
	// pulled counts those that came since the last pull, large has the next one ask for one message
	// of any size.
	pulled int
	large  bool
}

// consume reads over one consumer: to the end, or until another one is needed. The server forgets
// the consumer when it is told to, or by itself.
func (r *reading) consume(ctx context.Context, session *Session) error {
	p := &pulling{reading: r, session: session, inbox: session.NC.NewInbox(), arrived: make(chan *nats.Msg, 2*pullBatch+16)}
	info, err := p.create(ctx)
	if err != nil {
		return fmt.Errorf("make a consumer: %w", Advised(err))
	}
	name := r.span.TP + "." + info.Name
	p.pull = session.API("CONSUMER.MSG.NEXT." + name)
	defer func() { _ = session.NC.Publish(session.API("CONSUMER.DELETE."+name), nil) }()
	sub, err := session.NC.ChanSubscribe(p.inbox, p.arrived)
	if err != nil {
		return err
	}
	// A connection that is gone has taken the subscription with it.
	defer func() { _ = sub.Unsubscribe() }()
	caughtUp := info.NumPending == 0
	for !r.span.Done(r.next) {
		if caughtUp && r.span.To != bus.NoEnd {
			if done, err := r.proveEnd(ctx, session); done || err != nil {
				return err
			}
		}
		if err := p.request(); err != nil {
			return err
		}
		if caughtUp, err = p.receive(ctx); err != nil {
			return err
		}
		if r.skipped > 0 && time.Since(r.asked) >= firstEvery {
			if _, err := r.describe(ctx, session); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *pulling) create(ctx context.Context) (*jetstream.ConsumerInfo, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, RequestTimeout, ErrNoReply)
	defer cancel()
	config := jetstream.ConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: p.next, FilterSubjects: p.reader.filters,
		AckPolicy: jetstream.AckNonePolicy, InactiveThreshold: forgetAfter, Replicas: 1, MemoryStorage: true,
	}
	p.filtered = len(p.reader.filters) == len(p.reader.conns.options.Readable)
	consumer, err := p.session.JS.CreateConsumer(ctx, p.span.TP, config)
	if refused, ok := errors.AsType[*jetstream.APIError](err); ok &&
		(refused.ErrorCode == codeNotSubset || refused.ErrorCode == codeOverlapping) {
		config.FilterSubjects, p.filtered = nil, false
		consumer, err = p.session.JS.CreateConsumer(ctx, p.span.TP, config)
	}
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return nil, errMissing
	case err != nil:
		return nil, err
	}
	return consumer.CachedInfo(), nil
}

// request pulls when less than half a pull is under way.
func (p *pulling) request() error {
	request := struct {
		Batch    int           `json:"batch"`
		MaxBytes int           `json:"max_bytes,omitempty"`
		Expires  time.Duration `json:"expires"`
	}{pullBatch, pullBytes, pullExpires}
	switch {
	case p.large && p.open > 0, p.open > pullBatch/2:
		return nil
	case p.large:
		request.Batch, request.MaxBytes, p.large = 1, 0, false
	}
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	p.open, p.pulled = p.open+request.Batch, 0
	return p.session.NC.PublishRequest(p.pull, p.inbox, body)
}

// receive returns the arrived messages, at least one message or status. caughtUp says that the
// consumer has nothing more, for all that it knows.
func (p *pulling) receive(ctx context.Context) (caughtUp bool, err error) {
	timer := time.NewTimer(pullExpires + pullGrace)
	defer timer.Stop()
	select {
	case m := <-p.arrived:
		caughtUp, err = p.one(m)
	case <-p.session.Gone:
		err = p.session.Why()
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-timer.C:
		err = fmt.Errorf("%w within %s", errSilent, pullExpires+pullGrace)
	}
	for err == nil && len(p.arrived) > 0 && p.open > pullBatch/2 && !p.span.Done(p.next) {
		caughtUp, err = p.one(<-p.arrived)
	}
	return caughtUp, err
}

func (p *pulling) one(m *nats.Msg) (caughtUp bool, err error) {
	if m.Reply == "" {
		return p.status(m)
	}
	meta, err := m.Metadata()
	if err != nil {
		return false, fmt.Errorf("a message has the reply %q: %w", m.Reply, err)
	}
	if meta.Sequence.Consumer != p.number+1 {
		return false, fmt.Errorf("message %d of the consumer came after %d", meta.Sequence.Consumer, p.number)
	}
	at := meta.Sequence.Stream
	p.number++
	p.open--
	p.pulled++
	if at > p.next && p.skipped == 0 {
		p.skipped = p.next
	}
	if p.span.Done(at) {
		// What lies before it has been read.
		p.next = p.span.To
		return false, nil
	}
	if at >= p.next {
		if p.filtered || len(p.reader.filters) == 0 || p.reader.covers(m.Subject) != "" {
			err = p.hand(at, m.Subject, m.Header, m.Data, meta.Timestamp.UnixMilli())
		}
		p.next = at + 1
	}
	return meta.NumPending == 0, err
}

// status takes the end of a pull.
func (p *pulling) status(m *nats.Msg) (caughtUp bool, err error) {
	status, description := m.Header.Get("Status"), m.Header.Get("Description")
	if left, err := strconv.Atoi(m.Header.Get("Nats-Pending-Messages")); err == nil {
		p.open = max(p.open-left, 0)
	}
	switch {
	case status == "408", status == "404":
		return true, nil
	case status == "409" && strings.Contains(strings.ToLower(description), "maxbytes"):
		p.large = p.pulled == 0
		return false, nil
	case status == "409" && strings.EqualFold(description, "Batch Completed"), status == "100":
		// All its messages have come, and it had room for more bytes; or the server is alive.
		return false, nil
	}
	return false, fmt.Errorf("the server ends the pull: %s %s", status, description)
}

func (r *reading) hand(at uint64, subject string, header nats.Header, value []byte, millis int64) error {
	r.message = bus.Stored{Offset: at, Destination: subject, Value: value, Headers: r.message.Headers[:0], Time: millis}
	r.arena = r.arena[:0]
	for name, values := range header {
		for _, v := range values {
			from := len(r.arena)
			r.arena = append(r.arena, v...)
			r.message.Headers = append(r.message.Headers, bus.Header{Name: name, Value: r.arena[from:len(r.arena):len(r.arena)]})
		}
	}
	return r.each(&r.message)
}

// proveEnd asks the leader whether a message is left before the end of the span. A consumer may
// live on a server that lags behind, so that it sees nothing proves nothing.
func (r *reading) proveEnd(ctx context.Context, session *Session) (done bool, err error) {
	// Behind this no message is before the end of the span any more that was not there already.
	info, err := r.describe(ctx, session)
	if err != nil {
		return false, err
	}
	if _, end := boundsOf(info); end < r.span.To {
		giveUp := r.reader.conns.options.GiveUpAfter
		if r.waiting.IsZero() {
			r.waiting = time.Now()
		}
		if giveUp == 0 || time.Since(r.waiting) <= giveUp {
			return false, nil
		}
		r.failing = r.waiting
		return false, fmt.Errorf("%w within %v, and the stream ends before %d", errSilent, giveUp, r.span.To)
	}
	subjects := r.reader.filters
	if len(subjects) == 0 {
		subjects = []string{">"}
	}
	for _, subject := range subjects {
		m, err := GetMessage(ctx, session, r.span.TP, Query{Seq: r.next, NextFor: subject})
		if err != nil {
			return false, err
		}
		if m != nil && !r.span.Done(m.Seq) {
			return false, nil
		}
	}
	if r.skipped == 0 {
		r.skipped = r.next
	}
	r.next = r.span.To
	return true, nil
}

// Query asks for the message at a sequence, the first one from it on with a subject, or the
// last one with a subject.
type Query struct {
	Seq     uint64 `json:"seq,omitempty"`
	NextFor string `json:"next_by_subj,omitempty"`
	LastFor string `json:"last_by_subj,omitempty"`
}

// Message is a message in the answer of the leader.
type Message struct {
	Subject string `json:"subject"`
	Seq     uint64 `json:"seq"`
	Header  []byte `json:"hdrs"`
	Data    []byte `json:"data"`
	// Time is when it was stored.
	Time    time.Time   `json:"time"`
	Headers nats.Header `json:"-"`
}

const codeNoMessage = 10037

// GetMessage asks the leader of a stream for one message, nil if there is none. (The library asks
// any replica where the stream allows that.)
func GetMessage(ctx context.Context, session *Session, stream string, query Query) (*Message, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, RequestTimeout, ErrNoReply)
	defer cancel()
	body, err := json.Marshal(query)
	if err != nil {
		return nil, err
	}
	reply, err := session.NC.RequestWithContext(ctx, session.API("STREAM.MSG.GET."+stream), body)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("ask for message %d: %w", query.Seq, err)
	}
	var answer struct {
		Message *Message            `json:"message"`
		Error   *jetstream.APIError `json:"error"`
	}
	if err := json.Unmarshal(reply.Data, &answer); err != nil {
		return nil, fmt.Errorf("read the answer about message %d: %w", query.Seq, err)
	}
	switch {
	case answer.Error != nil && answer.Error.ErrorCode == codeNoMessage:
		return nil, nil
	case answer.Error != nil:
		return nil, fmt.Errorf("ask for message %d: %w", query.Seq, answer.Error)
	case answer.Message == nil:
		return nil, fmt.Errorf("ask for message %d: the answer holds none", query.Seq)
	}
	if m := answer.Message; len(m.Header) > 0 {
		if m.Headers, err = nats.DecodeHeadersMsg(m.Header); err != nil {
			return nil, fmt.Errorf("read the headers of message %d: %w", m.Seq, err)
		}
	}
	return answer.Message, nil
}
