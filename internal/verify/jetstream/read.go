package jetstream

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"bridge/internal/verify"
)

// Read implements [verify.Bus], one stream after the other.
func (b *Bus) Read(ctx context.Context, each func(*verify.Message) error, progress func(done, total uint64)) error {
	var total, done uint64
	for _, s := range b.streams {
		info, err := b.info(ctx, s)
		if err != nil {
			return err
		}
		s.learn(info)
		s.end = info.State.LastSeq
		if s.Next < info.State.FirstSeq {
			s.Next = info.State.FirstSeq
		}
		total += s.left()
	}
	for i, s := range b.streams {
		left := s.left()
		if left > 0 {
			if err := b.readTo(ctx, i, each, func() { progress(done+left-s.left(), total) }); err != nil {
				return fmt.Errorf("read the stream %s: %w", s.Name, err)
			}
		}
		done += left
		progress(done, total)
	}
	return nil
}

func (s *stream) left() uint64 {
	if s.Next > s.end {
		return 0
	}
	return s.end - s.Next + 1
}

func (b *Bus) info(ctx context.Context, s *stream) (*jetstream.StreamInfo, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, answerWithin, errors.New("the server does not answer"))
	defer cancel()
	info, err := s.handle.Info(ctx)
	if err != nil {
		return nil, fmt.Errorf("look at the stream %s: %w", s.Name, cause(ctx, err))
	}
	return info, nil
}

// readTo reads a stream to its end.
func (b *Bus) readTo(ctx context.Context, index int, each func(*verify.Message) error, progress func()) error {
	s := b.streams[index]
	consumer, filtered, err := b.consume(ctx, s)
	if err != nil {
		return err
	}
	info, err := consumer.Info(ctx)
	if err != nil {
		return err
	}
	if info.NumPending+uint64(info.NumAckPending) == 0 {
		s.Next = s.end + 1
		return nil
	}
	messages, err := consumer.Messages()
	if err != nil {
		return err
	}
	defer messages.Stop()
	for n := 1; s.Next <= s.end; n++ {
		m, err := next(ctx, messages)
		if err != nil {
			return err
		}
		meta, err := m.Metadata()
		if err != nil {
			return err
		}
		if meta.Sequence.Stream > s.end {
			break
		}
		s.Next = meta.Sequence.Stream + 1
		if filtered || b.wanted(m.Subject()) {
			message := message(index, meta.Sequence.Stream, m.Data(), m.Headers())
			if err := each(&message); err != nil {
				return err
			}
		}
		if meta.NumPending == 0 {
			break
		}
		if n%progressEvery == 0 {
			progress()
		}
	}
	s.Next = s.end + 1
	return nil
}

// errNotSubset is the server's code for a filter that the stream's subjects do not cover.
const errNotSubset = 10093

// consume makes an ordered consumer of the subjects; filtered says that it delivers no others.
func (b *Bus) consume(ctx context.Context, s *stream) (consumer jetstream.Consumer, filtered bool, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, answerWithin, errors.New("the server does not answer"))
	defer cancel()
	config := jetstream.OrderedConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: s.Next, FilterSubjects: b.options.Subjects,
	}
	consumer, err = s.handle.OrderedConsumer(ctx, config)
	if refused, ok := errors.AsType[*jetstream.APIError](err); ok && refused.ErrorCode == errNotSubset {
		config.FilterSubjects = nil
		consumer, err = s.handle.OrderedConsumer(ctx, config)
		return consumer, false, cause(ctx, err)
	}
	if err != nil {
		return nil, false, cause(ctx, err)
	}
	return consumer, true, nil
}

// next waits for a message. The consumer mends itself when the connection comes back.
func next(ctx context.Context, messages jetstream.MessagesContext) (jetstream.Msg, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, silentFor, fmt.Errorf("no message came for %s though some are left", silentFor))
	defer cancel()
	for {
		m, err := messages.Next(jetstream.NextContext(ctx))
		switch {
		case err == nil:
			return m, nil
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case !errors.Is(err, jetstream.ErrNoHeartbeat) && !errors.Is(err, jetstream.ErrConsumerNotFound):
			return nil, err
		}
	}
}

func (b *Bus) wanted(subject string) bool {
	for _, pattern := range b.options.Subjects {
		if matches(pattern, subject) {
			return true
		}
	}
	return false
}

// matches reports whether a pattern with the wildcard * takes a subject.
func matches(pattern, subject string) bool {
	p, s := strings.Split(pattern, "."), strings.Split(subject, ".")
	if len(p) != len(s) {
		return false
	}
	for i := range p {
		if p[i] != "*" && p[i] != s[i] {
			return false
		}
	}
	return true
}

// message copies what is judged.
func message(index int, sequence uint64, value []byte, header nats.Header) verify.Message {
	m := verify.Message{Partition: index, At: sequence, Value: value}
	for name, values := range header {
		if len(values) > 0 {
			m.Header.Set(name, values[0])
		}
	}
	return m
}

// Fetch implements [verify.Bus].
func (b *Bus) Fetch(ctx context.Context, index int, at uint64) (*verify.Message, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, answerWithin, errors.New("the server does not answer"))
	defer cancel()
	raw, err := b.streams[index].handle.GetMsg(ctx, at)
	if err != nil {
		return nil, fmt.Errorf("fetch message %d of %s: %w", at, b.streams[index].Name, cause(ctx, err))
	}
	m := message(index, at, raw.Data, raw.Header)
	return &m, nil
}
