package jetstream

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"bridge/internal/backoff"
	"bridge/sink"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

var _ sink.Recaller = (*Sink)(nil)

// recallSilence is how long no message may come though some are left.
const recallSilence = 10 * time.Second

// notSubset is the server's code for a filter that the stream's subjects do not cover.
const notSubset = 10093

// Recall implements [sink.Recaller]. It reads the subjects that the options name, by a consumer
// that the server forgets.
func (s *Sink) Recall(ctx context.Context, marks []sink.Offset, each func(*sink.Message) error) (ends []sink.Offset, err error) {
	ctx, cancel := s.within(ctx)
	defer cancel()
	for _, m := range marks {
		r := &recall{sink: s, mark: m, next: m.Last + 1, each: each}
		if err := r.run(ctx); err != nil {
			return nil, err
		}
		if r.there && r.end > m.Last {
			ends = append(ends, sink.Offset{TP: m.TP, Incarnation: m.Incarnation, Last: r.end, ID: r.last})
		}
	}
	return ends, nil
}

// recall reads what a stream holds behind a mark: the sequences from next up to end, which is known
// once it was asked for.
type recall struct {
	sink      *Sink
	mark      sink.Offset
	next, end uint64
	// last is the id of the message at the end, once it was read.
	last string
	// there says that the stream is the one of the mark.
	there bool
	each  func(*sink.Message) error
	// told is the error of each.
	told error
}

// run reads to the end, over as many connections as that takes.
func (r *recall) run(ctx context.Context) error {
	what := "recall " + r.mark.TP
	defer r.sink.faults.leave(ctx, what)
	var pause backoff.Backoff
	for {
		session, err := r.sink.session(ctx)
		if err == nil {
			err = r.try(ctx, session)
		}
		switch {
		case r.told != nil:
			return r.told
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		}
		if denied := session.denial(); denied != nil {
			return fmt.Errorf("%w: allow the user of bridge to publish on $JS.API.CONSUMER.>: %w", sink.ErrUnreadable, denied)
		}
		r.sink.faults.fail(r.mark.TP, what, err)
		if err := r.sink.pause(ctx, pause.Next()); err != nil {
			return err
		}
	}
}

// try reads over one connection.
func (r *recall) try(ctx context.Context, session *session) error {
	stream, err := r.look(ctx, session)
	if err != nil || stream == nil {
		return err
	}
	consumer, err := r.consume(ctx, stream)
	if err != nil {
		return fmt.Errorf("make a consumer of the stream %s: %w", r.mark.TP, err)
	}
	if left := consumer.CachedInfo(); left.NumPending == 0 && left.Delivered.Consumer == 0 {
		return nil
	}
	messages, err := consumer.Messages()
	if err != nil {
		return fmt.Errorf("read the stream %s: %w", r.mark.TP, err)
	}
	defer messages.Stop()
	for r.next <= r.end {
		last, err := r.one(ctx, messages)
		if err != nil {
			return fmt.Errorf("read the stream %s behind %d: %w", r.mark.TP, r.next-1, err)
		}
		if last {
			break
		}
	}
	return nil
}

// look finds the stream, and once where it ends. It returns nil where nothing is to be read: what
// is lost Verify judges.
func (r *recall) look(ctx context.Context, session *session) (jetstream.Stream, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, requestTimeout, errNoReply)
	defer cancel()
	stream, err := session.js.Stream(ctx, r.mark.TP)
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("ask for the stream %s: %w", r.mark.TP, err)
	}
	info := stream.CachedInfo()
	if r.end == 0 {
		r.end = info.State.LastSeq
	}
	if r.mark.Incarnation != "" && r.mark.Incarnation != createdAt(info) {
		return nil, nil
	}
	if r.there = true; r.next > r.end {
		return nil, nil
	}
	return stream, nil
}

// consume makes an ordered consumer of what is left.
func (r *recall) consume(ctx context.Context, stream jetstream.Stream) (jetstream.Consumer, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, requestTimeout, errNoReply)
	defer cancel()
	config := jetstream.OrderedConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: r.next, FilterSubjects: r.sink.options.Readable,
	}
	consumer, err := stream.OrderedConsumer(ctx, config)
	if refused, ok := errors.AsType[*jetstream.APIError](err); ok && refused.ErrorCode == notSubset {
		config.FilterSubjects = nil
		consumer, err = stream.OrderedConsumer(ctx, config)
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return consumer, err
}

// one tells the next message, and whether it is the last.
func (r *recall) one(ctx context.Context, messages jetstream.MessagesContext) (last bool, err error) {
	waiting, cancel := context.WithTimeoutCause(ctx, recallSilence, fmt.Errorf("no message came for %s though some are left", recallSilence))
	defer cancel()
	m, err := messages.Next(jetstream.NextContext(waiting))
	if waiting.Err() != nil {
		return false, context.Cause(waiting)
	}
	if err != nil {
		return false, err
	}
	at, err := m.Metadata()
	if err != nil {
		return false, err
	}
	if at.Sequence.Stream > r.end {
		return true, nil
	}
	message := recalled(m)
	if at.Sequence.Stream == r.end {
		r.last = message.ID
	}
	if at.Sequence.Stream >= r.next && message.Stream != "" {
		if r.told = r.each(&message); r.told != nil {
			return false, r.told
		}
	}
	r.next = at.Sequence.Stream + 1
	return at.NumPending == 0, nil
}

// recalled is a message as it was published.
func recalled(m jetstream.Msg) sink.Message {
	message := sink.Message{Value: m.Data()}
	for name, values := range m.Headers() {
		if len(values) > 0 {
			message.SetHeader(name, values[0])
		}
	}
	return message
}

// deniedMessages reports whether an error of the server says that single messages may not be read.
func deniedMessages(err error) bool {
	return errors.Is(err, nats.ErrPermissionViolation) &&
		(strings.Contains(err.Error(), "JS.API.STREAM.MSG.GET") || strings.Contains(err.Error(), "JS.API.DIRECT.GET"))
}

// deniedReading reports whether an error of the server says that consumers may not be made or read.
func deniedReading(err error) bool {
	return errors.Is(err, nats.ErrPermissionViolation) && strings.Contains(err.Error(), "JS.API.CONSUMER")
}
